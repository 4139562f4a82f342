//! Elections on an etcd of their own, and what they are compared with.

mod cycle;
mod raw;
mod server;

use std::{
    io::{Write, stdin, stdout},
    time::Duration,
};

use leader_election::{Election, ElectionConfig, etcd::EtcdElection};

pub use cycle::{Cycle, ElectionCall, Ours};
pub use raw::{RawCalls, TwoTxns};
pub use server::Etcd;

/// The length of the leases of all cycles; none is renewed for its age.
const TTL: Duration = Duration::from_secs(10);

/// Campaigns as a process of its own: writes a line once it leads, and resigns at a line
/// of its input, or at its end.
///
/// # Panics
///
/// Where the campaign is refused.
pub async fn candidate(endpoint: &str, name: &str, ttl: Duration) {
    let config = ElectionConfig::for_ttl(ttl);
    let election = EtcdElection::connect([endpoint.to_owned()], name, config).await;
    let election = election.expect("the settings are right");
    let leadership = election.campaign(b"bench").await.expect("it is served");
    let mut out = stdout();
    writeln!(out, "leads").expect("the parent reads");
    out.flush().expect("the parent reads");
    let told = tokio::task::spawn_blocking(|| stdin().read_line(&mut String::new()));
    // An end or an error of the input means the same as a line.
    let _ = told.await;
    leadership.resign().await;
}
