//! Messages and rounds that cannot be queued everywhere: nothing of them is.

mod double;

use bidi_session::{InjectError, PoolConfig, SendErrorKind, WorkerId};
use futures_util::{FutureExt, StreamExt};

use double::{Act, Double, LONG, Order, Word};

fn order(worker: &WorkerId) -> Order {
    Order::new(worker)
}

#[tokio::test(start_paused = true)]
async fn everyone_who_cannot_take_it_is_named_and_no_one_gets_it() {
    let double = Double::default();
    let (pool, _events, mut lines) = double.up(&["a"]).await;
    double.puppet("down").set(Act::Hang);
    pool.insert("down", "down".to_owned());
    let error = pool.inject(1, ["a", "down", "who"], |_| unreachable!());
    let error = error.unwrap_err();
    let refused = vec![
        ("down".into(), SendErrorKind::NotConnected),
        ("who".into(), SendErrorKind::Unknown),
    ];
    assert_eq!(error, InjectError::NotQueued { refused });
    assert_eq!(
        error.to_string(),
        "nothing was injected: down (no session), who (unknown worker)"
    );
    assert!(lines[0].orders.next().now_or_never().is_none());
    // The id is not used up.
    drop(pool.inject(1, ["a"], order).unwrap());
}

#[tokio::test(start_paused = true)]
async fn one_full_outbox_keeps_the_round_from_all() {
    let double = Double::default();
    let (pool, _events) = double.pool_with(PoolConfig::new(1).with_outbox(2, 100));
    for worker in ["a", "b"] {
        pool.insert(worker, worker.to_owned());
    }
    pool.ready(["a", "b"], LONG).await.unwrap();
    let (mut a, mut b) = (
        double.puppet("a").line().await,
        double.puppet("b").line().await,
    );
    pool.try_send("b", Order::new(1)).unwrap();
    pool.try_send("b", Order::new(2)).unwrap();
    let refused = vec![("b".into(), SendErrorKind::Full)];
    let error = pool.inject(1, ["a", "b"], order).unwrap_err();
    assert_eq!(error, InjectError::NotQueued { refused });
    assert!(a.orders.next().now_or_never().is_none());
    // What was reserved for `a` was given back: its whole outbox is free.
    pool.try_send("a", Order::new(3)).unwrap();
    pool.try_send("a", Order::new(4)).unwrap();
    assert_eq!(b.next_order().await, "1");
    assert_eq!(b.next_order().await, "2");
    assert_eq!(a.next_order().await, "3");
    assert_eq!(a.next_order().await, "4");
    let round = pool.inject(1, ["a", "b"], order).unwrap();
    assert_eq!(a.next_order().await, "a");
    assert_eq!(b.next_order().await, "b");
    a.say(Word::answer(1)).await;
    b.say(Word::answer(1)).await;
    assert_eq!(round.collect(LONG).await.unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_refused_message_comes_back() {
    let double = Double::default();
    let (pool, _events) = double.pool_with(PoolConfig::new(1).with_outbox(256, 1000));
    double.puppet("hangs").set(Act::Hang);
    pool.insert("hangs", "hangs".to_owned());
    pool.insert("a", "a".to_owned());
    pool.ready(["a"], LONG).await.unwrap();
    let message = |bytes| Order {
        text: "mine".to_owned(),
        bytes,
    };
    let cases = [
        ("who", 1, SendErrorKind::Unknown),
        ("hangs", 1, SendErrorKind::NotConnected),
        (
            "a",
            1001,
            SendErrorKind::TooLarge {
                size: 1001,
                limit: 1000,
            },
        ),
    ];
    for (worker, bytes, kind) in cases {
        let error = pool.try_send(worker, message(bytes)).unwrap_err();
        assert_eq!((error.kind, error.message), (kind, message(bytes)));
        let error = pool.send(worker, message(bytes)).await.unwrap_err();
        assert_eq!((error.kind, error.message), (kind, message(bytes)));
    }
    pool.try_send("a", message(1000)).unwrap();
    let error = pool.try_send("a", message(1)).unwrap_err();
    assert_eq!(
        (error.kind, error.message),
        (SendErrorKind::Full, message(1))
    );
    pool.close().await;
    let error = pool.try_send("a", message(1)).unwrap_err();
    assert_eq!(
        (error.kind, error.message),
        (SendErrorKind::Closed, message(1))
    );
}

#[tokio::test(start_paused = true)]
async fn send_waits_for_room_and_not_for_a_session() {
    let double = Double::default();
    let (pool, _events) = double.pool_with(PoolConfig::new(1).with_outbox(1, 100));
    pool.insert("a", "a".to_owned());
    pool.ready(["a"], LONG).await.unwrap();
    let mut line = double.puppet("a").line().await;
    pool.send("a", Order::new(1)).await.unwrap();
    let mut second = Box::pin(pool.send("a", Order::new(2)));
    assert!(second.as_mut().now_or_never().is_none());
    assert_eq!(line.next_order().await, "1");
    second.await.unwrap();
    let third = pool.send("a", Order::new(3));
    drop(line);
    let error = third.await.unwrap_err();
    assert_eq!(
        (error.kind, error.message.text.as_str()),
        (SendErrorKind::NotConnected, "3")
    );
}

#[tokio::test(start_paused = true)]
async fn the_outbox_is_bounded_by_256_messages_and_a_mebibyte() {
    let (pool, _events, _lines) = Double::default().up(&["a", "b"]).await;
    for number in 0..256 {
        pool.try_send("a", Order::new(number)).unwrap();
    }
    let error = pool.try_send("a", Order::new(256)).unwrap_err();
    assert_eq!(error.kind, SendErrorKind::Full);
    let large = |bytes| Order {
        text: String::new(),
        bytes,
    };
    pool.try_send("b", large(1024 * 1024 - 1)).unwrap();
    assert_eq!(
        pool.try_send("b", large(2)).unwrap_err().kind,
        SendErrorKind::Full
    );
    pool.try_send("b", large(1)).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_round_like_the_last_asks_the_sessions_of_now_in_its_own_order() {
    let double = Double::default();
    let (pool, _events, mut lines) = double.up(&["a", "b"]).await;
    let mut b = lines.pop().unwrap();
    let mut a = lines.pop().unwrap();
    let rounds = [
        (1, &["a", "b"][..], ["a", "b"]),
        (2, &["a", "b"], ["a", "b"]),
        // Named twice, asked once.
        (3, &["a", "b", "a"], ["a", "b"]),
        (4, &["b", "a"], ["b", "a"]),
    ];
    for (id, targets, asked) in rounds {
        let round = pool.inject(id, targets, order).unwrap();
        for line in [&mut a, &mut b] {
            line.next_order().await;
            assert!(line.orders.next().now_or_never().is_none(), "{id}");
            line.say(Word::answer(id)).await;
        }
        let answers = round.collect(LONG).await.unwrap();
        let order: Vec<_> = answers.iter().map(|(worker, _)| worker.as_str()).collect();
        assert_eq!(order, asked, "{id}");
    }
    // Another session of `a`, and nothing but that has changed.
    drop(a);
    let mut a = double.puppet("a").line().await;
    pool.ready(["a"], LONG).await.unwrap();
    let round = pool.inject(5, ["b", "a"], order).unwrap();
    for line in [&mut a, &mut b] {
        line.next_order().await;
        line.say(Word::answer(5)).await;
    }
    assert_eq!(round.collect(LONG).await.unwrap().len(), 2);
    // One of the last round has left: it is missed, though it was just asked.
    pool.remove("b");
    let refused = vec![("b".into(), SendErrorKind::Unknown)];
    let error = pool.inject(6, ["b", "a"], order).unwrap_err();
    assert_eq!(error, InjectError::NotQueued { refused });
    // And is back, elsewhere.
    pool.insert("b", "b2".to_owned());
    let mut b = double.puppet("b2").line().await;
    pool.ready(["b"], LONG).await.unwrap();
    let round = pool.inject(6, ["b", "a"], order).unwrap();
    for line in [&mut a, &mut b] {
        line.next_order().await;
        line.say(Word::answer(6)).await;
    }
    assert_eq!(round.collect(LONG).await.unwrap().len(), 2);
}
