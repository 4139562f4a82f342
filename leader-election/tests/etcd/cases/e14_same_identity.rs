//! E14: a restart with the same identity while the old key still lives.

use std::time::Duration;

use leader_election::Election;

use super::passed;
use crate::{
    boot_time,
    child::{News, Orders, Words},
    join, queued,
    server::Etcd,
    soak, soon,
};

pub(super) async fn a_restarted_leader_of_the_same_name_waits_its_turn() {
    let ttl = Duration::from_secs(if soak() { 10 } else { 3 });
    let etcd = Etcd::start().await;
    let direct = join(&etcd, 10).await;
    let mut seen = direct.observe();
    let mut words = Words::new();
    let endpoints = [etcd.endpoint()];
    let orders = Orders::new(&endpoints, ttl.as_secs(), "n1");
    let mut first = words.start(1, &orders);
    let leads = |said| matches!(said, News::Leads { .. });
    let said = words.until(|_, said| leads(said)).await;
    let Some((_, News::Leads { token, .. })) = said.last().copied() else {
        unreachable!("ends with the leader's word");
    };
    let is_it = |leader: &Option<leader_election::Leader>| {
        leader.as_ref().is_some_and(|one| one.token == token)
    };
    soon(seen.wait_for(is_it)).await.unwrap();

    let at = boot_time();
    let killed = first.kill().await;
    let _second = words.start(1, &orders);
    queued(&direct, 2).await;
    let all = direct.candidates().await.unwrap();
    assert_eq!(all[0].value, all[1].value, "the same identity");
    assert!(all[1].token > token);
    // The old leadership is shown until it ends, not a new one in its name.
    assert!(is_it(&seen.borrow_and_update()));
    let wins = words.until(|_, said| matches!(said, News::Leads { token: new, .. } if new > token));
    let said = wins.await;
    let took = boot_time() - at;
    assert!(took <= ttl + Duration::from_secs(2), "{took:?}");
    let fresh = said.iter().find_map(|(_, said)| match said {
        News::Leads { token, .. } => Some(*token),
        _ => None,
    });
    assert_eq!(fresh, Some(all[1].token));
    passed("E14", killed);
}
