//! Hunts tokens of a rebuilt store that are compared with those of before, and resources
//! that stay shut after the operator's step.

use std::sync::Arc;
use std::time::Duration;

use fencing::Token;
use leader_election::{Election, ElectionConfig, Leadership, etcd::EtcdElection};
use recipes::conformance::{Harness, Resource};
use recipes::{WriteError, etcd_own};
use tempfile::TempDir;
use tokio::time::timeout;

use crate::resources::{ForeignEtcd, Kind, PostgresServer, Served};
use crate::servers::Etcd;

const ELECTION: &str = "e";
const HANG: Duration = Duration::from_secs(60);

async fn join(etcd: &Etcd) -> EtcdElection {
    let config = ElectionConfig::for_ttl(Duration::from_secs(30));
    let election = Box::pin(EtcdElection::connect([etcd.endpoint()], ELECTION, config));
    election.await.unwrap()
}

async fn lead(election: &EtcdElection) -> Leadership {
    let won = timeout(HANG, election.campaign(b"n"));
    won.await.expect("it leads").unwrap()
}

fn token(leadership: &Leadership) -> Token {
    Token::scoped(leadership.scope(), leadership.token())
}

/// Every resource that is not in the store of the tokens, and what keeps it.
struct Resources {
    all: Vec<(&'static str, Arc<dyn Resource>)>,
    _harnesses: Vec<Box<dyn Harness>>,
}

impl Resources {
    async fn open() -> Self {
        let harnesses: [(&'static str, Box<dyn Harness>); 6] = [
            ("sqlite", Box::new(Served::start(Kind::Sqlite).await)),
            ("file", Box::new(Served::start(Kind::File).await)),
            ("local", Box::new(Served::start(Kind::LocalObjects).await)),
            ("memory", Box::new(Served::start(Kind::MemoryObjects).await)),
            ("postgres", Box::new(PostgresServer::start().await)),
            ("etcd", Box::new(ForeignEtcd::start().await)),
        ];
        let mut all = Vec::new();
        for (name, harness) in &harnesses {
            all.push((*name, harness.open("rebuilt").await));
        }
        let _harnesses = harnesses.into_iter().map(|(_, harness)| harness).collect();
        Self { all, _harnesses }
    }

    async fn write(&self, token: &Token, id: &str) {
        for (name, resource) in &self.all {
            let written = resource.append(token, id, id.as_bytes()).await;
            assert!(written.is_ok(), "{name}: {id}: {written:?}");
        }
    }

    /// Expects the token to be refused, with a text that says what to do.
    async fn refuse(&self, token: &Token) {
        for (name, resource) in &self.all {
            let refused = resource.append(token, "refused", b"").await;
            let Err(error @ WriteError::WrongScope { .. }) = refused else {
                panic!("{name}: {token}: {refused:?}");
            };
            let step = format!("reset({:?})", token.scope());
            assert!(error.to_string().contains(&step), "{name}: {error}");
        }
    }

    async fn reset(&self, scope: &str) {
        for (name, resource) in &self.all {
            let reset = resource.reset(scope).await;
            assert!(reset.is_ok(), "{name}: {reset:?}");
        }
    }

    async fn hold(&self, ids: &[&str]) {
        for (name, resource) in &self.all {
            let entries = resource.entries().await;
            let found: Vec<_> = entries.iter().map(|entry| entry.id.as_str()).collect();
            assert_eq!(found, ids, "{name}");
        }
    }
}

/// What follows once the store is rebuilt: refused, reset, and then everything runs.
async fn goes_on(resources: &Resources, old: &Token, new: &Token) {
    assert_ne!(old.scope(), new.scope());
    resources.refuse(new).await;
    resources.write(old, "b").await;
    resources.reset(new.scope()).await;
    resources.write(new, "c").await;
    resources.refuse(old).await;
    resources
        .refuse(&Token::scoped("a bad client's", u64::MAX))
        .await;
    resources.write(new, "d").await;
    resources.hold(&["a", "b", "c", "d"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wiped_store_needs_one_reset_of_each_resource() {
    let (mut etcd, resources) = (Etcd::start().await, Resources::open().await);
    let election = join(&etcd).await;
    for _ in 0..3 {
        lead(&election).await.resign().await;
    }
    let old = token(&lead(&election).await);
    resources.write(&old, "a").await;
    etcd.wipe().await;
    // Another process: it has seen nothing of before.
    let new = token(&lead(&join(&etcd).await).await);
    assert!(new.number() < old.number(), "{new} starts low");
    goes_on(&resources, &old, &new).await;
    println!("CASE wiped-store fault={}", old.number() - new.number());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_store_needs_a_new_life_and_one_reset_of_each_resource() {
    let (mut etcd, resources) = (Etcd::start().await, Resources::open().await);
    let folder = TempDir::new().unwrap();
    let snapshot = folder.path().join("snapshot");
    let election = join(&etcd).await;
    // In the snapshot a leader still leads.
    let ghost = lead(&election).await;
    let ghost_writes = etcd_own::Leader::new(&election, &ghost);
    let client = etcd.client().await;
    etcd_own::append(&client, "own", &ghost_writes, "a", b"a")
        .await
        .unwrap();
    etcd.save(&snapshot);
    ghost.resign().await;
    for _ in 0..3 {
        lead(&election).await.resign().await;
    }
    let old = token(&lead(&election).await);
    resources.write(&old, "a").await;
    etcd.restore(&snapshot).await;
    let client = etcd.client().await;
    // It is there again, with its revision: only the life tells it from a leader.
    etcd_own::confirm(&client, &ghost_writes).await.unwrap();
    etcd_own::reset(&client, ELECTION).await.unwrap();
    let refused = etcd_own::append(&client, "own", &ghost_writes, "late", b"").await;
    assert!(
        matches!(refused, Err(WriteError::WrongScope { .. })),
        "{refused:?}"
    );
    client
        .kv_client()
        .delete(ghost_writes.key.as_slice(), None)
        .await
        .unwrap();
    let election = join(&etcd).await;
    let leadership = lead(&election).await;
    let new = token(&leadership);
    assert!(new.number() < old.number(), "{new} starts low");
    goes_on(&resources, &old, &new).await;
    let leader = etcd_own::Leader::new(&election, &leadership);
    etcd_own::append(&client, "own", &leader, "b", b"b")
        .await
        .unwrap();
    let entries = etcd_own::entries(&client, "own").await.unwrap();
    let ids: Vec<_> = entries.iter().map(|entry| entry.id.as_str()).collect();
    assert_eq!(ids, ["a", "b"]);
    println!("CASE restored-store fault={}", old.number() - new.number());
}
