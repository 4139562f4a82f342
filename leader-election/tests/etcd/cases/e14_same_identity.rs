//! E14: a restart with the same identity while the old key still lives.

use std::time::Duration;

use leader_election::Election;

use super::{
    child::{Said, Words},
    passed,
};
use crate::{boot_time, join, queued, server::Etcd, soak, soon};

const SIGKILL: i32 = 9;

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_leader_of_the_same_name_waits_its_turn() {
    let ttl = Duration::from_secs(if soak() { 10 } else { 3 });
    let etcd = Etcd::start().await;
    let direct = join(&etcd, 10).await;
    let mut seen = direct.observe();
    let mut words = Words::new();
    let mut first = words.start(1, &[etcd.endpoint()], ttl);
    let leads = |said| matches!(said, Said::Leads { .. });
    let said = words.until(|_, said| leads(said)).await;
    let Some((_, Said::Leads { token, .. })) = said.last().copied() else {
        unreachable!("ends with the leader's word");
    };
    let is_it = |leader: &Option<leader_election::Leader>| {
        leader.as_ref().is_some_and(|one| one.token == token)
    };
    soon(seen.wait_for(is_it)).await.unwrap();

    first.signal("KILL");
    let at = boot_time();
    let (signal, _) = first.ended().await;
    let _second = words.start(1, &[etcd.endpoint()], ttl);
    queued(&direct, 2).await;
    let all = direct.candidates().await.unwrap();
    assert_eq!(all[0].value, all[1].value, "the same identity");
    assert!(all[1].token > token);
    // The old leadership is shown until it ends, not a new one in its name.
    assert!(is_it(&seen.borrow_and_update()));
    let wins = words.until(|_, said| matches!(said, Said::Leads { token: new, .. } if new > token));
    let said = wins.await;
    let took = boot_time() - at;
    assert!(took <= ttl + Duration::from_secs(2), "{took:?}");
    let fresh = said.iter().find_map(|(_, said)| match said {
        Said::Leads { token, .. } => Some(*token),
        _ => None,
    });
    assert_eq!(fresh, Some(all[1].token));
    passed("E14", u64::from(signal == Some(SIGKILL)));
}
