//! What starts PostgreSQL for the suite.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering::SeqCst};

use async_trait::async_trait;
use fencing::Token;
use recipes::conformance::{Fault, FaultyClient, Harness, Resource};
use tokio::sync::Mutex;

use super::PostgresClient;
use crate::broken::Broken;
use crate::proxy::Proxy;
use crate::servers::Postgres;

pub(crate) struct PostgresServer {
    server: Mutex<Postgres>,
    port: u16,
    tokens: AtomicU64,
}

// ===== impl PostgresServer =====

impl PostgresServer {
    pub(crate) async fn start() -> Self {
        let server = Postgres::start().await;
        let port = server.port;
        Self {
            server: Mutex::new(server),
            port,
            tokens: AtomicU64::new(0),
        }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

#[async_trait]
impl Harness for PostgresServer {
    async fn open(&self, name: &str) -> Arc<dyn Resource> {
        Arc::new(PostgresClient::connect(self.port, name).await)
    }

    async fn open_faulty(&self, name: &str, fault: Fault) -> Box<dyn FaultyClient> {
        let target = Arc::new(AtomicU16::new(self.port));
        // In the midst of the transaction, with the lock of the fence's row.
        let proxy = Proxy::start(target, fault, b"COMMIT").await;
        let resource = Arc::new(PostgresClient::connect(proxy.port, name).await);
        proxy.arm();
        Box::new(Broken { resource, proxy })
    }

    async fn next_token(&self, _: &str) -> Token {
        Token::scoped("life/e", self.tokens.fetch_add(1, SeqCst) + 1)
    }

    async fn crash(&self) -> u64 {
        u64::from(self.server.lock().await.crash().await == Some(9))
    }
}
