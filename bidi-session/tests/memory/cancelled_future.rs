//! Public futures that are dropped at each of their await points: nothing is lost, and
//! nothing comes twice.

use std::pin::pin;
use std::task::Poll;

use bidi_session::memory::{Acceptor, Network, SessionOver};
use bidi_session::{EventKind, Pool, PoolConfig};
use tokio::sync::mpsc;

use crate::rig::{LONG, WorkerSession, barrier, connect, millis, note, told, up};

/// Polls a future so many times, with others in between, then drops it.
async fn polled<F: Future>(times: u32, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    for _ in 0..times {
        let polled = std::future::poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await;
        if let Poll::Ready(output) = polled {
            return Some(output);
        }
        tokio::task::yield_now().await;
    }
    None
}

#[tokio::test(start_paused = true)]
async fn a_dropped_recv_of_events_loses_no_event() {
    let network = Network::new(1);
    network.serve(
        "a",
        Acceptor::new("a", 1, 0),
        |session: WorkerSession| async move {
            for tag in 0..5_000 {
                session.send(note(tag)).await.unwrap();
                if tag % 3 == 0 {
                    tokio::time::sleep(millis(1)).await;
                }
            }
            std::future::pending::<()>().await;
        },
    );
    let config = PoolConfig::new(1).with_inbox(4);
    let (pool, mut events) = Pool::new(connect(&network), config);
    pool.insert("a", "a".to_owned());
    let (mut expected, mut dropped) = (0, 0);
    let mut random = fastrand::Rng::with_seed(1);
    while expected < 5_000 {
        match polled(random.u32(1..4), events.recv()).await {
            Some(event) => {
                if let EventKind::Message(word) = event.unwrap().kind {
                    assert_eq!(word.tag, expected);
                    expected += 1;
                }
            }
            None => {
                dropped += 1;
                tokio::time::sleep(millis(random.u64(..2))).await;
            }
        }
    }
    assert!(dropped > 1_000, "{dropped}");
}

#[tokio::test(start_paused = true)]
async fn a_dropped_send_of_the_pool_sends_nothing_and_a_finished_one_once() {
    let network = Network::new(1);
    let (tell, mut heard) = mpsc::channel(8_192);
    network.serve(
        "a",
        Acceptor::new("a", 1, 0),
        move |mut session: WorkerSession| {
            let tell = tell.clone();
            async move {
                while let Some(word) = session.recv().await {
                    tell.send(word.tag).await.unwrap();
                    tokio::time::sleep(millis(1)).await;
                }
            }
        },
    );
    let config = PoolConfig::new(1).with_outbox(2, 100);
    let (pool, _events) = Pool::new(connect(&network), config);
    pool.insert("a", "a".to_owned());
    pool.ready(["a"], LONG).await.unwrap();
    let mut random = fastrand::Rng::with_seed(1);
    let (mut sent, mut dropped) = (Vec::new(), 0);
    for tag in 0..5_000 {
        let times = random.u32(1..6);
        match polled(times, pool.send("a", note(tag))).await {
            Some(result) => {
                result.unwrap();
                sent.push(tag);
            }
            None => dropped += 1,
        }
        if random.u32(..3) == 0 {
            tokio::time::sleep(millis(1)).await;
        }
    }
    assert!(
        sent.len() > 500 && dropped > 500,
        "{} and {dropped}",
        sent.len()
    );
    tokio::time::sleep(LONG).await;
    let mut arrived = Vec::new();
    while let Ok(tag) = heard.try_recv() {
        arrived.push(tag);
    }
    assert_eq!(arrived, sent);
}

#[tokio::test(start_paused = true)]
async fn dropped_recvs_and_sends_of_a_worker_lose_and_repeat_nothing() {
    let network = Network::new(1);
    network.serve(
        "a",
        Acceptor::new("a", 1, 0),
        |mut session: WorkerSession| async move {
            let mut random = fastrand::Rng::with_seed(1);
            loop {
                let word = match polled(random.u32(1..4), session.recv()).await {
                    Some(Some(word)) => word,
                    Some(None) => return,
                    None => {
                        tokio::time::sleep(millis(random.u64(..2))).await;
                        continue;
                    }
                };
                // Repeated until one of them was not dropped.
                while let None | Some(Err(SessionOver { .. })) =
                    polled(random.u32(1..3), session.send(word)).await
                {
                    tokio::time::sleep(millis(1)).await;
                }
            }
        },
    );
    let config = PoolConfig::new(1).with_inbox(2);
    let (pool, mut events) = Pool::new(connect(&network), config);
    pool.insert("a", "a".to_owned());
    assert_eq!(told(&mut events).await, "a connected");
    let send = async {
        for tag in 0..5_000 {
            pool.send("a", note(tag)).await.unwrap();
        }
    };
    let take = async {
        for tag in 0..5_000 {
            assert_eq!(told(&mut events).await, format!("a said {tag}"));
            if tag % 1_000 > 500 {
                // The worker's own outbox fills up.
                tokio::time::sleep(millis(5)).await;
            }
        }
    };
    tokio::join!(send, take);
    assert_eq!(events.try_recv(), None);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_collect_ready_or_close_leaves_the_pool_as_it_was() {
    let (network, pool, mut events) = up(&["a"]).await;
    assert_eq!(told(&mut events).await, "a connected");
    for times in 1..200 {
        network.cut("a");
        let id = u64::from(times) * 2;
        let round = pool.inject(id, ["a"], |_| barrier(id)).unwrap();
        assert!(polled(times, round.collect(LONG)).await.is_none());
        network.hang("b");
        pool.insert("b", "b".to_owned());
        assert!(polled(times, pool.ready(["a", "b"], LONG)).await.is_none());
        pool.remove("b");
        network.heal("a");
        // The answer to a forgotten round is late, and that of the next one counts.
        let round = pool.inject(id + 1, ["a"], |_| barrier(id + 1)).unwrap();
        let answers = round.collect(LONG).await.unwrap();
        assert_eq!(answers, [("a".into(), barrier(id + 1))]);
    }
    assert_eq!(pool.counters().late, 199);
    assert_eq!(pool.state("a").unwrap().generation, 1);
    // Closed by the first poll; it goes on by itself.
    let _ = polled(1, pool.close()).await;
    while events.recv().await.is_some() {}
    assert_eq!(pool.state("a"), None);
}
