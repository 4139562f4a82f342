//! Logs that a worker which is away, or comes and goes, would fill.

use std::cell::RefCell;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;

use bidi_session::{OpenClass, PoolConfig};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::Registry;

use crate::double::{Act, Double, Word};

/// The lines at info and above of one test.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

thread_local! {
    static HERE: RefCell<Option<Lines>> = const { RefCell::new(None) };
}

/// Hands each line to the test on whose thread it is written.
///
/// One for the whole program: with one per thread, a place in the code that another test's
/// thread comes to first can stay silent for all.
struct ByThread;

impl<S: tracing::Subscriber> Layer<S> for ByThread {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        if *event.metadata().level() > tracing::Level::INFO {
            return;
        }
        let mut line = String::new();
        event.record(&mut |field: &tracing::field::Field, value: &dyn Debug| {
            line.push_str(&format!("{}={value:?} ", field.name()));
        });
        HERE.with_borrow(|lines| {
            if let Some(lines) = lines {
                lines.0.lock().unwrap().push(line);
            }
        });
    }
}

/// Ends the collecting of this thread's lines.
struct Collecting;

impl Drop for Collecting {
    fn drop(&mut self) {
        HERE.set(None);
    }
}

impl Lines {
    /// Collects the lines of this thread, on which the test's runtime is.
    fn collect(&self) -> Collecting {
        static LOG: Once = Once::new();
        LOG.call_once(|| {
            let log = Registry::default().with(ByThread);
            tracing::subscriber::set_global_default(log).expect("no other log");
        });
        HERE.set(Some(self.clone()));
        Collecting
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    fn sum(&self, field: &str) -> u64 {
        let sign = format!("{field}=");
        let lines = self.all();
        let values = lines.iter().filter_map(|line| line.split(&sign).nth(1));
        values
            .map(|rest| rest.split(' ').next().unwrap().parse::<u64>().unwrap())
            .sum()
    }
}

const DAY: Duration = Duration::from_secs(24 * 3600);

#[tokio::test(start_paused = true)]
async fn a_worker_away_for_a_day_is_a_line_a_minute() {
    let lines = Lines::default();
    let _guard = lines.collect();
    let double = Double::default();
    let (pool, _events) = double.pool();
    let puppet = double.puppet("a");
    puppet.set(Act::Fail(OpenClass::Unreachable));
    pool.insert("a", "a".to_owned());
    tokio::time::sleep(DAY).await;
    let count = lines.all().len();
    assert!((1350..=1441).contains(&count), "{count} lines");
    let counted = lines.sum("attempts_failed");
    let attempts = u64::from(puppet.attempts());
    assert!(
        attempts > 17_000 && attempts - counted < 30,
        "{counted} of {attempts}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_flaps_for_a_day_is_a_line_a_minute() {
    let lines = Lines::default();
    let _guard = lines.collect();
    let double = Double::default();
    let (pool, mut events) = double.pool();
    pool.insert("a", "a".to_owned());
    let puppet = double.puppet("a");
    let end = tokio::time::Instant::now() + DAY;
    while tokio::time::Instant::now() < end {
        // Up for 3 s with a word, so the next attempt is at once: two lines undamped.
        let line = puppet.line().await;
        line.say(Word::note("hello")).await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        line.fail("cut").await;
        while events.try_recv().is_some() {}
    }
    let count = lines.all().len();
    assert!((1400..=1441).contains(&count), "{count} lines");
    assert!(puppet.attempts() > 20_000);
}

#[tokio::test(start_paused = true)]
async fn ten_workers_do_not_keep_each_other_from_the_log() {
    let lines = Lines::default();
    let _guard = lines.collect();
    let double = Double::default();
    let (pool, _events) = double.pool();
    for number in 0..10 {
        double.puppet(&number.to_string()).set(Act::Panic);
        pool.insert(number, number.to_string());
    }
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(lines.all().len(), 10, "{:?}", lines.all());
}

#[tokio::test(start_paused = true)]
async fn each_kind_of_failure_is_told_at_once_and_the_session_in_the_end() {
    let lines = Lines::default();
    let _guard = lines.collect();
    let double = Double::default();
    let config = PoolConfig::new(1).with_blocked_retry(Duration::from_secs(1));
    let (pool, _events) = double.pool_with(config);
    let puppet = double.puppet("a");
    pool.insert("a", "a".to_owned());
    let line = puppet.line().await;
    line.say(Word::note("healthy")).await;
    for class in [
        OpenClass::Unreachable,
        OpenClass::Refused,
        OpenClass::HigherTerm(9),
    ] {
        puppet.set(Act::Fail(class));
        if class == OpenClass::Unreachable {
            line.words
                .send(Err(bidi_session::Failure::new("cut")))
                .await
                .unwrap();
        }
        tokio::time::sleep(Duration::from_secs(6)).await;
    }
    puppet.set(Act::Accept);
    let _line = puppet.line().await;
    let told = lines.all();
    let kinds = [
        "session began",
        "session ended",
        "attempt failed",
        "attempt failed",
    ];
    for (line, text) in told.iter().zip(kinds.iter().chain(&["attempt failed"])) {
        assert!(line.contains(text), "{line}");
    }
    assert_eq!(told.len(), 5, "{told:?}");
    // The new session is told when the five lines are paid for.
    tokio::time::sleep(Duration::from_secs(5 * 60)).await;
    let told = lines.all();
    assert_eq!(told.len(), 6, "{told:?}");
    assert!(told[5].contains("session is up"), "{}", told[5]);
    assert_eq!(
        u64::from(puppet.attempts()) - 2,
        lines.sum("attempts_failed")
    );
}

#[cfg(feature = "test-util")]
#[tokio::test(start_paused = true)]
async fn a_worker_that_refuses_for_an_hour_says_whom_and_why_once_a_minute() {
    use bidi_session::Pool;
    use bidi_session::memory::{Acceptor, Network, Session};

    let lines = Lines::default();
    let _guard = lines.collect();
    let network = Network::new(7);
    let serve =
        |mut session: Session<u8, u8>| async move { while session.recv().await.is_some() {} };
    network.serve("a", Acceptor::new("a", 1, 9), serve);
    network.serve("b", Acceptor::new("other", 1, 0), serve);
    let config = PoolConfig::new(8).with_blocked_retry(Duration::from_secs(1));
    let (pool, _events) = Pool::new(network.connector::<u8, u8>(), config);
    pool.insert("a", "a".to_owned());
    pool.insert("b", "b".to_owned());
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let lines = lines.all();
    for (worker, reason) in [("a", "9"), ("other", "other")] {
        let name = format!("worker={worker} ");
        let refused = lines.iter().filter(|line| line.contains("stream refused"));
        let refused: Vec<_> = refused.filter(|line| line.contains(&name)).collect();
        assert!(
            (59..=61).contains(&refused.len()),
            "{} lines",
            refused.len()
        );
        let first = refused[0];
        assert!(first.contains("term=8 "), "{first}");
        let why = first.split("refusal=").nth(1).unwrap();
        assert!(why.contains(reason), "{first}");
        let counts = refused.iter().map(|line| {
            let count = line.split("count=").nth(1).unwrap();
            count.split(' ').next().unwrap().parse::<u64>().unwrap()
        });
        let counted: u64 = counts.sum();
        assert!((3500..=3601).contains(&counted), "{counted} refusals");
    }
}
