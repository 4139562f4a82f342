//! Greetings that come late, come twice, do not fit or panic.

use std::sync::Arc;
use std::sync::Mutex;

use bidi_session::{
    Attempt, Connector, EventKind, Events, OpenClass, OpenError, Opened, Outbox, Pool, PoolConfig,
};

use crate::double::{Act, Double, LONG, Order, Word, next};

type Greeting = dyn Fn(&Attempt) -> Vec<Order> + Send + Sync;

/// A double with a greeting.
#[derive(Clone)]
struct Polite {
    double: Double,
    greeting: Arc<Greeting>,
    largest: usize,
    greeted: Arc<Mutex<Vec<u64>>>,
}

impl Polite {
    fn new(greeting: impl Fn(&Attempt) -> Vec<Order> + Send + Sync + 'static) -> Self {
        Self {
            double: Double::default(),
            greeting: Arc::new(greeting),
            largest: usize::MAX,
            greeted: Arc::default(),
        }
    }

    fn pool(&self, config: PoolConfig) -> (Pool<Self>, Events<Self>) {
        Pool::new(self.clone(), config.with_seed(7))
    }
}

impl Connector for Polite {
    type Target = String;
    type Out = Order;
    type In = Word;

    fn is_same(&self, one: &String, other: &String) -> bool {
        one == other
    }

    fn describe(&self, target: &String) -> String {
        target.clone()
    }

    fn size(&self, message: &Order) -> usize {
        message.bytes
    }

    fn max_size(&self) -> usize {
        self.largest
    }

    fn greeting(&self, attempt: &Attempt) -> Vec<Order> {
        self.greeted.lock().unwrap().push(attempt.generation);
        (self.greeting)(attempt)
    }

    fn answers(&self, message: &Word) -> Option<u64> {
        message.answers
    }

    fn open(
        &self,
        target: String,
        attempt: Attempt,
        orders: Outbox<Order>,
    ) -> impl Future<Output = Result<Opened<Word>, OpenError>> + Send + 'static {
        self.double.open(target, attempt, orders)
    }
}

/// Waits for a failed attempt and returns its text.
async fn failed(events: &mut Events<Polite>) -> (OpenClass, String) {
    let event = tokio::time::timeout(LONG, events.recv()).await.unwrap();
    match event.unwrap().kind {
        EventKind::AttemptFailed { error, .. } => (error.class, error.text),
        kind => panic!("no failed attempt: {kind:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_greeting_comes_once_for_each_stream_and_ahead_of_everything() {
    let polite = Polite::new(|attempt| {
        let text = format!("{} in {}", attempt.worker, attempt.generation);
        vec![Order::new(text), Order::new("second")]
    });
    let (pool, _events) = polite.pool(PoolConfig::new(1));
    let puppet = polite.double.puppet("there");
    puppet.set(Act::Fail(OpenClass::Refused));
    pool.insert("a", "there".to_owned());
    pool.ready(["a"], std::time::Duration::from_secs(1))
        .await
        .unwrap_err();
    puppet.set(Act::Accept);
    for generation in 2..12 {
        pool.ready(["a"], LONG).await.unwrap();
        pool.try_send("a", Order::new("third")).unwrap();
        let mut line = puppet.line().await;
        line.say(Word::note("healthy")).await;
        for text in [&format!("a in {generation}"), "second", "third"] {
            assert_eq!(&line.next_order().await, text);
        }
        drop(line);
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    // The refused one has run it as well.
    assert_eq!(
        polite.greeted.lock().unwrap()[..11],
        [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]
    );
}

#[tokio::test(start_paused = true)]
async fn a_greeting_that_does_not_fit_fails_the_attempt_and_says_so() {
    let two = |_: &Attempt| vec![Order::new(1), Order::new(2)];
    let polite = Polite::new(two);
    let (pool, mut events) = polite.pool(PoolConfig::new(1).with_outbox(1, 100));
    pool.insert("a", "a".to_owned());
    let text = "the greeting cannot be queued: the outbox is full".to_owned();
    assert_eq!(failed(&mut events).await, (OpenClass::Unreachable, text));
    let mut polite = Polite::new(two);
    polite.largest = 0;
    let (pool, mut events) = polite.pool(PoolConfig::new(1));
    pool.insert("a", "a".to_owned());
    let text = "the greeting cannot be queued: 1 bytes, more than the limit of 0".to_owned();
    assert_eq!(failed(&mut events).await, (OpenClass::Unreachable, text));
    assert_eq!(polite.double.puppet("a").attempts(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_greeting_that_panics_fails_its_attempt_and_no_other() {
    let polite = Polite::new(|attempt| {
        assert_ne!(attempt.worker.as_str(), "bad", "the test asked for it");
        Vec::new()
    });
    let (pool, mut events) = polite.pool(PoolConfig::new(1));
    pool.insert("bad", "bad".to_owned());
    for _ in 0..3 {
        assert_eq!(failed(&mut events).await.1, "the connector panicked");
    }
    pool.insert("good", "good".to_owned());
    pool.ready(["good"], LONG).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_pool_of_any_transport_connects_asks_and_hears() {
    // Compiled without the gRPC transport as well.
    let double = Double::default();
    let (pool, mut events, mut lines) = double.up(&["a"]).await;
    let round = pool.inject(1, ["a"], |_| Order::new("barrier")).unwrap();
    assert_eq!(lines[0].next_order().await, "barrier");
    lines[0].say(Word::answer(1)).await;
    lines[0].say(Word::note("done")).await;
    assert_eq!(round.collect(LONG).await.unwrap().len(), 1);
    assert_eq!(next(&mut events).await, "a connected");
    assert_eq!(next(&mut events).await, "a said done");
    pool.close().await;
}
