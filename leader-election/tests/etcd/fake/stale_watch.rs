//! Hunts candidates and observers that believe a watch: one that is out of order, tells
//! half of what happened, or nothing though it says that it goes on.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use etcd_client::{
    EventType,
    proto::{PbEvent, PbWatchResponse},
};
use leader_election::{Election, Leader, Leadership, Resigned, etcd::EtcdElection};
use tokio::{
    sync::watch::Receiver,
    time::{Instant, timeout},
};

use super::{Fake, Fate, TTL, bent, lead, lock};
use crate::{config, soon, together::together};

/// More than scheduling takes.
const SLACK: Duration = Duration::from_millis(900);

/// Takes the events, and leaves progress answers and those to new watches.
fn swallow_events(fake: &Fake) {
    fake.bend_watches(|_, answer| {
        if answer.events.is_empty() {
            Fate::Kept(answer)
        } else {
            Fate::Instead(Vec::new())
        }
    });
}

/// Notes whatever an observer shows, until it has shown this.
async fn shown_until(mut seen: Receiver<Option<Leader>>, last: Option<&[u8]>) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let until = async {
        loop {
            let now = seen.borrow_and_update().clone().map(|leader| leader.value);
            all.extend(now.clone());
            if now.as_deref() == last {
                return;
            }
            seen.changed().await.expect("the election lives");
        }
    };
    soon(until).await;
    all
}

fn only(answer: &PbWatchResponse, events: &[PbEvent]) -> PbWatchResponse {
    PbWatchResponse {
        events: events.to_vec(),
        ..answer.clone()
    }
}

async fn shows(seen: &mut Receiver<Option<Leader>>, value: Option<&[u8]>) {
    let is_shown = |seen: &Option<Leader>| seen.as_ref().map(|seen| &*seen.value) == value;
    soon(seen.wait_for(is_shown)).await.expect("it is observed");
}

/// A leader, and an observer that sees it while the election lives.
async fn observed() -> (Fake, EtcdElection, Leadership, Receiver<Option<Leader>>) {
    let fake = Fake::start().await;
    let election = fake.join().await;
    let leads = lead(&election, b"a").await.expect("it leads");
    let mut seen = election.observe();
    shows(&mut seen, Some(b"a")).await;
    // The leader's own key, and the range of the observer.
    fake.watched(2).await;
    (fake, election, leads, seen)
}

together! {
    watches_are_stale:
    a_watch_that_only_says_that_it_goes_on_delays_a_win_by_one_ttl_at_most,
    an_observer_of_a_watch_that_only_says_that_it_goes_on_sees_all_in_the_end,
    of_two_that_went_at_one_revision_the_second_is_never_shown,
    a_candidate_whose_end_was_told_before_its_begin_is_forgotten,
    an_older_value_that_comes_late_is_not_shown_again,
    a_delete_that_did_not_happen_ends_no_leadership_and_wins_none,
    an_event_of_a_later_version_stops_neither_observers_nor_candidates,
    a_compacted_watch_is_begun_again_from_a_fresh_read,
    a_server_that_compacts_each_watch_is_not_asked_without_pause,
    a_server_that_ends_each_stream_after_an_answer_is_one_that_works,
}

async fn a_watch_that_only_says_that_it_goes_on_delays_a_win_by_one_ttl_at_most() {
    let fake = Fake::start().await;
    let (first, second) = (fake.join().await, fake.join().await);
    let leads = lead(&first, b"a").await.unwrap();
    let waits = tokio::spawn(async move { lead(&second, b"b").await.unwrap() });
    fake.watched(3).await;
    swallow_events(&fake);
    assert_eq!(leads.resign().await, Resigned::Released);
    let began = Instant::now();
    let _next = soon(waits).await.unwrap();
    let took = began.elapsed();
    println!("won after {took:?}");
    assert!(took < Duration::from_secs(TTL) + SLACK, "{took:?}");
    assert!(fake.bent() > 0);
}

async fn an_observer_of_a_watch_that_only_says_that_it_goes_on_sees_all_in_the_end() {
    let (fake, _election, leads, mut seen) = observed().await;
    swallow_events(&fake);
    leads.proclaim(b"a2").await.unwrap();
    let began = Instant::now();
    shows(&mut seen, Some(b"a2")).await;
    let took = began.elapsed();
    println!("seen after {took:?}");
    assert!(took < Duration::from_secs(TTL) + 2 * SLACK, "{took:?}");
    assert!(fake.bent() > 0 && fake.progress() > 0);
}

