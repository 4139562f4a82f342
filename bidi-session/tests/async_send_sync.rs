//! Public types and futures that must cross threads.

mod double;

use bidi_session::{
    Attempt, BackoffPolicy, ConfigError, Counters, DialLimit, Direction, DisconnectReason, Event,
    EventKind, Events, Failure, FailureKind, InjectError, NotReady, OpenError, Opened, Outbox,
    Phase, Pool, PoolConfig, Round, RoundError, SendError, SendErrorKind, WorkerId, WorkerState,
};

use double::{Double, LONG, Order, Word};

const fn shared<T: Send + Sync + 'static>() {}
const fn sent<T: Send + 'static>() {}
fn sent_future(_: impl Future + Send) {}

const _: () = {
    shared::<Pool<Double>>();
    shared::<Events<Double>>();
    shared::<Round<Word>>();
    shared::<Event<Word>>();
    shared::<EventKind<Word>>();
    shared::<Outbox<Order>>();
    sent::<Opened<Word>>();
    shared::<(Attempt, OpenError, Failure, DisconnectReason, Counters)>();
    shared::<(BackoffPolicy, FailureKind, Direction)>();
    shared::<(PoolConfig, DialLimit, ConfigError, WorkerId)>();
    shared::<(WorkerState, Phase, NotReady, InjectError, RoundError)>();
    shared::<(SendError<Order>, SendErrorKind)>();
};

#[tokio::test(start_paused = true)]
async fn public_futures_are_send_and_borrow_what_they_are_given() {
    let (pool, mut events, _lines) = Double::default().up(&["a"]).await;
    let workers = vec!["a".to_owned()];
    sent_future(pool.ready(&workers, LONG));
    sent_future(pool.send("a", Order::new(1)));
    sent_future(pool.close());
    sent_future(events.recv());
    let ids = std::collections::BTreeSet::from([WorkerId::from("a")]);
    sent_future(
        pool.inject(1, &ids, |_| Order::new(1))
            .unwrap()
            .collect(LONG),
    );
}

#[cfg(feature = "tonic")]
mod over_tonic {
    use bidi_session::Pool;
    use bidi_session::tonic::{
        Acceptor, Handshake, Session, SessionOver, SessionSender, SessionStream, Tonic,
        TrySendError,
    };

    use super::{sent_future, shared};

    const _: () = {
        shared::<(Acceptor, Tonic<u8, u16>, Pool<Tonic<u8, u16>>)>();
        shared::<(Session<u8, u16>, SessionSender<u16>, SessionStream<u16>)>();
        shared::<Handshake>();
        shared::<(SessionOver<u16>, TrySendError<u16>)>();
        #[cfg(feature = "test-util")]
        shared::<(
            bidi_session::tonic::FaultProxy,
            bidi_session::tonic::ProxyCounts,
        )>();
    };

    // Never called: that it compiles is the claim.
    #[expect(dead_code, reason = "compiling is the test")]
    fn session_futures_are_send(mut session: Session<u8, u16>, sender: SessionSender<u16>) {
        sent_future(session.recv());
        sent_future(session.send(1));
        sent_future(sender.send(1));
        sent_future(sender.over());
    }
}
