//! Owners and connectors that do what they should not, or what few do.

use std::pin::Pin;
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use bidi_session::{
    Attempt, Connector, EventKind, Failure, OpenClass, OpenError, Opened, Outbox, Phase, Pool,
    PoolConfig, RoundError,
};
use futures_util::{StreamExt, stream};
use tokio::runtime::{Builder, Runtime};
use tokio::time::sleep;

type Open = Pin<Box<dyn Future<Output = Result<Opened<i64>, OpenError>> + Send>>;
type Hook = Box<dyn FnOnce() + Send>;
#[derive(Clone)]
struct Target(String, Option<Pool<Puppet>>); // with a pool: its drop asks that
impl Drop for Target {
    fn drop(&mut self) {
        self.1.take().map(|pool| pool.state("w"));
    }
}
/// In: above 0 answers that round, -999 makes `answers` panic, else a note.
#[derive(Clone)]
struct Puppet {
    open: Arc<dyn Fn(String, Attempt, Outbox<u64>) -> Open + Send + Sync>,
    on_same: Arc<Mutex<Option<Hook>>>,
}
impl Connector for Puppet {
    type Target = Target;
    type Out = u64;
    type In = i64;
    fn is_same(&self, a: &Target, b: &Target) -> bool {
        let hook = self.on_same.lock().unwrap().take();
        if let Some(hook) = hook {
            hook()
        }
        a.0 == b.0
    }
    fn describe(&self, t: &Target) -> String {
        t.0.clone()
    }
    fn size(&self, _: &u64) -> usize {
        1
    }
    fn answers(&self, m: &i64) -> Option<u64> {
        assert!(*m != -999, "on purpose");
        u64::try_from(*m).ok()
    }
    fn open(
        &self,
        t: Target,
        a: Attempt,
        o: Outbox<u64>,
    ) -> impl Future<Output = Result<Opened<i64>, OpenError>> + Send + 'static {
        (self.open)(t.0.clone(), a, o)
    }
}
fn puppet<F: Future<Output = Result<Opened<i64>, OpenError>> + Send + 'static>(
    open: impl Fn(String, Attempt, Outbox<u64>) -> F + Send + Sync + 'static,
) -> Puppet {
    Puppet {
        open: Arc::new(move |t, a, o| Box::pin(open(t, a, o))),
        on_same: Arc::default(),
    }
}
/// A session that takes all and says nothing.
fn quiet(o: Outbox<u64>) -> Result<Opened<i64>, OpenError> {
    Ok(Opened::new(
        o.filter_map(|_| async { None }).chain(stream::pending()),
        None,
        || {},
    ))
}
fn idle() -> Puppet {
    puppet(|_, _, o| async move { quiet(o) })
}
fn at(t: &str) -> Target {
    Target(t.into(), None)
}
const fn secs(s: u64) -> Duration {
    Duration::from_secs(s)
}
fn ends(limit: Duration, f: impl FnOnce() + Send + 'static) -> bool {
    let (tx, rx) = mpsc::channel();
    std::thread::spawn(move || {
        f();
        let _ = tx.send(());
    });
    rx.recv_timeout(limit) != Err(mpsc::RecvTimeoutError::Timeout)
}
fn threads() -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}
fn single() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn a_session_is_where_later_inserts_say() {
    let (rt, now_at) = (threads(), Arc::new(Mutex::new(String::new())));
    let seen = now_at.clone();
    let connect = puppet(move |t, _, o| {
        *seen.lock().unwrap() = t;
        async { quiet(o) }
    });
    let hook = connect.on_same.clone();
    let (pool, _events) = {
        let _in = rt.enter();
        Pool::new(connect, PoolConfig::new(1))
    };
    pool.insert("w", at("A"));
    rt.block_on(pool.ready(["w"], secs(5))).unwrap();
    let (other, seen) = (pool.clone(), now_at.clone());
    *hook.lock().unwrap() = Some(Box::new(move || {
        // another thread, between the look and the refresh
        other.insert("w", at("B"));
        while *seen.lock().unwrap() != "B" || other.state("w").unwrap().phase != Phase::Up {
            std::thread::yield_now()
        }
    }));
    for _ in 0..4 {
        pool.insert("w", at("A"));
        std::thread::sleep(Duration::from_millis(300));
    }
    assert_eq!(*now_at.lock().unwrap(), "A");
}