async fn of_two_that_went_at_one_revision_the_second_is_never_shown() {
    for splits in [false, true] {
        let fake = Fake::start().await;
        // Long limits: it is told, and need not read the queue anew.
        let election = fake.join_as(config(30)).await;
        let _first = lead(&election, b"a").await.unwrap();
        let mut waiting = Vec::new();
        for (value, count) in [(b"b", 2), (b"c", 3)] {
            let other = fake.join_as(config(30)).await;
            waiting.push(tokio::spawn(async move { lead(&other, value).await }));
            crate::queued(&election, count).await;
        }
        let all = election.candidates().await.unwrap();
        let mut seen = election.observe();
        shows(&mut seen, Some(b"a")).await;
        // Three own keys, two of those ahead, and the observer's range.
        fake.watched(6).await;
        let tells = splits.then_some(());
        fake.bend_watches(move |_, answer| match (tells, answer.events.as_slice()) {
            (Some(()), [first, second]) => Fate::Instead(vec![
                only(&answer, std::slice::from_ref(first)),
                only(&answer, std::slice::from_ref(second)),
            ]),
            _ => Fate::Kept(answer),
        });
        fake.delete(&[all[0].token, all[1].token]);
        let shown = shown_until(seen, Some(b"c")).await;
        assert!(!shown.contains(&b"b".to_vec()), "{shown:?}");
        assert_eq!(fake.bent() > 0, splits);
        waiting.iter().for_each(|waits| waits.abort());
    }
}

async fn a_candidate_whose_end_was_told_before_its_begin_is_forgotten() {
    let (fake, _election, leads, mut seen) = observed().await;
    let held: Arc<Mutex<Option<PbWatchResponse>>> = Arc::default();
    // Only the observer is told of more keys than those two: its answers change places.
    fake.bend_watches(move |_, answer| {
        let is_of = |kind: EventType| {
            let [event] = answer.events.as_slice() else {
                return false;
            };
            let key = event.kv.as_ref().map(|kv| kv.key.as_slice());
            event.r#type == kind as i32 && key == Some(b"e/passing")
        };
        if is_of(EventType::Put) {
            *lock(&held) = Some(answer);
            return Fate::Instead(Vec::new());
        }
        match lock(&held).take().filter(|_| is_of(EventType::Delete)) {
            Some(before) => Fate::Instead(vec![answer, before]),
            None => Fate::Kept(answer),
        }
    });
    let add = || fake.change(|model| model.add(b"e/passing"));
    let delete = || fake.change(|model| model.delete(&[b"e/passing".to_vec()]));
    // On a slow machine the observer may read the queue anew, and its next watch need not
    // tell of what it has read.
    loop {
        let before = fake.bent();
        add();
        let begins = timeout(SLACK, bent(&fake, before + 1)).await.is_ok();
        delete();
        if begins && timeout(SLACK, bent(&fake, before + 2)).await.is_ok() {
            break;
        }
    }
    assert_eq!(leads.resign().await, Resigned::Released);
    let began = Instant::now();
    shows(&mut seen, None).await;
    let took = began.elapsed();
    println!("forgotten after {took:?}");
    assert!(
        took < Duration::from_secs(TTL) / 2,
        "{took:?}: only by the read of each TTL"
    );
}

async fn an_older_value_that_comes_late_is_not_shown_again() {
    let (fake, _election, leads, seen) = observed().await;
    let held: Arc<Mutex<Vec<PbWatchResponse>>> = Arc::default();
    fake.bend_watches(move |_, answer| {
        let value = |answer: &PbWatchResponse| Some(answer.events.first()?.kv.clone()?.value);
        match value(&answer).as_deref() {
            Some(b"1") => {
                lock(&held).push(answer);
                Fate::Instead(Vec::new())
            }
            Some(b"2") => {
                let late = std::mem::take(&mut *lock(&held));
                Fate::Instead([vec![answer], late].concat())
            }
            _ => Fate::Kept(answer),
        }
    });
    for value in [b"1", b"2", b"3"] {
        leads.proclaim(value).await.unwrap();
    }
    let shown = shown_until(seen, Some(b"3")).await;
    assert!(shown.is_sorted(), "{shown:?}");
    assert!(fake.bent() >= 2);
}

