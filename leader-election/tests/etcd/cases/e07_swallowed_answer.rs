//! E07: one stalled renewal must not cost the leadership.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use leader_election::ElectionConfig;
use tokio::time::{Instant, sleep};

use super::passed;
use crate::{boot_time, join_at, lead, proxy::Proxy, server::Etcd, soak, soon};

pub(super) async fn a_swallowed_answer_costs_one_attempt_and_no_leadership() {
    let (ttl, faults, pause) = if soak() { (6, 3, 10) } else { (3, 2, 1) };
    let ttl = Duration::from_secs(ttl);
    let limits = ElectionConfig::for_ttl(ttl);
    let etcd = Etcd::start().await;
    let proxy = Proxy::start(etcd.port()).await;
    let election = join_at(&[proxy.endpoint()], ttl.as_secs()).await;
    let leadership = lead(&election, b"a").await;
    let token = leadership.token();
    let confirmed = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&confirmed);
    leadership.follow(move |deadline| notes.lock().unwrap().push((boot_time(), deadline)));

    for fault in 0..faults {
        let before = proxy.swallowed();
        // Renewals are the youngest connection: each fault replaces theirs.
        proxy.mute(proxy.connections());
        let swallowed = async {
            while proxy.swallowed() == before {
                sleep(Duration::from_millis(5)).await;
            }
        };
        soon(swallowed).await;
        let at = boot_time();
        let count = confirmed.lock().unwrap().len();
        let again = async {
            while confirmed.lock().unwrap().len() == count {
                sleep(Duration::from_millis(5)).await;
            }
        };
        soon(again).await;
        let (when, _) = confirmed.lock().unwrap()[count];
        // The attempt's own limit, then the next one; two fit into what is left.
        assert!(
            when - at < 2 * limits.renew_timeout,
            "fault {fault} took {:?}",
            when - at
        );
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(pause) {
            assert!(leadership.is_valid());
            sleep(Duration::from_millis(20)).await;
        }
    }
    assert_eq!(leadership.token(), token);
    let deadlines = confirmed.lock().unwrap();
    assert!(deadlines.windows(2).all(|pair| pair[0].1 <= pair[1].1));
    // The two of the start, and at least one for each fault.
    assert!(proxy.connections() >= 2 + faults);
    passed("E07", proxy.swallowed());
}
