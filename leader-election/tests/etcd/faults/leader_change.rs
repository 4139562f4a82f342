//! etcd itself changes its leader, or a member is cut off from the others.

use leader_election::Loss;

use super::{proven, renewed};
use crate::{campaign, cluster::Cluster, join_at, lead, queued, soon, together::together};

const TTL: u64 = 6;

/// All endpoints, those of this member first.
fn endpoints(cluster: &Cluster, first: usize) -> Vec<String> {
    let mut all = cluster.endpoints();
    all.rotate_left(first);
    all
}

together! {
    members_of_etcd_come_and_go:
    a_leader_outlives_a_stopped_leader_of_etcd,
    a_cluster_without_a_majority_is_an_etcd_that_is_stopped,
    a_client_of_a_cut_off_member_moves_to_another,
}

async fn a_leader_outlives_a_stopped_leader_of_etcd() {
    let cluster = Cluster::start().await;
    let etcds_leader = cluster.leader().await;
    let election = join_at(&endpoints(&cluster, etcds_leader), TTL).await;
    let leadership = lead(&election, b"a").await;
    let waits = campaign(&election, b"b");
    queued(&election, 2).await;
    let token = leadership.token();
    cluster.members[etcds_leader].stop();
    renewed(&leadership, TTL).await;
    let stopped = cluster.members[etcds_leader].stopped_threads();
    assert_eq!(leadership.token(), token);
    // The one that waits has moved, too.
    leadership.resign().await;
    assert!(soon(waits).await.unwrap().token() > token);
    proven("etcd leader change", stopped);
}

async fn a_cluster_without_a_majority_is_an_etcd_that_is_stopped() {
    let cluster = Cluster::start().await;
    let election = join_at(&endpoints(&cluster, 2), 2).await;
    let leadership = lead(&election, b"a").await;
    let mut stopped = 0;
    for member in &cluster.members[..2] {
        member.stop();
    }
    assert_eq!(soon(leadership.lost()).await, Loss::Expired);
    for member in &cluster.members[..2] {
        stopped += member.stopped_threads();
        member.go_on();
    }
    assert!(lead(&election, b"a").await.token() > leadership.token());
    proven("no majority", stopped);
}

async fn a_client_of_a_cut_off_member_moves_to_another() {
    let cluster = Cluster::start().await;
    let cut_off = (cluster.leader().await + 1) % 3;
    let election = join_at(&endpoints(&cluster, cut_off), TTL).await;
    let leadership = lead(&election, b"a").await;
    let waits = campaign(&election, b"b");
    queued(&election, 2).await;
    let token = leadership.token();
    cluster.cut_off(cut_off).await;
    renewed(&leadership, TTL).await;
    assert_eq!(leadership.token(), token);
    leadership.resign().await;
    assert!(soon(waits).await.unwrap().token() > token);
    proven("member cut off", cluster.severed());
}
