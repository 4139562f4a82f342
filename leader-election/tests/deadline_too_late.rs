//! Hunts leaders that believe in their lease longer than the store does, or
//! lose it for one renewal that failed.

mod support;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use leader_election::{
    Election, ElectionConfig, ErrorKind, Leadership, Loss, MemoryStore, StoreElection,
    simulated_time,
};
use support::{Call, TTL, Trouble, USABLE, Wire, config, secs};

fn deadlines(leadership: &Leadership) -> Arc<Mutex<Vec<Duration>>> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let record = Arc::clone(&seen);
    leadership.follow(move |deadline| record.lock().expect("no panic").push(deadline));
    seen
}

/// The self check of this claim: with the deadline counted from the reply it
/// would be 1.5 s later each time.
#[tokio::test(start_paused = true)]
async fn deadline_counts_from_send_not_from_reply() {
    let wire = Wire::new(MemoryStore::new(1));
    wire.rule(|call, _| match call {
        Call::Renew => Trouble::slow(0.1, 1.4),
        _ => Trouble::default(),
    });
    let leadership = wire.election(config()).campaign(b"n1").await.unwrap();
    let seen = deadlines(&leadership);
    tokio::time::sleep(secs(60.0)).await;

    let from_sends: Vec<_> = wire
        .sent(Call::Renew)
        .iter()
        .map(|at| *at + USABLE)
        .collect();
    let seen = seen.lock().unwrap();
    assert!(seen.len() > 10);
    assert_eq!(seen[..], from_sends[..seen.len()]);
}

/// E06, with each way in which a store can go away.
#[tokio::test(start_paused = true)]
async fn a_store_that_goes_away_ends_the_leadership_before_the_lease() {
    let ways = [
        Trouble::fails(ErrorKind::Unavailable),
        Trouble::fails(ErrorKind::Denied),
        Trouble::lost_request(),
        Trouble::lost_answer(),
    ];
    for way in ways {
        let wire = Wire::new(MemoryStore::new(1));
        let leadership = wire.election(config()).campaign(b"n1").await.unwrap();
        tokio::time::sleep(secs(12.0)).await;
        let last = *wire.sent(Call::Renew).last().unwrap();
        assert_eq!(leadership.deadline(), last + USABLE);
        wire.rule(move |_, _| way);

        let just_before = last + USABLE - secs(0.002) - simulated_time();
        tokio::time::sleep(just_before).await;
        assert!(
            leadership.is_valid(),
            "{way:?}: nothing changes until the deadline"
        );
        tokio::time::sleep(secs(0.003)).await;
        assert!(!leadership.is_valid(), "{way:?}");

        assert_eq!(leadership.lost().await, Loss::Expired);
        let late = simulated_time() - (last + USABLE);
        assert!(late < secs(0.1), "{way:?}: lost() came {late:?} late");
        assert!(simulated_time() < last + TTL);
        let sent = wire.sent(Call::Renew);
        assert!(sent.len() > 4 && *sent.last().unwrap() < last + USABLE);
        tokio::time::sleep(secs(60.0)).await;
        assert_eq!(wire.sent(Call::Renew), sent, "no attempt after the end");
        assert!(leadership.deadline().is_zero());
    }
}

/// E07.
#[tokio::test(start_paused = true)]
async fn one_lost_answer_in_a_while_does_not_cost_the_leadership() {
    let wire = Wire::new(MemoryStore::new(1));
    let faults = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&faults);
    wire.rule(move |call, nth| {
        if call == Call::Renew && nth % 5 == 4 {
            count.fetch_add(1, Ordering::Relaxed);
            return Trouble::lost_answer();
        }
        Trouble::default()
    });
    let election = wire.election(ElectionConfig::for_ttl(secs(6.0)));
    let leadership = election.campaign(b"n1").await.unwrap();
    let timeout = tokio::time::timeout(secs(60.0), leadership.lost());
    assert!(timeout.await.is_err());
    assert!(leadership.is_valid());
    assert_eq!(leadership.token(), 1);
    assert!(faults.load(Ordering::Relaxed) >= 3);
}

