//! What starts etcd for the suite: as the store of the election, and as another one.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering::SeqCst};

use async_trait::async_trait;
use etcd_client::{Client, Txn, TxnOp};
use fencing::Token;
use recipes::conformance::{Fault, FaultyClient, Harness, Resource};
use tokio::sync::Mutex;

use super::{EtcdForeign, EtcdOwn, Keyed, Keys};
use crate::broken::Broken;
use crate::proxy::Proxy;
use crate::servers::Etcd;

/// What only the transaction of an entry holds.
const ENTRY: &[u8] = b"/journal/";

pub(crate) struct ForeignEtcd {
    server: Mutex<Etcd>,
    port: u16,
    tokens: AtomicU64,
}

/// Leaders' keys as the election writes them, but by hand: as many as a case wants.
pub(crate) struct OwnEtcd {
    server: Mutex<Etcd>,
    port: u16,
    keys: Keys,
    /// How many there were, by the name of the election.
    leaders: Mutex<HashMap<String, u64>>,
}

async fn client(port: u16) -> Client {
    let endpoint = format!("http://127.0.0.1:{port}");
    Box::pin(Client::connect([endpoint], None)).await.unwrap()
}

async fn faulty(port: u16, fault: Fault) -> (Proxy, Client) {
    let target = Arc::new(AtomicU16::new(port));
    let proxy = Proxy::start(target, fault, ENTRY).await;
    let client = client(proxy.port).await;
    proxy.arm();
    (proxy, client)
}

// ===== impl ForeignEtcd =====

impl ForeignEtcd {
    pub(crate) async fn start() -> Self {
        let server = Etcd::start().await;
        Self {
            port: server.port,
            server: Mutex::new(server),
            tokens: AtomicU64::new(0),
        }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

#[async_trait]
impl Harness for ForeignEtcd {
    async fn open(&self, name: &str) -> Arc<dyn Resource> {
        let (client, name) = (client(self.port).await, name.to_owned());
        Arc::new(EtcdForeign { client, name })
    }

    async fn open_faulty(&self, name: &str, fault: Fault) -> Box<dyn FaultyClient> {
        let (proxy, client) = faulty(self.port, fault).await;
        let name = name.to_owned();
        let resource = Arc::new(EtcdForeign { client, name });
        Box::new(Broken { resource, proxy })
    }

    async fn next_token(&self, _: &str) -> Token {
        Token::scoped("life/e", self.tokens.fetch_add(1, SeqCst) + 1)
    }

    async fn crash(&self) -> u64 {
        u64::from(self.server.lock().await.crash().await == Some(9))
    }
}

// ===== impl OwnEtcd =====

impl OwnEtcd {
    pub(crate) async fn start() -> Self {
        let server = Etcd::start().await;
        Self {
            port: server.port,
            server: Mutex::new(server),
            keys: Keys::default(),
            leaders: Mutex::default(),
        }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    fn resource(&self, client: Client, name: &str) -> Arc<dyn Resource> {
        let (name, keys) = (name.to_owned(), Arc::clone(&self.keys));
        Arc::new(EtcdOwn { client, name, keys })
    }
}

#[async_trait]
impl Harness for OwnEtcd {
    async fn open(&self, name: &str) -> Arc<dyn Resource> {
        self.resource(client(self.port).await, name)
    }

    async fn open_faulty(&self, name: &str, fault: Fault) -> Box<dyn FaultyClient> {
        let (proxy, client) = faulty(self.port, fault).await;
        let resource = self.resource(client, name);
        Box::new(Broken { resource, proxy })
    }

    async fn next_token(&self, name: &str) -> Token {
        // Held until the takeover is done: one follows the other.
        let mut leaders = self.leaders.lock().await;
        let leader = leaders.entry(name.to_owned()).or_default();
        let before = format!("{name}/{leader:x}");
        *leader += 1;
        let key = format!("{name}/{leader:x}");
        let takeover = Txn::new().and_then([
            TxnOp::put(format!("leader-election/life/{name}"), "life", None),
            TxnOp::delete(before, None),
            TxnOp::put(key.as_str(), "", None),
        ]);
        let mut client = client(self.port).await;
        let answer = client.txn(takeover).await.unwrap();
        let revision = answer.header().unwrap().revision();
        let token = Token::scoped(format!("life/{name}"), revision.unsigned_abs());
        self.keys.lock().unwrap().insert(token.clone(), key.into());
        token
    }

    fn takes_any_token(&self) -> bool {
        false
    }

    async fn crash(&self) -> u64 {
        u64::from(self.server.lock().await.crash().await == Some(9))
    }
}

impl Keyed for OwnEtcd {
    fn key_of(&self, token: &Token) -> Option<Vec<u8>> {
        self.keys.lock().unwrap().get(token).cloned()
    }
}