#[tokio::test(start_paused = true)]
async fn no_attempt_mixes_two_inserts() {
    let dialed = Arc::new(Mutex::new(Vec::new()));
    let seen = dialed.clone();
    let connect = puppet(move |t, a, o| {
        seen.lock().unwrap().push((t, a.incarnation));
        async { quiet(o) }
    });
    let hook = connect.on_same.clone();
    let (pool, _events) = Pool::new(connect, PoolConfig::new(1));
    pool.insert("w", at("A"));
    pool.ready(["w"], secs(5)).await.unwrap();
    let other = pool.clone();
    *hook.lock().unwrap() = Some(Box::new(move || other.insert_incarnation("w", at("B"), 5)));
    pool.insert("w", at("A"));
    sleep(secs(1)).await;
    assert!(
        !dialed.lock().unwrap().contains(&("A".into(), Some(5))),
        "{dialed:?}"
    );
}

#[tokio::test]
async fn events_yield_to_other_tasks_as_channels_do() {
    let flood = puppet(|_, _, o| async move {
        Ok(Opened::new(
            stream::repeat(()).map(move |()| {
                let _keep = &o;
                Ok(-1)
            }),
            None,
            || {},
        ))
    });
    let (pool, mut events) = Pool::new(flood, PoolConfig::new(1).with_inbox(1000));
    pool.insert("w", at("A"));
    sleep(Duration::from_millis(100)).await;
    let mut taken = 0;
    let mut all = Box::pin(async {
        while taken < 900 {
            events.recv().await;
            taken += 1
        }
    });
    let first = std::future::poll_fn(|cx| std::task::Poll::Ready(all.as_mut().poll(cx))).await;
    assert!(
        first.is_pending(),
        "900 events in one poll; tokio's budget is 128"
    );
}

#[tokio::test(start_paused = true)]
async fn what_arrived_before_a_message_that_panics_is_told() {
    let connect = puppet(|_, a, o| async move {
        if a.generation > 1 {
            return quiet(o);
        }
        let first = stream::once(async move {
            sleep(secs(1)).await;
            drop(o);
            Ok(-7)
        });
        Ok(Opened::new(
            first
                .chain(stream::iter([Ok(1), Ok(-999)]))
                .chain(stream::pending()),
            None,
            || {},
        ))
    });
    let (pool, mut events) = Pool::new(connect, PoolConfig::new(1));
    pool.insert("w", at("A"));
    pool.ready(["w"], secs(5)).await.unwrap();
    let round = pool.inject(1, ["w"], |_| 1).unwrap().collect(secs(9)).await;
    let _connected = events.recv().await;
    let next = events.recv().await.unwrap().kind;
    assert!(
        round.is_ok() && next == EventKind::Message(-7),
        "{round:?} {next:?} {:?}",
        pool.counters()
    );
}

#[test]
fn a_deaf_session_ends_after_a_second_though_its_worker_floods() {
    let connect = puppet(|_, a, o| async move {
        if a.generation > 1 {
            return quiet(o);
        }
        drop(o);
        Ok(Opened::new(stream::repeat_with(|| Ok(77)), None, || {}))
    });
    let rt = threads();
    let (pool, _events) = {
        let _in = rt.enter();
        Pool::new(connect, PoolConfig::new(1))
    };
    pool.insert("w", at("A"));
    std::thread::sleep(secs(4));
    let state = pool.state("w").unwrap();
    rt.shutdown_background();
    assert!(state.generation > 1, "{state:?} {:?}", pool.counters());
}

