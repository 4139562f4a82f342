//! Campaigns that are won at once, and resigned.

use std::fmt;

use etcd_client::{Client, ElectionClient, ResignOptions};
use leader_election::{Election, ElectionConfig, Resigned, etcd::EtcdElection};

use super::{Etcd, TTL};

/// Something that can lead and stop leading, again and again, without a rival.
pub trait Cycle {
    /// Leads, and gives it back.
    fn cycle(&mut self) -> impl Future<Output = ()> + Send;
}

/// The crate.
#[derive(Debug)]
pub struct Ours {
    election: EtcdElection,
}

/// etcd's own election call, on a lease that is kept: no grant, no check that the key is
/// there, no renewal, no revoke.
pub struct ElectionCall {
    client: ElectionClient,
    lease: i64,
}

// ===== impl Ours =====

impl Ours {
    /// Connects.
    ///
    /// # Panics
    ///
    /// Where etcd does not serve.
    pub async fn connect(etcd: &Etcd) -> Self {
        let config = ElectionConfig::for_ttl(TTL);
        let election = EtcdElection::connect([etcd.endpoint()], "ours", config).await;
        Self {
            election: election.expect("the settings are right"),
        }
    }
}

impl Cycle for Ours {
    async fn cycle(&mut self) {
        let leadership = self.election.campaign(b"bench").await;
        let leadership = leadership.expect("it is served");
        assert_eq!(leadership.resign().await, Resigned::Released);
    }
}

// ===== impl ElectionCall =====

impl ElectionCall {
    /// Connects, and takes a lease that outlives the measurement.
    ///
    /// # Panics
    ///
    /// Where etcd does not serve.
    pub async fn connect(etcd: &Etcd) -> Self {
        let mut client: Client = etcd.client().await;
        let lease = client.lease_grant(3600, None).await;
        Self {
            client: client.election_client(),
            lease: lease.expect("it is served").id(),
        }
    }
}

impl Cycle for ElectionCall {
    async fn cycle(&mut self) {
        let won = self.client.campaign("call", "bench", self.lease).await;
        let mut won = won.expect("it is served");
        let key = won.take_leader().expect("it is won");
        let options = ResignOptions::new().with_leader(key);
        let resigned = self.client.resign(Some(options)).await;
        resigned.expect("it is served");
    }
}

impl fmt::Debug for ElectionCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ElectionCall").finish_non_exhaustive()
    }
}
