//! E09: one endpoint is dead, one is mute.

use std::time::Duration;

use leader_election::{ElectionConfig, Leadership, etcd::EtcdElection};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch::{self, Receiver},
    task::JoinHandle,
    time::{Instant, sleep},
};

use super::passed;
use crate::{
    config, lead,
    server::{Etcd, free_port},
    soak, soon,
};

/// Accepts and never writes; counts.
struct Mute {
    port: u16,
    accepted: Receiver<u64>,
    task: JoinHandle<()>,
}

impl Mute {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (count, accepted) = watch::channel(0);
        let task = tokio::spawn(async move {
            let mut all: Vec<TcpStream> = Vec::new();
            while let Ok((stream, _)) = listener.accept().await {
                all.push(stream);
                count.send_modify(|count| *count += 1);
            }
        });
        Self {
            port,
            accepted,
            task,
        }
    }
}

impl Drop for Mute {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A lease so long that the renew timeout of 10 s is useless as a bound, renewed often.
fn settings() -> ElectionConfig {
    config(60).with_renew_every(Duration::from_millis(500))
}

/// A leader, and when its renewals were confirmed.
struct Led {
    election: EtcdElection,
    leadership: Leadership,
    confirmed: Receiver<u64>,
}

impl Led {
    async fn start(name: &str, ports: &[u16]) -> Self {
        let endpoints = ports.iter().map(|port| format!("http://127.0.0.1:{port}"));
        let began = Instant::now();
        let election = EtcdElection::connect(endpoints, name, settings()).await;
        let election = election.unwrap();
        let leadership = lead(&election, b"a").await;
        let took = began.elapsed();
        assert!(took < Duration::from_secs(5), "{name}: {took:?}");
        let (count, confirmed) = watch::channel(0);
        leadership.follow(move |_| count.send_modify(|count| *count += 1));
        Self {
            election,
            leadership,
            confirmed,
        }
    }

    /// Waits for a renewal after so many.
    async fn renewed_after(&mut self, seen: u64) {
        let later = self.confirmed.wait_for(|count| *count > seen);
        soon(later).await.unwrap();
    }

    /// Makes calls for as long as etcd is away; none takes longer than the limit.
    async fn calls_fail_in_time(&self, outage: Duration) {
        let began = Instant::now();
        let limit = settings().renew_timeout;
        while began.elapsed() < outage {
            let called = Instant::now();
            assert!(self.election.candidates().await.is_err());
            assert!(called.elapsed() < limit + Duration::from_millis(500));
            sleep(Duration::from_millis(50)).await;
        }
    }
}

pub(super) async fn dead_and_mute_endpoints_hold_nothing_up() {
    let (leading, outage) = if soak() { (30, 5) } else { (1, 2) };
    let mut etcd = Etcd::start().await;
    let mute = Mute::start().await;
    let (dead, live) = (free_port(), etcd.port());
    let mut all = [
        Led::start("dead-mute-live", &[dead, mute.port, live]).await,
        Led::start("mute-live-dead", &[mute.port, live, dead]).await,
        Led::start("live-mute-dead", &[live, mute.port, dead]).await,
    ];
    let tokens: Vec<_> = all.iter().map(|one| one.leadership.token()).collect();
    let tried = *mute.accepted.borrow();
    sleep(Duration::from_secs(leading)).await;
    etcd.kill();
    all[0].calls_fail_in_time(Duration::from_secs(outage)).await;
    let seen = all.each_ref().map(|one| *one.confirmed.borrow());
    etcd.restart().await;
    let restarted = Instant::now();
    for (one, seen) in all.iter_mut().zip(seen) {
        one.renewed_after(seen).await;
        let took = restarted.elapsed();
        println!("renewed {took:?} after the restart");
        assert!(took < Duration::from_secs(2), "{took:?}");
        assert!(one.leadership.is_valid());
    }
    let now: Vec<_> = all.iter().map(|one| one.leadership.token()).collect();
    assert_eq!(tokens, now);
    assert!(*mute.accepted.borrow() > tried, "tried in the outage");
    passed("E09", *mute.accepted.borrow());
}
