//! Clients of the servers.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use etcd_client::Client;
use fencing::Token;
use recipes::conformance::Resource;
use recipes::{Entry, WriteError, etcd_foreign, etcd_own, postgres};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use crate::servers::Postgres;

/// The keys of leaders, by their tokens.
pub(crate) type Keys = Arc<std::sync::Mutex<HashMap<Token, Vec<u8>>>>;

pub(crate) struct EtcdForeign {
    pub(crate) client: Client,
    pub(crate) name: String,
}

#[async_trait]
impl Resource for EtcdForeign {
    async fn raise(&self, token: &Token) -> Result<(), WriteError> {
        etcd_foreign::raise(&self.client, &self.name, token).await
    }

    async fn append(&self, token: &Token, id: &str, value: &[u8]) -> Result<(), WriteError> {
        etcd_foreign::append(&self.client, &self.name, token, id, value).await
    }

    async fn reset(&self, scope: &str) -> Result<(), WriteError> {
        etcd_foreign::reset(&self.client, &self.name, scope).await
    }

    async fn entries(&self) -> Vec<Entry> {
        etcd_foreign::entries(&self.client, &self.name)
            .await
            .unwrap()
    }
}

/// The name of the resource is that of the election, too.
pub(crate) struct EtcdOwn {
    pub(crate) client: Client,
    pub(crate) name: String,
    pub(crate) keys: Keys,
}

// ===== impl EtcdOwn =====

impl EtcdOwn {
    fn leader(&self, token: &Token) -> etcd_own::Leader {
        let key = self.keys.lock().unwrap().get(token).cloned();
        etcd_own::Leader::from_parts(key.unwrap_or_else(|| b"no key".to_vec()), token.clone())
    }
}

#[async_trait]
impl Resource for EtcdOwn {
    async fn raise(&self, token: &Token) -> Result<(), WriteError> {
        etcd_own::confirm(&self.client, &self.leader(token)).await
    }

    async fn append(&self, token: &Token, id: &str, value: &[u8]) -> Result<(), WriteError> {
        etcd_own::append(&self.client, &self.name, &self.leader(token), id, value).await
    }

    async fn reset(&self, _: &str) -> Result<(), WriteError> {
        let reset = etcd_own::reset(&self.client, &self.name).await;
        reset.map_err(|error| WriteError::Unknown(error.into()))
    }

    async fn entries(&self) -> Vec<Entry> {
        etcd_own::entries(&self.client, &self.name).await.unwrap()
    }
}

/// A client that connects again after an unknown outcome, as the recipe says.
pub(crate) struct PostgresClient {
    port: u16,
    name: String,
    session: Mutex<Option<Session>>,
}

/// Ended at once on drop, whatever it waits for.
struct Session {
    client: tokio_postgres::Client,
    task: JoinHandle<()>,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.task.abort();
    }
}

// ===== impl PostgresClient =====

impl PostgresClient {
    pub(crate) async fn connect(port: u16, name: &str) -> Self {
        let session = Some(Session::connect(port).await.unwrap());
        Self {
            port,
            name: name.to_owned(),
            session: Mutex::new(session),
        }
    }

    /// One whose call was dropped is not put back.
    async fn take(&self, slot: &mut Option<Session>) -> Result<Session, WriteError> {
        match slot.take() {
            Some(session) => Ok(session),
            None => Session::connect(self.port).await,
        }
    }
}

// ===== impl Session =====

impl Session {
    async fn connect(port: u16) -> Result<Self, WriteError> {
        let connected = postgres::connect(&Postgres::config(port)).await;
        let (client, task) = connected.map_err(|error| WriteError::Failed(error.into()))?;
        Ok(Self { client, task })
    }

    /// Puts it back where another call may use it.
    fn keep<T>(
        self,
        slot: &mut Option<Self>,
        outcome: Result<T, WriteError>,
    ) -> Result<T, WriteError> {
        if !matches!(outcome, Err(WriteError::Unknown(_))) {
            *slot = Some(self);
        }
        outcome
    }
}

#[async_trait]
impl Resource for PostgresClient {
    async fn raise(&self, token: &Token) -> Result<(), WriteError> {
        let mut slot = self.session.lock().await;
        let mut session = self.take(&mut slot).await?;
        let outcome = postgres::raise(&mut session.client, &self.name, token).await;
        session.keep(&mut slot, outcome)
    }

    async fn append(&self, token: &Token, id: &str, value: &[u8]) -> Result<(), WriteError> {
        let mut slot = self.session.lock().await;
        let mut session = self.take(&mut slot).await?;
        let db = &mut session.client;
        let outcome = postgres::append(db, &self.name, token, id, value).await;
        session.keep(&mut slot, outcome)
    }

    async fn reset(&self, scope: &str) -> Result<(), WriteError> {
        let mut slot = self.session.lock().await;
        let session = self.take(&mut slot).await?;
        let outcome = postgres::reset(&session.client, &self.name, scope).await;
        session.keep(&mut slot, outcome)
    }

    async fn entries(&self) -> Vec<Entry> {
        let mut slot = self.session.lock().await;
        let session = self.take(&mut slot).await.unwrap();
        let entries = postgres::entries(&session.client, &self.name).await;
        *slot = Some(session);
        entries.unwrap()
    }
}
