//! What the tests share: workers that answer, and events in short.

use std::time::Duration;

use bidi_session::memory::{Acceptor, Memory, Network, Session};
use bidi_session::{Event, EventKind, Events, Pool, PoolConfig};

/// Far above what any step takes; time is paused.
pub(crate) const LONG: Duration = Duration::from_secs(3600);

/// A message either way: the round that it belongs to, if any, and a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) round: Option<u64>,
    pub(crate) tag: u64,
}

pub(crate) type Connect = Memory<Word, Word>;
pub(crate) type WorkerSession = Session<Word, Word>;

pub(crate) fn barrier(id: u64) -> Word {
    Word {
        round: Some(id),
        tag: id,
    }
}

pub(crate) fn note(tag: u64) -> Word {
    Word { round: None, tag }
}

pub(crate) fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Whether the long versions run.
pub(crate) fn is_soak() -> bool {
    std::env::var("SOAK").is_ok_and(|value| value == "1")
}

/// Answers each message with itself.
pub(crate) async fn echo(mut session: WorkerSession) {
    while let Some(word) = session.recv().await {
        if session.send(word).await.is_err() {
            break;
        }
    }
}

/// Serves a worker that answers each message with itself, at its own name.
pub(crate) fn serve_echo(network: &Network, worker: &str, incarnation: u64) {
    network.serve(worker, Acceptor::new(worker, incarnation, 0), echo);
}

pub(crate) fn connect(network: &Network) -> Connect {
    network.connector().with_answers(|word: &Word| word.round)
}

pub(crate) fn pool(network: &Network, term: u64) -> (Pool<Connect>, Events<Connect>) {
    Pool::new(connect(network), PoolConfig::new(term).with_seed(term))
}

/// Returns a network and a pool whose workers have sessions, each at its own name.
pub(crate) async fn up(workers: &[&str]) -> (Network, Pool<Connect>, Events<Connect>) {
    let network = Network::new(7);
    let (pool, events) = pool(&network, 1);
    for worker in workers {
        serve_echo(&network, worker, 1);
        pool.insert(*worker, (*worker).to_owned());
    }
    pool.ready(workers, LONG).await.unwrap();
    (network, pool, events)
}

/// Waits for the next event; time is paused, so waiting in vain costs none.
pub(crate) async fn next(events: &mut Events<Connect>) -> Event<Word> {
    let next = tokio::time::timeout(LONG, events.recv()).await;
    next.expect("no event came").expect("the pool has ended")
}

/// Waits for the next event and returns it in short.
pub(crate) async fn told(events: &mut Events<Connect>) -> String {
    short(&next(events).await)
}

/// Returns an event in short.
pub(crate) fn short(event: &Event<Word>) -> String {
    let worker = &event.worker;
    match &event.kind {
        EventKind::AttemptFailed { error, .. } => format!("{worker} failed: {error}"),
        EventKind::Connected { .. } => format!("{worker} connected"),
        EventKind::Message(word) => format!("{worker} said {}", word.tag),
        EventKind::Disconnected { reason } => format!("{worker} lost: {reason}"),
        EventKind::HigherTerm { term } => format!("{worker} saw term {term}"),
        EventKind::Removed => format!("{worker} removed"),
        _ => "an unknown kind of event".to_owned(),
    }
}

/// Returns how many tasks the runtime has.
pub(crate) fn tasks() -> usize {
    let metrics = tokio::runtime::Handle::current().metrics();
    metrics.num_alive_tasks()
}
