use futures_util::{FutureExt, StreamExt};

use super::*;

fn small() -> (OutboxSender<u8>, Outbox<u8>) {
    outbox(Room {
        count: 2,
        bytes: 10,
    })
}

#[test]
fn room_is_bounded_by_count_and_by_bytes() {
    let (sender, mut outbox) = small();
    assert_eq!(sender.try_push(0, 11), Err((Refused::TooLarge, 0)));
    sender.try_push(1, 6).unwrap();
    assert_eq!(sender.try_push(2, 5), Err((Refused::Full, 2)));
    sender.try_push(3, 4).unwrap();
    assert_eq!(sender.try_push(4, 0), Err((Refused::Full, 4)));
    assert_eq!(outbox.next().now_or_never(), Some(Some(1)));
    // What of the batch is still to be taken counts.
    assert_eq!(sender.try_push(5, 7), Err((Refused::Full, 5)));
    assert_eq!(outbox.next().now_or_never(), Some(Some(3)));
    sender.try_push(6, 10).unwrap();
}

#[test]
fn a_reservation_holds_room_and_gives_it_back() {
    let (sender, mut outbox) = small();
    let first = sender.try_reserve(6).unwrap();
    assert_eq!(sender.try_reserve(5).err(), Some(Refused::Full));
    drop(first);
    let second = sender.try_reserve(10).unwrap();
    assert!(outbox.next().now_or_never().is_none());
    assert!(second.push(7));
    assert_eq!(outbox.next().now_or_never(), Some(Some(7)));
}

#[test]
fn closing_ends_the_stream_before_what_is_queued() {
    let (sender, mut outbox) = small();
    sender.try_push(1, 1).unwrap();
    sender.try_push(2, 1).unwrap();
    assert_eq!(outbox.next().now_or_never(), Some(Some(1)));
    let late = sender.try_reserve(9);
    assert!(late.is_ok());
    sender.close();
    assert_eq!(outbox.next().now_or_never(), Some(None));
    assert_eq!(sender.try_push(3, 1), Err((Refused::Closed, 3)));
}

#[test]
fn dropping_the_stream_refuses_further_messages() {
    let (sender, outbox) = small();
    let reserved = sender.try_reserve(1).unwrap();
    drop(outbox);
    assert!(!reserved.push(1));
    assert_eq!(sender.try_push(2, 1), Err((Refused::Closed, 2)));
}

#[tokio::test(start_paused = true)]
async fn a_waiting_push_goes_on_when_there_is_room_or_an_end() {
    let (sender, mut outbox) = small();
    sender.try_push(1, 10).unwrap();
    let mut waiting = Box::pin(sender.push(2, 10));
    assert!(waiting.as_mut().now_or_never().is_none());
    assert_eq!(outbox.next().await, Some(1));
    waiting.await.unwrap();
    let mut waiting = Box::pin(sender.push(3, 10));
    assert!(waiting.as_mut().now_or_never().is_none());
    sender.close();
    assert_eq!(waiting.await, Err((Refused::Closed, 3)));
}

#[tokio::test(start_paused = true)]
async fn each_of_several_waiting_pushes_goes_on_in_its_turn() {
    let (sender, mut outbox) = small();
    sender.try_push(0, 10).unwrap();
    let mut waiting: Vec<_> = (1..=3)
        .map(|item| Box::pin(sender.push(item, 10)))
        .collect();
    for push in &mut waiting {
        assert!(push.as_mut().now_or_never().is_none());
    }
    assert_eq!(outbox.next().await, Some(0));
    // Woken together, and refused but for one: those must hear of the next room too.
    for push in waiting.iter_mut().rev() {
        let _ = push.as_mut().now_or_never();
    }
    assert_eq!(outbox.next().await, Some(3));
    waiting.remove(0).await.unwrap();
    assert_eq!(outbox.next().await, Some(1));
    waiting.remove(0).await.unwrap();
    assert_eq!(outbox.next().await, Some(2));
}
