//! What a recorder of the `metrics` facade is told.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use leader_election::{Election, ErrorKind, Loss, MemoryStore, StoreElection};
use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};

use crate::{
    lines,
    support::{Call, Trouble, Wire, config, secs, settle, spawn_campaign},
};

/// The sum of what was recorded under a name and its labels, and how often.
type Sums = Arc<Mutex<BTreeMap<String, (f64, usize)>>>;

#[derive(Default)]
struct Sum {
    sums: Sums,
}

struct Cell {
    sums: Sums,
    key: String,
}

impl Sum {
    fn cell(&self, key: &Key) -> Arc<Cell> {
        let labels = key
            .labels()
            .map(|label| format!(",{}={}", label.key(), label.value()));
        Arc::new(Cell {
            sums: Arc::clone(&self.sums),
            key: key.name().to_owned() + &labels.collect::<String>(),
        })
    }

    fn sum(&self, key: &str) -> (f64, usize) {
        let sums = self.sums.lock().expect("no panic under it");
        sums.get(key).copied().unwrap_or_default()
    }
}

impl Cell {
    fn add(&self, value: f64) {
        let mut sums = self.sums.lock().expect("no panic under it");
        let (sum, count) = sums.entry(self.key.clone()).or_default();
        *sum += value;
        *count += 1;
    }
}

impl CounterFn for Cell {
    fn increment(&self, value: u64) {
        self.add(value as f64);
    }

    fn absolute(&self, _: u64) {
        panic!("counters only rise");
    }
}

impl GaugeFn for Cell {
    fn increment(&self, value: f64) {
        self.add(value);
    }

    fn decrement(&self, value: f64) {
        self.add(-value);
    }

    fn set(&self, _: f64) {
        panic!("several candidates share a gauge");
    }
}

impl HistogramFn for Cell {
    fn record(&self, value: f64) {
        self.add(value);
    }
}

impl Recorder for Sum {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.cell(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.cell(key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.cell(key))
    }
}

/// The names in the table of the README.
fn documented() -> BTreeSet<String> {
    let rows = include_str!("../../README.md").lines();
    let names = rows.filter_map(|row| row.strip_prefix("| `leader_election_"));
    let name = |row: &str| {
        row.split('`')
            .next()
            .map(|name| format!("leader_election_{name}"))
    };
    names.filter_map(name).collect()
}

/// Gives up a campaign on a store that is away; returns how often it asked.
async fn campaign_in_vain(wire: &Wire, election: &StoreElection<Wire>) -> usize {
    wire.rule(|_, _| Trouble::fails(ErrorKind::Unavailable));
    let campaign = spawn_campaign(election, b"0");
    settle().await;
    let joins = wire.sent(Call::Join).len();
    campaign.abort();
    settle().await;
    wire.rule(|_, _| Trouble::default());
    joins
}

#[tokio::test(start_paused = true)]
async fn each_documented_measure_is_recorded_and_nothing_else() {
    lines::listen();
    let recorder = Sum::default();
    let _local = metrics::set_default_local_recorder(&recorder);
    let wire = Wire::new(MemoryStore::new(1));
    let moves = Arc::new(AtomicBool::new(true));
    let progress = Arc::clone(&moves);
    let config = config().with_renew_while(move || progress.load(Ordering::SeqCst));
    let election = wire.election(config).with_name("jobs");
    let shown = || recorder.sum("leader_election_is_leader,election=jobs");
    let failed = campaign_in_vain(&wire, &election).await;
    assert_eq!(shown(), (0.0, 1), "it is there before the first win");
    let first = election.campaign(b"a").await.unwrap();
    assert_eq!(shown().0, 1.0);
    let second = spawn_campaign(&election, b"b");
    settle().await;
    wire.store.expire(2);
    tokio::time::sleep(secs(10.0)).await;
    let renewals = wire.sent(Call::Renew).len();
    wire.rule(move |call, nth| match call {
        Call::Renew if nth < renewals + 2 => Trouble::lost_answer(),
        _ => Trouble::default(),
    });
    tokio::time::sleep(secs(10.0)).await;
    wire.store.expire(first.token());
    assert_eq!(first.lost().await, Loss::Removed);
    let second = second.await.unwrap();
    moves.store(false, Ordering::SeqCst);
    assert_eq!(second.lost().await, Loss::Stalled);
    moves.store(true, Ordering::SeqCst);
    election.campaign(b"c").await.unwrap().resign().await;
    settle().await;

    let name = |key: &String| key.split(',').next().unwrap_or_default().to_owned();
    let recorded: BTreeSet<_> = recorder.sums.lock().unwrap().keys().map(name).collect();
    assert_eq!(recorded, documented());
    let sum = |key: &str| recorder.sum(&format!("leader_election_{key}"));
    assert_eq!(sum("is_leader,election=jobs"), (0.0, 10));
    assert_eq!(
        sum("call_failures_total,election=jobs,call=join").0,
        failed as f64
    );
    assert_eq!(sum("wins_total,election=jobs,scope=").0, 3.0);
    for reason in ["removed", "stalled", "resigned"] {
        assert_eq!(
            sum(&format!("ends_total,election=jobs,scope=,reason={reason}")).0,
            1.0
        );
    }
    assert_eq!(
        sum("requeues_total,election=jobs,scope=,reason=removed").0,
        1.0
    );
    assert_eq!(sum("renewal_failures_total,election=jobs,scope=").0, 2.0);
    assert!(sum("renewals_withheld_total,election=jobs,scope=").0 >= 1.0);
    let (waited, waits) = sum("wait_seconds,election=jobs,scope=");
    assert!(waits == 3 && (20.0..30.0).contains(&waited), "{waited} s");
    let (left, renewals) = sum("lease_left_seconds,election=jobs,scope=");
    let mean = left / renewals as f64;
    assert!((5.0..7.0).contains(&mean), "{mean} s left on average");
    assert!(sum("renewal_seconds,election=jobs,scope=").1 > renewals);
}
