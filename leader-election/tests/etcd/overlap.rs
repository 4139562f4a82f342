//! Hunts two valid leaderships at one instant: nine processes, of which the leader is
//! killed, stopped beyond its lease, cut off or interrupted, round after round.
//!
//! Every process writes each of its deadlines, on the clock that all of them share, to
//! a file of its own at the moment it learns of it.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use tempfile::TempDir;
use tokio::time::timeout;

use crate::{
    boot_time,
    child::{Child, News, Orders, Words},
    proxy::{Proxy, Way},
    record::{Entry, nanos},
    server::Etcd,
    soak, soon,
};

const CANDIDATES: usize = 9;

/// When a token's leadership may have been valid, in nanoseconds since boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tenure {
    token: u64,
    from: u64,
    to: u64,
}

/// From where a lease is counted.
#[derive(Clone, Copy)]
enum Count {
    /// As this crate does.
    FromSend,
    /// As others do: from when the answer came. Such a leader has no earlier deadline
    /// to stop by, so its end is not known sooner either.
    FromReceive { ttl: u64 },
}

/// What happens to a leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    Kill,
    Stop,
    Cut,
    Interrupt,
}

struct Seat {
    child: Child,
    proxy: Proxy,
    is_stopped: bool,
}

/// Nine candidates, each behind a wire of its own.
struct Arena {
    etcd: Etcd,
    dir: TempDir,
    ttl: u64,
    is_patient: bool,
    seats: Vec<Seat>,
    /// Of all children there ever were.
    records: Vec<PathBuf>,
    words: Words,
    faults: BTreeMap<Fault, u64>,
}

// ===== impl Arena =====

impl Arena {
    async fn start(candidates: usize, ttl: u64, is_patient: bool) -> Self {
        let mut arena = Self {
            etcd: Etcd::start().await,
            dir: TempDir::new().expect("a temporary folder"),
            ttl,
            is_patient,
            seats: Vec::new(),
            records: Vec::new(),
            words: Words::new(),
            faults: BTreeMap::new(),
        };
        for number in 0..candidates {
            let proxy = Proxy::start(arena.etcd.port()).await;
            let child = arena.candidate(number, &proxy);
            let is_stopped = false;
            arena.seats.push(Seat {
                child,
                proxy,
                is_stopped,
            });
        }
        arena
    }

    fn candidate(&mut self, number: usize, proxy: &Proxy) -> Child {
        let record = self.dir.path().join(self.records.len().to_string());
        let endpoints = [proxy.endpoint()];
        let orders = Orders {
            record: Some(&record),
            is_patient: self.is_patient,
            ..Orders::new(&endpoints, self.ttl, "one of nine")
        };
        let child = self.words.start(number, &orders);
        self.records.push(record);
        child
    }

    /// Waits for a leader with a higher token and returns its seat.
    async fn next_leader(&mut self, after: u64, patience: Duration) -> (usize, u64) {
        let next = async {
            loop {
                match self.words.next().await {
                    (number, News::Leads { token, .. }) if token > after => return (number, token),
                    _ => {}
                }
            }
        };
        let next = timeout(patience, next).await;
        next.unwrap_or_else(|_| panic!("nobody leads {patience:?} after token {after}"))
    }

    async fn harm(&mut self, number: usize, fault: Fault) {
        *self.faults.entry(fault).or_default() += 1;
        let seat = &mut self.seats[number];
        match fault {
            Fault::Kill => {
                seat.child.kill().await;
            }
            Fault::Stop => {
                seat.child.stop();
                seat.is_stopped = true;
            }
            Fault::Cut => seat.proxy.set(Way::Swallow),
            Fault::Interrupt => seat.child.ask("INT"),
        }
    }

    /// Ends a fault; of those that end a process, with a new one.
    fn heal(&mut self, number: usize, fault: Fault) {
        match fault {
            Fault::Stop => {
                self.seats[number].child.go_on();
                self.seats[number].is_stopped = false;
            }
            Fault::Cut => {
                let proxy = &self.seats[number].proxy;
                proxy.set(Way::Pass);
                assert!(proxy.swallowed() > 0, "it was cut off");
            }
            Fault::Kill | Fault::Interrupt => {
                let proxy = self.seats.swap_remove(number).proxy;
                let child = self.candidate(number, &proxy);
                let is_stopped = false;
                self.seats.push(Seat {
                    child,
                    proxy,
                    is_stopped,
                });
                let last = self.seats.len() - 1;
                self.seats.swap(number, last);
            }
        }
    }

    fn tenures(&self, count: Count) -> Vec<Tenure> {
        let mut tenures: Vec<_> = self
            .records
            .iter()
            .flat_map(|record| tenures(&Entry::read_all(record), count))
            .collect();
        tenures.sort_by_key(|tenure| (tenure.from, tenure.token));
        tenures
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // A stopped process could not see that this one is gone.
        let stopped = self.seats.iter().filter(|seat| seat.is_stopped);
        stopped.for_each(|seat| seat.child.go_on());
    }
}

