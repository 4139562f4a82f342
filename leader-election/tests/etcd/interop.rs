//! Hunts what separates this crate's candidates from those of `etcdctl elect`, which
//! are of etcd's own Go package: both must queue behind each other.

use std::{process::Stdio, time::Duration};

use leader_election::{Election, Leadership, Resigned, etcd::EtcdElection};
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child as Process, ChildStdout, Command},
    task::JoinHandle,
};

use crate::{
    campaign,
    child::{News, Orders, Words},
    join, key_and_lease, lead, queued,
    server::{Etcd, signal},
    soon,
};

const HAND_OVERS: usize = 20;

/// A running `etcdctl elect`; killed on drop.
struct Ctl {
    process: Process,
    lines: Lines<BufReader<ChildStdout>>,
}

// ===== impl Ctl =====

impl Ctl {
    fn start(etcd: &Etcd, arguments: &[&str]) -> Self {
        let mut process = Command::from(etcd.ctl_command(arguments))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the package etcd-client is installed");
        let stdout = process.stdout.take().expect("piped");
        let lines = BufReader::new(stdout).lines();
        Self { process, lines }
    }

    fn campaign(etcd: &Etcd, value: &str) -> Self {
        Self::start(etcd, &["elect", "e", value])
    }

    fn listen(etcd: &Etcd) -> Self {
        Self::start(etcd, &["elect", "-l", "e"])
    }

    /// Waits until it prints a leader: its own key once it leads, else what it sees.
    async fn prints(&mut self) -> (String, String) {
        let key = self.line().await;
        (key, self.line().await)
    }

    async fn line(&mut self) -> String {
        let line = soon(self.lines.next_line()).await.expect("text");
        line.expect("etcdctl runs on")
    }

    /// Sends SIGINT: it gives up its key and ends.
    async fn interrupt(&mut self) {
        signal(self.process.id().expect("runs"), "INT");
        soon(self.process.wait()).await.expect("own child");
    }

    async fn kill(&mut self) {
        self.process.kill().await.expect("own child");
    }
}

/// Revokes the lease of a key. The one of a killed `etcdctl` lasts for 60 s, and there
/// is no flag for it.
fn revoke_lease_of(etcd: &Etcd, key: &str) {
    let (_, lease) = key.rsplit_once('/').expect("a candidate's key");
    etcd.ctl(&["lease", "revoke", lease]);
}

/// Starts the standby once the leader is known, so that the queue is in this order.
async fn standby(election: &EtcdElection) -> JoinHandle<Leadership> {
    let standby = campaign(election, b"ours");
    queued(election, 2).await;
    standby
}

