//! The calls that a cycle takes, by hand: no task, no deadline, no retry, no loss.

use std::fmt;

use etcd_client::{
    Client, Compare, CompareOp, GetOptions, LeaseGrantOptions, PutOptions, SortOrder, SortTarget,
    Txn, TxnOp, TxnResponse,
};

use super::{Cycle, Etcd, TTL};

const LIFE: &str = "leader-election/life/raw";

/// The same operations as the crate's, one after the other and over two connections as
/// there: grant, put, read who is ahead, renew, read that the key is there, delete, revoke.
pub struct RawCalls {
    client: Client,
    renewals: Client,
    lease: i64,
}

/// Two transactions, the least that can be called a cycle: put if absent, delete.
pub struct TwoTxns {
    client: Client,
}

// ===== impl RawCalls =====

impl RawCalls {
    /// Connects.
    ///
    /// # Panics
    ///
    /// Where etcd does not serve.
    pub async fn connect(etcd: &Etcd) -> Self {
        let mut client = etcd.client().await;
        let put = client.put(LIFE, "0".repeat(32), None).await;
        put.expect("it is served");
        Self {
            client,
            renewals: etcd.client().await,
            lease: 1 << 62,
        }
    }

    async fn put(&mut self, key: &str) -> i64 {
        let lease = PutOptions::new().with_lease(self.lease);
        let life = TxnOp::get(LIFE, None);
        let txn = Txn::new()
            .when([
                Compare::create_revision(key, CompareOp::Equal, 0),
                Compare::create_revision(LIFE, CompareOp::Greater, 0),
            ])
            .and_then([TxnOp::put(key, "bench", Some(lease)), life.clone()])
            .or_else([TxnOp::get(key, None), life]);
        let answer = txn_of(&mut self.client, txn).await;
        answer.header().expect("a header").revision()
    }

    async fn renew(&mut self, key: &str) {
        let kept = self.renewals.lease_keep_alive(self.lease).await;
        let (mut keeper, mut answers) = kept.expect("it is served");
        keeper.keep_alive().await.expect("it is served");
        let answer = answers.message().await.expect("it is served");
        assert!(answer.expect("an answer").ttl() > 0);
        let txn = Txn::new().and_then(proof(key));
        assert!(txn_of(&mut self.renewals, txn).await.succeeded());
    }
}

impl Cycle for RawCalls {
    async fn cycle(&mut self) {
        self.lease += 1;
        let key = format!("raw/{:x}", self.lease);
        let options = LeaseGrantOptions::new().with_id(self.lease);
        let ttl = TTL.as_secs() as i64;
        let granted = self.client.lease_grant(ttl, Some(options)).await;
        granted.expect("it is served");
        let created = self.put(&key).await;
        let ahead = GetOptions::new()
            .with_prefix()
            .with_keys_only()
            .with_sort(SortTarget::Create, SortOrder::Descend)
            .with_max_create_revision(created - 1)
            .with_limit(8);
        let mut reads = proof(&key);
        reads.push(TxnOp::get("raw/", Some(ahead)));
        let view = txn_of(&mut self.client, Txn::new().and_then(reads)).await;
        assert!(view.succeeded());
        self.renew(&key).await;
        let delete = Txn::new()
            .when([Compare::create_revision(
                key.as_str(),
                CompareOp::Equal,
                created,
            )])
            .and_then([TxnOp::delete(key.as_str(), None)]);
        assert!(txn_of(&mut self.client, delete).await.succeeded());
        let revoked = self.client.lease_revoke(self.lease).await;
        revoked.expect("it is served");
    }
}

impl fmt::Debug for RawCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawCalls").finish_non_exhaustive()
    }
}

// ===== impl TwoTxns =====

impl TwoTxns {
    /// Connects.
    ///
    /// # Panics
    ///
    /// Where etcd does not serve.
    pub async fn connect(etcd: &Etcd) -> Self {
        Self {
            client: etcd.client().await,
        }
    }
}

impl Cycle for TwoTxns {
    async fn cycle(&mut self) {
        let key = "two/key";
        let put = Txn::new()
            .when([Compare::create_revision(key, CompareOp::Equal, 0)])
            .and_then([TxnOp::put(key, "bench", None)]);
        let put = txn_of(&mut self.client, put).await;
        assert!(put.succeeded());
        let created = put.header().expect("a header").revision();
        let delete = Txn::new()
            .when([Compare::create_revision(key, CompareOp::Equal, created)])
            .and_then([TxnOp::delete(key, None)]);
        assert!(txn_of(&mut self.client, delete).await.succeeded());
    }
}

impl fmt::Debug for TwoTxns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TwoTxns").finish_non_exhaustive()
    }
}

fn proof(key: &str) -> Vec<TxnOp> {
    let own = GetOptions::new().with_keys_only();
    vec![TxnOp::get(key, Some(own)), TxnOp::get(LIFE, None)]
}

async fn txn_of(client: &mut Client, txn: Txn) -> TxnResponse {
    client.txn(txn).await.expect("it is served")
}