/// Reads what one process wrote.
fn tenures(entries: &[Entry], count: Count) -> Vec<Tenure> {
    let mut tenures = Vec::<Tenure>::new();
    for entry in entries {
        let to = match count {
            Count::FromSend => entry.deadline,
            Count::FromReceive { ttl } => entry.at + ttl,
        };
        match tenures.last_mut().filter(|last| last.token == entry.token) {
            // It is over, at the latest by its last deadline.
            Some(last) if entry.deadline == 0 => {
                if matches!(count, Count::FromSend) {
                    last.to = last.to.min(entry.at);
                }
            }
            Some(last) => last.to = last.to.max(to),
            None if entry.deadline == 0 => {}
            None => tenures.push(Tenure {
                token: entry.token,
                from: entry.at,
                to,
            }),
        }
    }
    tenures
}

/// Returns pairs, in the order in which they began, that were valid at one instant.
fn overlaps(tenures: &[Tenure]) -> Vec<(Tenure, Tenure)> {
    let mut found = Vec::new();
    let mut longest: Option<Tenure> = None;
    for tenure in tenures {
        if let Some(longest) = longest.filter(|longest| longest.to > tenure.from) {
            found.push((longest, *tenure));
        }
        if longest.is_none_or(|longest| tenure.to > longest.to) {
            longest = Some(*tenure);
        }
    }
    found
}

fn assert_alone(tenures: &[Tenure]) {
    assert_eq!(overlaps(tenures), [], "valid at one instant");
    let rises = tenures.windows(2).all(|pair| pair[0].token < pair[1].token);
    assert!(rises, "tokens only rise: {tenures:?}");
}

fn seed() -> u64 {
    let given = std::env::var("SEED").ok();
    let seed = given.map_or_else(
        || fastrand::u64(..),
        |seed| seed.parse().expect("SEED is a number"),
    );
    println!("SEED={seed}");
    seed
}

#[tokio::test(flavor = "multi_thread")]
async fn nine_processes_under_faults_never_lead_at_one_instant() {
    let (rounds, ttl) = if soak() { (50, 2) } else { (10, 1) };
    let seed = seed();
    // Two elections beside each other: most of a round is waiting for the end of a lease.
    tokio::join!(
        nine_processes(rounds, ttl, seed),
        nine_processes(rounds, ttl, !seed),
    );
}

async fn nine_processes(rounds: usize, ttl: u64, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut arena = Arena::start(CANDIDATES, ttl, false).await;
    let patience = Duration::from_secs(60);
    let (mut leader, mut token) = arena.next_leader(0, patience).await;
    let mut pending = Vec::new();
    let faults = [Fault::Kill, Fault::Stop, Fault::Cut, Fault::Interrupt];
    for round in 0..rounds {
        // A third of the TTL is the period of the renewals: each phase is met.
        let phase = Duration::from_millis(random.u64(0..ttl * 334));
        tokio::time::sleep(phase).await;
        let fault = faults[round % faults.len()];
        arena.harm(leader, fault).await;
        let harmed = leader;
        (leader, token) = arena.next_leader(token, patience).await;
        // Some come back at once, some in a later round, beside the next leader.
        pending.push((harmed, fault));
        while pending.len() > random.usize(0..4) {
            let (number, fault) = pending.swap_remove(random.usize(0..pending.len()));
            arena.heal(number, fault);
        }
    }
    let tenures = arena.tenures(Count::FromSend);
    println!("{} leaderships, faults {:?}", tenures.len(), arena.faults);
    assert!(tenures.len() > rounds, "each round had a leader");
    assert_alone(&tenures);
}

/// Proves that the test above can fail: on the same record, written while answers were
/// late, it finds what a deadline counted from the answer would do.
#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_counted_from_the_answer_overlaps_where_answers_are_late() {
    const TTL: u64 = 4;
    let mut arena = Arena::start(3, TTL, true).await;
    let ttl = TTL * 1_000_000_000;
    // A renewal is three calls within 1.28 s. etcd has started the lease anew by the second
    // one, so the last answer comes two delays later: by more than the 0.5 s that etcd may
    // take to end a lease.
    let late = Duration::from_millis(380);
    let (mut leader, mut token) = arena.next_leader(0, Duration::from_secs(60)).await;
    for _ in 0..10 {
        let proxy = &arena.seats[leader].proxy;
        proxy.delay_down(late);
        let before = nanos(boot_time());
        // A renewal whose every answer was late, then none.
        let record = arena.records[leader].clone();
        let renewed = || {
            let entries = Entry::read_all(&record);
            entries.iter().filter(|entry| entry.at > before).count() > 1
        };
        let renewal = async {
            while !renewed() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        soon(renewal).await;
        arena.harm(leader, Fault::Cut).await;
        let harmed = leader;
        (leader, token) = arena.next_leader(token, Duration::from_secs(60)).await;
        arena.seats[harmed].proxy.delay_down(Duration::ZERO);
        arena.heal(harmed, Fault::Cut);
        let from_receive = arena.tenures(Count::FromReceive { ttl });
        assert_alone(&arena.tenures(Count::FromSend));
        if !overlaps(&from_receive).is_empty() {
            let delayed: u64 = arena.seats.iter().map(|seat| seat.proxy.delayed()).sum();
            println!("{:?}, {delayed} late answers", overlaps(&from_receive));
            assert!(delayed > 0);
            return;
        }
    }
    panic!("no overlap: this harness cannot see one");
}