async fn a_delete_that_did_not_happen_ends_no_leadership_and_wins_none() {
    let fake = Fake::start().await;
    let (first, second) = (fake.join().await, fake.join().await);
    let leads = lead(&first, b"a").await.unwrap();
    let waits = tokio::spawn(async move { lead(&second, b"b").await.unwrap() });
    fake.watched(3).await;
    fake.bend_watches(|_, mut answer| {
        if answer.events.is_empty() {
            return Fate::Kept(answer);
        }
        let delete = EventType::Delete as i32;
        answer
            .events
            .iter_mut()
            .for_each(|event| event.r#type = delete);
        Fate::Changed(answer)
    });
    leads.proclaim(b"a2").await.unwrap();
    // Both have read that nothing is gone, and watch anew.
    fake.watched(6).await;
    assert_eq!(fake.heal(), 2);
    assert!(leads.is_valid() && !waits.is_finished());
    assert_eq!(leads.resign().await, Resigned::Released);
    assert_eq!(
        soon(waits).await.unwrap().resign().await,
        Resigned::Released
    );
}

async fn an_event_of_a_later_version_stops_neither_observers_nor_candidates() {
    let fake = Fake::start().await;
    let (first, second) = (fake.join().await, fake.join().await);
    let leads = lead(&first, b"a").await.unwrap();
    let waits = tokio::spawn(async move { lead(&second, b"b").await.unwrap() });
    let mut seen = first.observe();
    shows(&mut seen, Some(b"a")).await;
    fake.watched(4).await;
    // The client panics at such an event.
    fake.bend_watches(|_, mut answer| {
        if answer.events.is_empty() {
            return Fate::Kept(answer);
        }
        answer.events.iter_mut().for_each(|event| event.r#type = 7);
        Fate::Changed(answer)
    });
    leads.proclaim(b"a2").await.unwrap();
    bent(&fake, 3).await;
    fake.heal();
    shows(&mut seen, Some(b"a2")).await;
    assert!(leads.is_valid());
    assert_eq!(leads.resign().await, Resigned::Released);
    let _next = soon(waits).await.unwrap();
    shows(&mut seen, Some(b"b")).await;
}

/// As etcd ends a watch of what is compacted: it is created first.
fn compacted(created: PbWatchResponse) -> Fate<PbWatchResponse> {
    let ended = PbWatchResponse {
        watch_id: created.watch_id,
        canceled: true,
        compact_revision: 9,
        ..PbWatchResponse::default()
    };
    Fate::Instead(vec![created, ended])
}

async fn a_compacted_watch_is_begun_again_from_a_fresh_read() {
    let fake = Fake::start().await;
    let (first, second) = (fake.join().await, fake.join().await);
    let leads = lead(&first, b"a").await.unwrap();
    fake.watched(1).await;
    let mut left = 2;
    fake.bend_watches(move |_, answer| {
        if left == 0 || !answer.created {
            return Fate::Kept(answer);
        }
        left -= 1;
        compacted(answer)
    });
    let mut seen = first.observe();
    bent(&fake, 1).await;
    let waits = tokio::spawn(async move { lead(&second, b"b").await.unwrap() });
    bent(&fake, 2).await;
    shows(&mut seen, Some(b"a")).await;
    // The leader's; those that were compacted; the observer's and the candidate's two.
    fake.watched(6).await;
    let began = Instant::now();
    assert_eq!(leads.resign().await, Resigned::Released);
    let _next = soon(waits).await.unwrap();
    shows(&mut seen, Some(b"b")).await;
    assert!(began.elapsed() < SLACK, "{:?}", began.elapsed());
}

async fn a_server_that_compacts_each_watch_is_not_asked_without_pause() {
    let fake = Fake::start().await;
    let (first, second) = (fake.join().await, fake.join().await);
    fake.bend_watches(|_, answer| {
        if answer.created {
            compacted(answer)
        } else {
            Fate::Kept(answer)
        }
    });
    let leads = lead(&first, b"a").await.unwrap();
    let waits = tokio::spawn(async move { lead(&second, b"b").await.unwrap() });
    let mut seen = first.observe();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let bent = fake.bent();
    assert!(bent > 3 && bent < 100, "{bent} watches in 1 s");
    assert!(leads.is_valid());
    assert_eq!(leads.resign().await, Resigned::Released);
    let _next = soon(waits).await.unwrap();
    shows(&mut seen, Some(b"b")).await;
}

async fn a_server_that_ends_each_stream_after_an_answer_is_one_that_works() {
    let fake = Fake::start().await;
    let (first, second) = (fake.join().await, fake.join().await);
    fake.bend_watches(|_, answer| Fate::Last(answer));
    let leads = lead(&first, b"a").await.unwrap();
    let waits = tokio::spawn(async move { lead(&second, b"b").await.unwrap() });
    let mut seen = first.observe();
    shows(&mut seen, Some(b"a")).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let bent = fake.bent();
    assert!(bent > 3 && bent < 100, "{bent} streams in 1 s");
    assert!(leads.is_valid());
    assert_eq!(leads.resign().await, Resigned::Released);
    let began = Instant::now();
    let _next = soon(waits).await.unwrap();
    shows(&mut seen, Some(b"b")).await;
    assert!(began.elapsed() < Duration::from_secs(TTL));
}
