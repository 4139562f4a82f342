//! Authentication is turned off and on under clients that live.

use std::time::Duration;

use leader_election::{
    Election, ElectionConfig, Error, ErrorKind, Leader, Leadership, Loss,
    etcd::{EtcdElection, EtcdOptions},
};

use super::{proven, renewed};
use crate::{
    HANG, boot_time, campaign, config, lead,
    proxy::Proxy,
    queued,
    server::Etcd,
    soon,
    together::together,
    users::{
        AUTHENTICATE, RIGHT, refused, turn_off, turn_on, user, with_signed_tokens, with_users,
    },
};

const KV: &str = "grpc_service=\"etcdserverpb.KV\"";

/// Renews often, so that a test need not wait long, within a lease that does not end in it.
fn patient() -> ElectionConfig {
    config(20).with_renew_every(Duration::from_millis(250))
}

async fn join_as(endpoint: String, config: ElectionConfig, options: EtcdOptions) -> EtcdElection {
    let joined = EtcdElection::connect_with([endpoint], "e", config, options).await;
    joined.expect("settings and credentials are right")
}

together! {
    authentication_is_switched:
    clients_with_a_user_outlive_authentication_turned_off_and_on,
    clients_with_signed_tokens_outlive_authentication_turned_off_and_on,
    a_leader_without_a_user_outlives_no_more_than_its_lease,
}

async fn clients_with_a_user_outlive_authentication_turned_off_and_on() {
    let etcd = with_users("300").await;
    outlive("switched authentication", &etcd).await;
}

/// Those are too old after each switch.
async fn clients_with_signed_tokens_outlive_authentication_turned_off_and_on() {
    let (etcd, _dir) = with_signed_tokens().await;
    outlive("switched authentication with signed tokens", &etcd).await;
}

async fn outlive(fault: &str, etcd: &Etcd) {
    let proxy = Proxy::start(etcd.port()).await;
    let join = || join_as(proxy.endpoint(), patient(), user("candidate", RIGHT));
    let (first, second) = (join().await, join().await);
    let leader = lead(&first, b"a").await;
    let waits = campaign(&second, b"b");
    let mut seen = second.observe();
    queued(&first, 2).await;
    let off = || refused(etcd, AUTHENTICATE, "FailedPrecondition");
    let unnamed = || refused(etcd, KV, "InvalidArgument");
    let mut faults = 0;
    for value in [b"off and on", b"once again"] {
        let (offs, unnameds) = (off().await, unnamed().await);
        turn_off(etcd);
        renewed(&leader, 20).await;
        // What connects now finds nobody to log in as.
        proxy.cut(true);
        proxy.cut(false);
        renewed(&leader, 20).await;
        assert!(off().await > offs, "no login was refused");
        // One that is new, too.
        assert_eq!(join().await.candidates().await.unwrap().len(), 2);

        turn_on(etcd);
        renewed(&leader, 20).await;
        faults += unnamed().await - unnameds;
        assert!(faults > 0, "no call without a login was refused");
        let shown = |shown: &Option<Leader>| {
            let shown = shown.as_ref();
            shown.is_some_and(|leader| leader.value == value)
        };
        // Its connection may have an old login, which the first call finds out.
        let proclaimed = async { while leader.proclaim(value).await.is_err() {} };
        soon(proclaimed).await;
        soon(seen.wait_for(shown)).await.unwrap();
    }
    assert!(!waits.is_finished(), "it waits on");
    leader.resign().await;
    assert!(soon(waits).await.unwrap().token() > leader.token());
    proven(fault, faults);
}

/// It cannot read whether its key is there. Until its deadline nobody else leads.
async fn a_leader_without_a_user_outlives_no_more_than_its_lease() {
    let etcd = with_users("300").await;
    turn_off(&etcd);
    let config = config(3).with_renew_every(Duration::from_millis(250));
    let join = |options| join_as(etcd.endpoint(), config.clone(), options);
    let (nobody, other) = (
        join(EtcdOptions::default()).await,
        join(EtcdOptions::default()).await,
    );
    let named = join(user("candidate", RIGHT)).await;
    let leader = lead(&nobody, b"a").await;
    let unnamed = || refused(&etcd, KV, "InvalidArgument");

    // On and off again within its lease costs nothing.
    let before = unnamed().await;
    turn_on(&etcd);
    until_refused(&etcd, before).await;
    turn_off(&etcd);
    renewed(&leader, 3).await;

    let (before, waits, next) = (unnamed().await, wait(&other), campaign(&named, b"c"));
    queued(&named, 3).await;
    turn_on(&etcd);
    let error = soon(waits).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
    assert!(error.to_string().contains("give a user"), "{error}");
    assert_eq!(soon(leader.lost()).await, Loss::Expired);
    assert!(boot_time() >= leader.deadline());
    let next = soon(next).await.unwrap();
    assert!(next.token() > leader.token());
    proven("turned-on authentication", unnamed().await - before);
}

fn wait(election: &EtcdElection) -> tokio::task::JoinHandle<Result<Leadership, Error>> {
    let election = election.clone();
    tokio::spawn(async move { election.campaign(b"b").await })
}

async fn until_refused(etcd: &Etcd, before: u64) {
    let refused = async {
        while refused(etcd, KV, "InvalidArgument").await == before {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(HANG, refused)
        .await
        .expect("a call is refused");
}
