//! A connector without a network: each target is a puppet that a test plays.
#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test file uses a part of it; a failure is the test's"
)]

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bidi_session::{
    Attempt, Connector, DisconnectReason, Event, EventKind, Events, Failure, OpenClass, OpenError,
    Opened, Outbox, Pool, PoolConfig,
};
use futures_util::StreamExt;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;

/// Far above what any step takes; time is paused.
pub(crate) const LONG: Duration = Duration::from_secs(3600);

/// A message to a worker: its size is what it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) text: String,
    pub(crate) bytes: usize,
}

/// A message of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) answers: Option<u64>,
    pub(crate) text: String,
}

/// What a puppet does with an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Accept,
    Fail(OpenClass),
    Hang,
    Panic,
}

/// One accepted stream, seen from the worker.
pub(crate) struct Line {
    pub(crate) attempt: Attempt,
    pub(crate) orders: Outbox<Order>,
    pub(crate) words: mpsc::Sender<Result<Word, Failure>>,
    pub(crate) killed: CancellationToken,
}

/// The workers of a test by target.
#[derive(Clone, Default)]
pub(crate) struct Double {
    puppets: Arc<Mutex<HashMap<String, Arc<Puppet>>>>,
    /// Runs when the size of an order `hook` is asked for.
    pub(crate) hook: Arc<Mutex<Option<Hook>>>,
    pub(crate) dialing: Arc<AtomicU32>,
    pub(crate) most_dialing: Arc<AtomicU32>,
}

/// What a test wants to happen in the middle of a call.
type Hook = Box<dyn FnOnce() + Send>;

/// One worker of a test.
pub(crate) struct Puppet {
    act: Mutex<Act>,
    pub(crate) attempts: AtomicU32,
    lines: mpsc::Sender<Line>,
    accepted: tokio::sync::Mutex<mpsc::Receiver<Line>>,
}

/// Counts an attempt while it runs.
struct Dialing(Arc<AtomicU32>);

// ===== impl Word =====

impl Word {
    pub(crate) fn answer(id: u64) -> Self {
        Self {
            answers: Some(id),
            text: String::new(),
        }
    }

    pub(crate) fn note(text: impl ToString) -> Self {
        Self {
            answers: None,
            text: text.to_string(),
        }
    }
}

impl Order {
    pub(crate) fn new(text: impl ToString) -> Self {
        Self {
            text: text.to_string(),
            bytes: 1,
        }
    }
}

// ===== impl Double =====

impl Double {
    pub(crate) fn puppet(&self, target: &str) -> Arc<Puppet> {
        let mut puppets = self.puppets.lock().unwrap();
        let puppet = puppets.entry(target.to_owned());
        puppet.or_insert_with(|| Arc::new(Puppet::new())).clone()
    }

    pub(crate) fn pool(&self) -> (Pool<Self>, Events<Self>) {
        self.pool_with(PoolConfig::new(1))
    }

    pub(crate) fn pool_with(&self, config: PoolConfig) -> (Pool<Self>, Events<Self>) {
        Pool::new(self.clone(), config.with_seed(7))
    }

    /// Returns a pool whose workers have sessions, each under its own name.
    pub(crate) async fn up(&self, workers: &[&str]) -> (Pool<Self>, Events<Self>, Vec<Line>) {
        let (pool, events) = self.pool();
        let mut lines = Vec::new();
        for worker in workers {
            pool.insert(*worker, (*worker).to_owned());
            lines.push(self.puppet(worker).line().await);
        }
        pool.ready(workers, LONG).await.unwrap();
        (pool, events, lines)
    }
}

impl Connector for Double {
    type Target = String;
    type Out = Order;
    type In = Word;

    /// What follows a hash is a setting of the way there, not the place.
    fn is_same(&self, one: &String, other: &String) -> bool {
        one.split('#').next() == other.split('#').next()
    }

    fn describe(&self, target: &String) -> String {
        target.clone()
    }

    fn size(&self, message: &Order) -> usize {
        if message.text == "hook"
            && let Some(hook) = self.hook.lock().unwrap().take()
        {
            hook();
        }
        message.bytes
    }

    fn answers(&self, message: &Word) -> Option<u64> {
        assert_ne!(message.text, "poison", "a panic that the test asked for");
        message.answers
    }