#[tokio::test(start_paused = true)]
async fn a_kill_switch_that_panics_hides_no_loss_from_a_round() {
    let connect = puppet(|_, a, o| async move {
        if a.generation > 1 {
            return quiet(o);
        }
        Ok(Opened::new(
            stream::once(async move {
                sleep(secs(1)).await;
                drop(o);
                Err(Failure::new("broke"))
            }),
            None,
            || panic!("on purpose"),
        ))
    });
    let (pool, _events) = Pool::new(connect, PoolConfig::new(1));
    pool.insert("w", at("A"));
    pool.ready(["w"], secs(5)).await.unwrap();
    let round = pool
        .inject(1, ["w"], |_| 1)
        .unwrap()
        .collect(secs(300))
        .await;
    assert!(matches!(round, Err(RoundError::Failed { .. })), "{round:?}");
}

#[tokio::test(start_paused = true)]
async fn an_endless_blocked_retry_is_no_panic() {
    let (pool, mut events) = Pool::new(
        puppet(|_, _, _| async { Err(OpenError::new(OpenClass::Refused, "no")) }),
        PoolConfig::new(1).with_blocked_retry(Duration::MAX),
    );
    sleep(secs(1)).await;
    pool.insert("w", at("A"));
    let event = events.recv().await.unwrap();
    assert!(
        matches!(&event.kind, EventKind::AttemptFailed { error, .. } if error.text == "no"),
        "{event:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_outbox_of_64_in_which_one_message_waits_is_not_full() {
    let held = Arc::new(Mutex::new(None));
    let keep = held.clone();
    let (pool, _events) = Pool::new(
        puppet(move |_, _, o| {
            *keep.lock().unwrap() = Some(o);
            async { Ok(Opened::new(stream::pending(), None, || {})) }
        }),
        PoolConfig::new(1).with_outbox(64, 1 << 20),
    );
    pool.insert("w", at("A"));
    pool.ready(["w"], secs(5)).await.unwrap();
    (0..64).for_each(|i| pool.try_send("w", i).unwrap());
    let mut outbox = held.lock().unwrap().take().unwrap();
    for _ in 0..63 {
        outbox.next().await.unwrap();
    }
    pool.try_send("w", 64).unwrap();
}

#[test]
fn a_target_s_drop_may_ask_the_pool() {
    assert!(ends(secs(3), || single().block_on(async {
        let (pool, _events) = Pool::new(idle(), PoolConfig::new(1));
        pool.insert("w", Target("A".into(), Some(pool.clone())));
        pool.ready(["w"], secs(2)).await.unwrap();
        pool.insert("w", at("B"));
    })));
}

/// A waker that asks the pool when it is woken.
struct Asks(Pool<Puppet>);
impl Wake for Asks {
    fn wake(self: Arc<Self>) {
        let _ = self.0.state("w");
    }
}
#[test]
fn a_waker_may_ask_the_pool() {
    assert!(ends(secs(3), || single().block_on(async {
        let (pool, mut events) = Pool::new(idle(), PoolConfig::new(1));
        let waker = Waker::from(Arc::new(Asks(pool.clone())));
        let mut recv = Box::pin(events.recv());
        assert!(
            recv.as_mut()
                .poll(&mut Context::from_waker(&waker))
                .is_pending()
        );
        pool.insert("w", at("A"));
        pool.ready(["w"], secs(2)).await.unwrap();
    })));
}
#[test]
fn a_waker_may_own_the_last_handle() {
    assert!(ends(secs(3), || single().block_on(async {
        let (pool, mut events) = Pool::new(idle(), PoolConfig::new(1));
        let waker = Waker::from(Arc::new(Asks(pool)));
        assert!(
            Box::pin(events.recv())
                .as_mut()
                .poll(&mut Context::from_waker(&waker))
                .is_pending()
        );
        drop(waker);
        assert!(events.recv().await.is_none()); // replaces the waker, under the inbox's lock
    })));
}