#[tokio::test(start_paused = true)]
async fn a_slow_renewal_does_not_delay_the_next() {
    let wire = Wire::new(MemoryStore::new(1));
    wire.rule(|call, nth| match call {
        Call::Renew if nth > 0 => Trouble::slow(0.0, 2.5),
        _ => Trouble::default(),
    });
    let config = config()
        .with_renew_every(secs(1.0))
        .with_renew_timeout(secs(3.0));
    let leadership = wire.election(config).campaign(b"n1").await.unwrap();
    tokio::time::sleep(secs(20.0)).await;
    assert!(leadership.is_valid());
    for pair in wire.sent(Call::Renew).windows(2) {
        let pause = pair[1] - pair[0];
        assert!(pause < secs(1.01), "{pause:?} between two renewals");
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_back_before_the_deadline_costs_nothing() {
    let wire = Wire::new(MemoryStore::new(1));
    let leadership = wire.election(config()).campaign(b"n1").await.unwrap();
    for _ in 0..5 {
        wire.rule(|_, _| Trouble::lost_request());
        tokio::time::sleep(secs(4.0)).await;
        wire.rule(|_, _| Trouble::default());
        tokio::time::sleep(secs(10.0)).await;
    }
    assert!(leadership.is_valid());
    assert_eq!(leadership.token(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_leader_without_progress_loses_its_lease() {
    let progress = Arc::new(AtomicBool::new(true));
    let asked = Arc::clone(&progress);
    let plain = config().with_renew_while(move || asked.load(Ordering::Relaxed));
    let broken = config().with_renew_while(|| panic!("the check is broken"));
    for config in [plain, broken] {
        let wire = Wire::new(MemoryStore::new(1));
        let leadership = wire.election(config).campaign(b"n1").await.unwrap();
        let renewals = wire.sent(Call::Renew).len();
        progress.store(false, Ordering::Relaxed);
        assert_eq!(leadership.lost().await, Loss::Stalled);
        assert_eq!(wire.sent(Call::Renew).len(), renewals);
    }
}

/// The check is made more often while renewals fail, so a slow worker may seem to hang.
#[tokio::test(start_paused = true)]
async fn a_leader_that_seems_to_hang_while_the_store_is_away_expires() {
    let asked = AtomicUsize::new(0);
    let progress = move || asked.fetch_add(1, Ordering::Relaxed).is_multiple_of(3);
    let wire = Wire::new(MemoryStore::new(1));
    let election = wire.election(config().with_renew_while(progress));
    let leadership = election.campaign(b"n1").await.unwrap();
    wire.rule(|_, _| Trouble::lost_request());
    assert_eq!(leadership.lost().await, Loss::Expired);
}

#[tokio::test(start_paused = true)]
async fn a_short_stall_costs_nothing() {
    let progress = Arc::new(AtomicBool::new(true));
    let asked = Arc::clone(&progress);
    let config = config().with_renew_while(move || asked.load(Ordering::Relaxed));
    let wire = Wire::new(MemoryStore::new(1));
    let leadership = wire.election(config).campaign(b"n1").await.unwrap();
    progress.store(false, Ordering::Relaxed);
    tokio::time::sleep(secs(9.0)).await;
    progress.store(true, Ordering::Relaxed);
    tokio::time::sleep(secs(30.0)).await;
    assert!(leadership.is_valid());
}

/// It cannot jump what is not read: of the machine's clocks only the one since boot is.
#[test]
fn the_wall_clock_is_read_nowhere() {
    fn search(dir: &std::path::Path, read: &mut Vec<String>) {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                search(&path, read);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let names = ["SystemTime", "UNIX_EPOCH", "Realtime"];
            if names.iter().any(|name| text.contains(name)) {
                read.push(path.display().to_string());
            }
        }
    }
    let mut read = Vec::new();
    let sources = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    search(&sources, &mut read);
    assert!(read.is_empty(), "{read:?}");
    assert!(
        std::fs::read_to_string(sources.join("clock.rs"))
            .unwrap()
            .contains("Boottime")
    );
}

/// The laptop's lid: the clock goes on in suspend, tokio's timers do not.
#[tokio::test(start_paused = true)]
async fn a_suspend_longer_than_the_lease_is_noticed_at_once() {
    let slept = Arc::new(AtomicU64::new(0));
    let asleep = Arc::clone(&slept);
    let clock = move || simulated_time() + Duration::from_secs(asleep.load(Ordering::SeqCst));
    let election = StoreElection::new(MemoryStore::new(1), config()).with_clock(clock);
    let leadership = election.campaign(b"n1").await.unwrap();
    let woke = simulated_time();
    slept.store(3600, Ordering::SeqCst);
    assert!(!leadership.is_valid());
    assert_eq!(leadership.lost().await, Loss::Expired);
    assert!(simulated_time() - woke <= TTL / 20 + secs(0.002));

    // The process can campaign again without help.
    let again = election.campaign(b"n1").await.unwrap();
    assert!(again.token() > leadership.token());
    assert!(again.is_valid() && !leadership.is_valid());
}