    fn open(
        &self,
        target: String,
        attempt: Attempt,
        orders: Outbox<Order>,
    ) -> impl Future<Output = Result<Opened<Word>, OpenError>> + Send + 'static {
        let puppet = self.puppet(&target);
        let now = self.dialing.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_dialing.fetch_max(now, Ordering::SeqCst);
        let dialing = Dialing(self.dialing.clone());
        async move {
            let opened = puppet.open(attempt, orders).await;
            drop(dialing);
            opened
        }
    }
}

// ===== impl Puppet =====

impl Puppet {
    fn new() -> Self {
        let (lines, accepted) = mpsc::channel(1024);
        Self {
            act: Mutex::new(Act::Accept),
            attempts: AtomicU32::new(0),
            lines,
            accepted: tokio::sync::Mutex::new(accepted),
        }
    }

    pub(crate) fn set(&self, act: Act) {
        *self.act.lock().unwrap() = act;
    }

    pub(crate) fn attempts(&self) -> u32 {
        self.attempts.load(Ordering::SeqCst)
    }

    /// Waits for the next accepted stream.
    pub(crate) async fn line(&self) -> Line {
        let mut accepted = self.accepted.lock().await;
        soon(accepted.recv()).await.unwrap()
    }

    async fn open(
        &self,
        attempt: Attempt,
        orders: Outbox<Order>,
    ) -> Result<Opened<Word>, OpenError> {
        self.attempts.fetch_add(1, Ordering::SeqCst);
        let act = self.act.lock().unwrap().clone();
        match act {
            Act::Accept => {}
            Act::Fail(class) => return Err(OpenError::new(class, "the puppet refuses")),
            Act::Hang => std::future::pending().await,
            Act::Panic => panic!("the test asked for it"),
        }
        // One place: what the pool does not read stops the puppet.
        let (words, heard) = mpsc::channel(1);
        let killed = CancellationToken::new();
        let line = Line {
            attempt,
            orders,
            words,
            killed: killed.clone(),
        };
        self.lines.send(line).await.unwrap();
        let heard = ReceiverStream::new(heard);
        Ok(Opened::new(heard, Some(5), move || killed.cancel()))
    }
}

// ===== impl Line =====

impl Line {
    /// Says a word, and waits until the pool has read it off the wire.
    pub(crate) async fn say(&self, word: Word) {
        soon(self.words.send(Ok(word))).await.unwrap();
        // The only place is free again when the word was read.
        drop(soon(self.words.reserve()).await.unwrap());
    }

    pub(crate) async fn next_order(&mut self) -> String {
        let order = soon(self.orders.next()).await;
        order.expect("the session is over").text
    }

    /// Ends the stream with an error.
    pub(crate) async fn fail(self, text: &str) {
        let failure = Err(Failure::new(text));
        soon(self.words.send(failure)).await.unwrap();
    }
}

impl Drop for Dialing {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Waits for what must come; time is paused, so waiting in vain costs none.
async fn soon<F: Future>(what: F) -> F::Output {
    let in_time = tokio::time::timeout(LONG, what).await;
    in_time.expect("it never came")
}

/// Waits for the next event and returns it in short.
pub(crate) async fn next(events: &mut Events<Double>) -> String {
    match tokio::time::timeout(LONG, events.recv()).await {
        Ok(Some(event)) => short(&event),
        Ok(None) => "end".to_owned(),
        Err(_) => "nothing".to_owned(),
    }
}

/// Returns an event in short.
pub(crate) fn short(event: &Event<Word>) -> String {
    let worker = &event.worker;
    match &event.kind {
        EventKind::AttemptFailed { .. } => format!("{worker} failed"),
        EventKind::Connected { .. } => format!("{worker} connected"),
        EventKind::Message(word) => format!("{worker} said {}", word.text),
        EventKind::Disconnected { reason } => format!("{worker} lost: {reason}"),
        EventKind::HigherTerm { term } => format!("{worker} saw term {term}"),
        EventKind::Removed => format!("{worker} removed"),
        _ => "an unknown kind of event".to_owned(),
    }
}

/// The reason of a stream that broke with this text.
pub(crate) fn failed(text: &str) -> DisconnectReason {
    DisconnectReason::Failed(Failure::new(text))
}
