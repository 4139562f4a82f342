//! Workers that are removed in whatever phase: nothing of them is left.

use bidi_session::Direction;
use bidi_session::memory::Network;
use bidi_session::{EventKind, Phase};
use tokio::time::Instant;

use crate::rig::{millis, next, pool, serve_echo, tasks};

/// Waits until the tasks of removed workers have ended; their connections hear of it.
async fn settle() {
    tokio::time::sleep(millis(1_000)).await;
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_inserts_and_removals_leave_no_task() {
    let network = Network::new(1);
    for worker in 0..4 {
        serve_echo(&network, &format!("up{worker}"), 1);
    }
    network.hang("hangs");
    serve_echo(&network, "slow", 1);
    network.delay("slow", Direction::FromWorker, millis(300)..=millis(600));
    let (pool, mut events) = pool(&network, 1);
    let before = tasks();
    let mut random = fastrand::Rng::with_seed(1);
    let mut phases = std::collections::HashMap::<Phase, u32>::new();
    for number in 0..10_000_u32 {
        let name = match number % 7 {
            up @ 0..4 => format!("up{up}"),
            4 => "hangs".to_owned(),
            5 => "slow".to_owned(),
            _ => "absent".to_owned(),
        };
        pool.insert(name.as_str(), name.clone());
        if random.bool() {
            tokio::time::sleep(millis(random.u64(..400))).await;
        }
        let state = pool.state(&name).unwrap();
        *phases.entry(state.phase).or_default() += 1;
        assert!(pool.remove(&name));
        if number.is_multiple_of(100) {
            while events.try_recv().is_some() {}
        }
    }
    for phase in [Phase::Waiting, Phase::Connecting, Phase::Up] {
        assert!(phases[&phase] > 500, "{phases:?}");
    }
    settle().await;
    assert_eq!(tasks(), before);
}

#[tokio::test(start_paused = true)]
async fn a_removal_is_told_at_once_in_each_phase_and_is_the_last_event() {
    for (phase, prepare) in [
        (Phase::Waiting, (|_: &Network| {}) as fn(&Network)),
        (Phase::Connecting, |network| network.hang("a")),
        (Phase::Up, |network| serve_echo(network, "a", 1)),
        (Phase::Blocked, serve_another),
    ] {
        let network = Network::new(1);
        prepare(&network);
        let (pool, mut events) = pool(&network, 1);
        pool.insert("a", "a".to_owned());
        tokio::time::sleep(millis(50)).await;
        assert_eq!(pool.state("a").unwrap().phase, phase);
        let start = Instant::now();
        assert!(pool.remove("a"));
        while next(&mut events).await.kind != EventKind::Removed {}
        assert!(start.elapsed() <= millis(50));
        let dials = network.counts("a").dials;
        tokio::time::sleep(millis(60_000)).await;
        assert_eq!(events.try_recv(), None);
        assert_eq!(network.counts("a").dials, dials);
    }
}

fn serve_another(network: &Network) {
    let acceptor = bidi_session::memory::Acceptor::new("b", 1, 0);
    network.serve("a", acceptor, crate::rig::echo);
}
