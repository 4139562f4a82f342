//! Metrics that grow with the pool, or that nobody has documented.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bidi_session::{Direction, Events, Failure, FailureKind, OpenClass, Pool, PoolConfig};
use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};

use crate::double::{Act, Double, LONG, Order, Word};

/// Keeps what was recorded by series, in the text form of most backends.
#[derive(Clone, Default)]
struct Recorded(Arc<Mutex<BTreeMap<String, Series>>>);

#[derive(Clone, Debug, Default, PartialEq)]
struct Series {
    kind: &'static str,
    sum: f64,
    records: u64,
}

struct Cell {
    recorded: Recorded,
    name: String,
}

impl Cell {
    fn record(&self, value: f64) {
        let mut all = self.recorded.0.lock().unwrap();
        let series = all.get_mut(&self.name).unwrap();
        series.sum += value;
        series.records += 1;
    }
}

impl CounterFn for Cell {
    fn increment(&self, value: u64) {
        self.record(value as f64);
    }

    fn absolute(&self, _: u64) {
        panic!("a counter was set");
    }
}

impl GaugeFn for Cell {
    fn increment(&self, value: f64) {
        self.record(value);
    }

    fn decrement(&self, value: f64) {
        self.record(-value);
    }

    fn set(&self, _: f64) {
        panic!("a gauge was set: another pool's value is lost");
    }
}

impl HistogramFn for Cell {
    fn record(&self, value: f64) {
        Self::record(self, value);
    }
}

impl Recorded {
    fn cell(&self, key: &Key, kind: &'static str) -> Arc<Cell> {
        let labels = key.labels();
        let labels: Vec<_> = labels
            .map(|l| format!("{}={}", l.key(), l.value()))
            .collect();
        let name = format!("{}{{{}}}", key.name(), labels.join(","));
        let mut all = self.0.lock().unwrap();
        all.entry(name.clone()).or_default().kind = kind;
        let recorded = self.clone();
        Arc::new(Cell { recorded, name })
    }

    fn all(&self) -> BTreeMap<String, Series> {
        self.0.lock().unwrap().clone()
    }

    fn sum(&self, name: &str) -> f64 {
        self.all()
            .get(name)
            .unwrap_or_else(|| panic!("no {name}"))
            .sum
    }

    fn pool(&self, double: &Double, config: PoolConfig) -> (Pool<Double>, Events<Double>) {
        metrics::with_local_recorder(self, || double.pool_with(config))
    }
}

impl Recorder for Recorded {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.cell(key, "counter"))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.cell(key, "gauge"))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.cell(key, "histogram"))
    }
}

/// Returns every series that the page names, with its kind.
fn documented() -> BTreeMap<String, String> {
    let page = include_str!("../../docs/metrics.md");
    let mut all = BTreeMap::new();
    for row in page.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<_> = row
            .split('|')
            .map(|cell| cell.trim().replace('`', ""))
            .collect();
        let (name, kind, label) = (&cells[1], &cells[2], &cells[3]);
        for value in cells[4].split(", ") {
            let label = if label.is_empty() {
                String::new()
            } else {
                format!("{label}={value}")
            };
            all.insert(format!("{name}{{{label}}}"), kind.clone());
        }
    }
    all
}

