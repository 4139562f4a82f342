//! Hunts two valid handles at one instant, and times without a leader.

mod support;

use std::time::Duration;

use leader_election::{
    Election, ElectionConfig, Leadership, MemoryElection, MemoryStore, simulated_time,
};
use support::{Call, Trouble, Wire, secs};
use tokio::sync::mpsc;

const CANDIDATES: usize = 9;
const ROUNDS: usize = 100;
const TTL: Duration = Duration::from_secs(2);

struct Won {
    who: usize,
    wire: Wire,
    leadership: Leadership,
}

/// A candidate with a connection, a clock and a process of its own.
fn start(who: usize, store: &MemoryStore, wins: &mpsc::Sender<Won>) {
    let wire = Wire::new(store.clone());
    wire.rule(|_, _| Trouble::slow(0.03 * fastrand::f64(), 0.03 * fastrand::f64()));
    let start = simulated_time();
    let rate = 1.0 + 0.0009 * (2.0 * fastrand::f64() - 1.0);
    let clock = move || start + (simulated_time() - start).mul_f64(rate);
    let election = wire
        .election(ElectionConfig::for_ttl(TTL))
        .with_clock(clock);
    let wins = wins.clone();
    tokio::spawn(async move {
        let value = who.to_string();
        let leadership = election
            .campaign(value.as_bytes())
            .await
            .expect("no fatal fault");
        let won = Won {
            who,
            wire,
            leadership,
        };
        assert!(wins.send(won).await.is_ok());
    });
}

/// Ends a leader in one of the ways in which leaders end.
fn end(won: &Won) -> &'static str {
    match fastrand::u8(..5) {
        0 => {
            won.wire.rule(|_, _| Trouble::lost_request());
            "requests lost"
        }
        1 => {
            won.wire.rule(|_, _| Trouble::lost_answer());
            "answers lost"
        }
        2 => {
            won.wire.rule(|call, _| match call {
                Call::Wait => Trouble::lost_answer(),
                _ => Trouble::slow(0.0, 5.0),
            });
            "answers too late"
        }
        3 => {
            won.wire.rule(|call, _| match call {
                Call::Leave => Trouble::slow(0.2, 0.0),
                _ => Trouble::lost_request(),
            });
            "cut, then a slow release"
        }
        _ => "resigned",
    }
}

/// E08, in process.
async fn rounds(seed: u64) -> Vec<(usize, u64, Duration)> {
    fastrand::seed(seed);
    let store = MemoryStore::new(1);
    let (wins, mut won) = mpsc::channel(CANDIDATES);
    let mut history = Vec::new();
    let mut former: Vec<Leadership> = Vec::new();
    let origin = simulated_time();
    for who in 0..CANDIDATES {
        start(who, &store, &wins);
    }
    for _ in 0..ROUNDS {
        let next = tokio::time::timeout(TTL + secs(2.0), won.recv()).await;
        let next: Won = next.expect("a leader in time").expect("the sender lives");
        for old in &former {
            assert!(
                !old.is_valid(),
                "{} and {} at once",
                old.token(),
                next.leadership.token()
            );
            assert!(old.token() < next.leadership.token());
        }
        assert!(next.leadership.is_valid());
        history.push((next.who, next.leadership.token(), simulated_time() - origin));
        tokio::time::sleep(secs(3.0 * fastrand::f64())).await;
        assert!(next.leadership.is_valid(), "lost without a fault");
        if end(&next) == "resigned" {
            next.leadership.resign().await;
        }
        // The process goes on believing for as long as its handle says.
        former.push(next.leadership);
        former.retain(Leadership::is_valid);
        start(next.who, &store, &wins);
    }
    history
}

/// On a runtime of its own: what the rounds leave behind ends with it.
fn replay(seed: u64) -> Vec<(usize, u64, Duration)> {
    println!("ELECTION_SEED={seed}");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(rounds(seed))
}

#[test]
fn a_hundred_leaders_in_a_row_never_overlap() {
    let seeds = match std::env::var("ELECTION_SEED") {
        Ok(seed) => vec![seed.parse().expect("ELECTION_SEED is a number")],
        Err(_) => (0..4).map(|_| fastrand::u64(..)).collect(),
    };
    for seed in seeds {
        assert_eq!(replay(seed).len(), ROUNDS);
    }
}

#[test]
fn a_seed_replays_the_same_leaders_at_the_same_times() {
    assert_eq!(replay(7), replay(7));
}

/// As two processes do that were forked, or that seed their generator alike.
#[tokio::test(start_paused = true)]
async fn candidates_with_equal_random_numbers_hold_places_of_their_own() {
    let election = MemoryElection::new(ElectionConfig::for_ttl(TTL), 1);
    fastrand::seed(7);
    let first = election.campaign(b"1").await.expect("the queue is empty");
    fastrand::seed(7);
    let mut second = election.campaign(b"2");
    let early = tokio::time::timeout(TTL, &mut second).await;
    assert!(early.is_err() && first.is_valid());
    first.resign().await;
    assert!(second.await.expect("its turn").token() > first.token());
}