#[tokio::test(flavor = "multi_thread")]
async fn leadership_goes_to_and_fro_between_etcdctl_and_ours() {
    let etcd = Etcd::start().await;
    let election = join(&etcd, 10).await;
    let mut leadership = lead(&election, b"ours").await;
    for _ in 0..HAND_OVERS {
        let mut theirs = Ctl::campaign(&etcd, "theirs");
        queued(&election, 2).await;
        let waits = election.candidates().await.unwrap()[1].clone();
        assert_eq!(waits.value, b"theirs");
        assert!(leadership.is_valid());
        assert_eq!(leadership.resign().await, Resigned::Released);
        let (_, value) = theirs.prints().await;
        assert_eq!(value, "theirs");

        let ours = standby(&election).await;
        assert!(!ours.is_finished(), "etcdctl leads");
        theirs.interrupt().await;
        let next = soon(ours).await.unwrap();
        assert!(next.token() > waits.token && waits.token > leadership.token());
        leadership = next;
    }
    println!("{HAND_OVERS} hand-overs to etcdctl and {HAND_OVERS} from it");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_side_sees_the_other_ones_leader_and_its_values() {
    let etcd = Etcd::start().await;
    let election = join(&etcd, 10).await;
    let mut seen = election.observe();
    let leadership = lead(&election, b"ours").await;
    let key = String::from_utf8(election.leader_key(&leadership)).unwrap();
    let mut listener = Ctl::listen(&etcd);
    assert_eq!(listener.prints().await, (key.clone(), "ours".to_owned()));
    leadership.proclaim(b"ours, newer").await.unwrap();
    let newer = (key, "ours, newer".to_owned());
    assert_eq!(listener.prints().await, newer);

    let mut theirs = Ctl::campaign(&etcd, "theirs");
    queued(&election, 2).await;
    leadership.resign().await;
    let won = theirs.prints().await;
    assert_eq!(won.1, "theirs");
    assert_eq!(listener.prints().await, won);
    let is_theirs = |leader: &Option<leader_election::Leader>| {
        leader
            .as_ref()
            .is_some_and(|leader| leader.value == b"theirs")
    };
    let shown = soon(seen.wait_for(is_theirs)).await.unwrap().clone();
    let shown = shown.unwrap();
    assert!(shown.token > leadership.token());
    assert_eq!(shown.scope, leadership.scope());
    theirs.interrupt().await;
    soon(seen.wait_for(Option::is_none)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_etcdctl_is_followed_once_its_lease_is_gone() {
    let etcd = Etcd::start().await;
    let election = join(&etcd, 10).await;
    let mut theirs = Ctl::campaign(&etcd, "theirs");
    let (key, _) = theirs.prints().await;
    let ours = standby(&election).await;
    theirs.kill().await;
    revoke_lease_of(&etcd, &key);
    let leadership = soon(ours).await.unwrap();

    // One that is killed while it waits holds up whoever is behind it, no longer.
    let mut waits = Ctl::campaign(&etcd, "theirs");
    queued(&election, 2).await;
    let behind = campaign(&election, b"ours");
    queued(&election, 3).await;
    waits.kill().await;
    let token = election.candidates().await.unwrap()[1].token;
    let (stale, _) = key_and_lease(&etcd, token).await;
    leadership.resign().await;
    assert!(!behind.is_finished(), "a killed etcdctl is before it");
    revoke_lease_of(&etcd, str::from_utf8(&stale).unwrap());
    assert!(soon(behind).await.unwrap().token() > token);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_etcdctl_leaves_the_queue() {
    let etcd = Etcd::start().await;
    let election = join(&etcd, 10).await;
    let leadership = lead(&election, b"ours").await;
    let mut waits = Ctl::campaign(&etcd, "theirs");
    queued(&election, 2).await;
    let behind = campaign(&election, b"ours");
    queued(&election, 3).await;
    waits.interrupt().await;
    queued(&election, 2).await;
    leadership.resign().await;
    assert!(soon(behind).await.unwrap().is_valid());
}

#[tokio::test(flavor = "multi_thread")]
async fn etcdctl_follows_ours_that_was_killed_or_interrupted() {
    let etcd = Etcd::start().await;
    let election = join(&etcd, 10).await;
    let endpoints = [etcd.endpoint()];
    let orders = Orders::new(&endpoints, 1, "ours");
    for kills in [true, false] {
        let mut words = Words::new();
        let mut ours = words.start(0, &orders);
        words
            .until(|_, said| matches!(said, News::Leads { .. }))
            .await;
        let mut theirs = Ctl::campaign(&etcd, "theirs");
        queued(&election, 2).await;
        let began = tokio::time::Instant::now();
        if kills {
            ours.kill().await;
        } else {
            ours.ask("INT");
            words
                .until(|_, said| matches!(said, News::Resigned { .. }))
                .await;
        }
        assert_eq!(theirs.prints().await.1, "theirs");
        let took = began.elapsed();
        println!("etcdctl leads {took:?} after ours, killed: {kills}");
        assert!(took < Duration::from_secs(3), "{took:?}");
        theirs.interrupt().await;
    }
}