async fn wait(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

/// Waits until the double has opened no further stream for a while.
async fn settle() {
    wait(15).await;
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_workers_give_the_documented_series_and_no_other() {
    let recorded = Recorded::default();
    let double = Double::default();
    let (pool, events) = recorded.pool(&double, PoolConfig::new(1));
    drop(events);
    for (target, act) in [
        ("up", Act::Accept),
        ("away", Act::Fail(OpenClass::Unreachable)),
        ("refuses", Act::Fail(OpenClass::Refused)),
        ("higher", Act::Fail(OpenClass::HigherTerm(9))),
    ] {
        double.puppet(target).set(act);
    }
    let targets = ["up", "away", "refuses", "higher"];
    for number in 0..10_000 {
        let target = if number < 200 {
            "up"
        } else {
            targets[1 + number % 3]
        };
        pool.insert(number, target.to_owned());
    }
    settle().await;
    assert_eq!(recorded.sum("bidi_session_workers{state=up}"), 200.0);
    let all: f64 = ["waiting", "connecting", "up", "blocked"]
        .iter()
        .map(|state| recorded.sum(&format!("bidi_session_workers{{state={state}}}")))
        .sum();
    assert_eq!(all, 10_000.0);
    let found = recorded.all();
    let kinds: BTreeMap<_, _> = found
        .iter()
        .map(|(name, s)| (name.clone(), s.kind.to_owned()))
        .collect();
    assert_eq!(kinds, documented());
    assert!(found.len() < 100, "{} series", found.len());
    let attempts = found["bidi_session_attempts_total{outcome=unreachable}"].sum;
    assert_eq!(attempts, f64::from(double.puppet("away").attempts()));
    for (target, outcome) in [("refuses", "refused"), ("higher", "higher_term")] {
        let sum = recorded.sum(&format!("bidi_session_attempts_total{{outcome={outcome}}}"));
        assert_eq!(sum, f64::from(double.puppet(target).attempts()));
    }
    pool.close().await;
    for state in ["waiting", "connecting", "up", "blocked"] {
        assert_eq!(
            recorded.sum(&format!("bidi_session_workers{{state={state}}}")),
            0.0,
            "{state}"
        );
    }
    assert_eq!(
        recorded.sum("bidi_session_disconnects_total{reason=pool_closed}"),
        200.0
    );
    assert_eq!(double.dialing.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn each_end_of_a_session_and_each_time_away_is_counted() {
    let recorded = Recorded::default();
    let double = Double::default();
    let (pool, _events) = recorded.pool(&double, PoolConfig::new(1));
    let puppet = double.puppet("a");
    pool.insert("a", "a".to_owned());
    let direction = Direction::ToWorker;
    let large = FailureKind::TooLarge {
        direction,
        size: 2,
        limit: 1,
    };
    for end in [
        None,
        Some(Failure::new("cut")),
        Some(Failure::new("large").with_kind(large)),
        Some(Failure::new("odd").with_kind(FailureKind::Undecodable { direction })),
    ] {
        let line = puppet.line().await;
        line.say(Word::note("healthy")).await;
        wait(6).await;
        puppet.set(Act::Hang);
        match end {
            Some(failure) => line.words.send(Err(failure)).await.unwrap(),
            None => drop(line.words),
        }
        wait(3).await;
        // The attempt that hangs ends after 10 s and the next one succeeds.
        puppet.set(Act::Accept);
    }
    let _line = puppet.line().await;
    pool.insert("a", "b".to_owned());
    pool.ready(["a"], LONG).await.unwrap();
    pool.remove("a");
    for reason in [
        "closed",
        "failed",
        "too_large",
        "undecodable",
        "replaced",
        "removed",
    ] {
        let name = format!("bidi_session_disconnects_total{{reason={reason}}}");
        assert_eq!(recorded.sum(&name), 1.0, "{reason}");
    }
    let away = recorded.all()["bidi_session_reconnect_seconds{}"].clone();
    assert_eq!(away.records, 5);
    assert!((40.0..41.0).contains(&away.sum), "{away:?}");
}

#[tokio::test(start_paused = true)]
async fn rounds_queued_bytes_and_what_is_dropped_are_counted() {
    let recorded = Recorded::default();
    let double = Double::default();
    let (pool, events) = recorded.pool(&double, PoolConfig::new(1));
    let bytes = || recorded.sum("bidi_session_outbox_bytes{}");
    pool.insert("a", "a".to_owned());
    pool.insert("b", "b".to_owned());
    pool.ready(["a", "b"], LONG).await.unwrap();
    let (a, puppet) = (double.puppet("a"), double.puppet("b"));
    let (mut a, b) = (a.line().await, puppet.line().await);
    let order = |_: &_| Order {
        text: "barrier".to_owned(),
        bytes: 100,
    };
    let complete = pool.inject(1, ["a"], order).unwrap();
    let timed_out = pool.inject(2, ["a"], order).unwrap();
    let failed = pool.inject(3, ["b"], order).unwrap();
    let dropped = pool.inject(4, ["a"], order).unwrap();
    let closed = pool.inject(5, ["a"], order).unwrap();
    assert_eq!(bytes(), 500.0);
    for _ in 0..4 {
        a.next_order().await;
    }
    assert_eq!(bytes(), 100.0);
    for id in [1, 1, 77] {
        a.say(Word::answer(id)).await;
    }
    complete.collect(LONG).await.unwrap();
    timed_out.collect(Duration::from_secs(7)).await.unwrap_err();
    a.say(Word::answer(2)).await;
    puppet.set(Act::Hang);
    drop(b);
    failed.collect(LONG).await.unwrap_err();
    drop(dropped);
    a.say(Word::note("not taken")).await;
    drop(events);
    pool.close().await;
    closed.collect(LONG).await.unwrap_err();
    drop(a);
    assert_eq!(bytes(), 0.0);
    check_rounds(&recorded);
    let counters = pool.counters();
    for (kind, count) in [
        ("duplicate", counters.duplicate),
        ("late", counters.late),
        ("unknown", counters.unknown),
        ("discarded", counters.discarded),
    ] {
        assert_eq!(count, 1, "{kind}: {counters:?}");
        let name = format!("bidi_session_dropped_total{{kind={kind}}}");
        assert_eq!(recorded.sum(&name), 1.0, "{kind}");
    }
}

fn check_rounds(recorded: &Recorded) {
    for outcome in ["complete", "failed", "timed_out", "closed", "dropped"] {
        let name = format!("bidi_session_rounds_total{{outcome={outcome}}}");
        assert_eq!(recorded.sum(&name), 1.0, "{outcome}");
    }
    let seconds = recorded.all()["bidi_session_round_seconds{}"].clone();
    // The complete one took no time, the others were over when the second timed out.
    assert_eq!(seconds.records, 5);
    assert!((28.0..29.0).contains(&seconds.sum), "{seconds:?}");
    let names: BTreeSet<_> = recorded.all().into_keys().collect();
    assert!(
        names
            .iter()
            .all(|name| !name.contains("=a") || name.contains("not_a")),
        "{names:?}"
    );
}
