//! Many at once.

use std::collections::BTreeSet;
use std::sync::Arc;

use fencing::Token;
use tokio::task::JoinSet;

use crate::conformance::case::Stage;
use crate::conformance::harness::Resource;
use crate::write::WriteError;

const TAKEOVERS: usize = 16;
/// Of each, after it has raised.
const WRITES: usize = 4;

/// Number and id of entries.
type Written = Vec<(u64, String)>;

pub(in crate::conformance) async fn of_sixteen_takeovers_at_once_the_order_of_tokens_is_the_history(
    stage: Stage<'_>,
) {
    let mut rivals = JoinSet::new();
    let mut last = None;
    for rival in 0..TAKEOVERS {
        let token = stage.next_token().await;
        let resource = stage.open().await;
        last = Some(token.clone());
        rivals.spawn(take_over(resource, token, rival));
    }
    let (mut acknowledged, mut open) = (BTreeSet::new(), BTreeSet::new());
    for [of_one, open_of_one] in rivals.join_all().await {
        acknowledged.extend(of_one);
        open.extend(open_of_one);
    }
    let entries = stage.open().await.entries().await;
    let numbers: Vec<_> = entries.iter().map(|entry| entry.token.number()).collect();
    assert!(numbers.is_sorted(), "{}: {numbers:?}", stage.name);
    let there: Vec<_> = entries
        .into_iter()
        .map(|entry| (entry.token.number(), entry.id))
        .collect();
    let unique: BTreeSet<_> = there.iter().cloned().collect();
    assert_eq!(
        unique.len(),
        there.len(),
        "{}: twice: {there:?}",
        stage.name
    );
    assert!(
        unique.is_superset(&acknowledged),
        "{}: {there:?}",
        stage.name
    );
    let mut others = unique.difference(&acknowledged);
    assert!(
        others.all(|other| open.contains(other)),
        "{}: {there:?}",
        stage.name
    );
    // The highest one is refused by nobody.
    let last = last.as_ref().map_or(0, Token::number);
    let of_last = there.iter().filter(|(number, _)| *number == last).count();
    assert_eq!(of_last, WRITES, "{}: {there:?}", stage.name);
}

/// Raises and writes until it is refused; returns what was acknowledged, and what had an
/// unknown outcome at times.
async fn take_over(resource: Arc<dyn Resource>, token: Token, rival: usize) -> [Written; 2] {
    let (mut acknowledged, mut open) = (Vec::new(), Vec::new());
    let mut raised = false;
    let mut step = 0;
    while step < WRITES {
        let id = format!("{rival}-{step}");
        let outcome = match raised {
            false => resource.raise(&token).await,
            true => resource.append(&token, &id, id.as_bytes()).await,
        };
        match outcome {
            Ok(()) if !raised => raised = true,
            Ok(()) => {
                acknowledged.push((token.number(), id));
                step += 1;
            }
            Err(WriteError::Stale { highest, .. }) if highest > token.number() => break,
            // It may be there though it is refused the next time.
            Err(WriteError::Unknown(_)) => open.push((token.number(), id)),
            // Another one is in the way just now.
            Err(WriteError::Failed(_)) => tokio::task::yield_now().await,
            Err(error) => panic!("{token}: {error:?}"),
        }
    }
    [acknowledged, open]
}

pub(in crate::conformance) async fn eight_attempts_at_once_are_one_entry(stage: Stage<'_>) {
    let token = stage.next_token().await;
    let mut attempts = JoinSet::new();
    for _ in 0..8 {
        let (resource, token) = (stage.open().await, token.clone());
        attempts.spawn(async move {
            loop {
                match resource.append(&token, "a", b"a").await {
                    Err(WriteError::Failed(_) | WriteError::Unknown(_)) => {
                        tokio::task::yield_now().await;
                    }
                    outcome => return outcome,
                }
            }
        });
    }
    for outcome in attempts.join_all().await {
        assert!(outcome.is_ok(), "{outcome:?}");
    }
    stage.holds(&*stage.open().await, &[(&token, "a")]).await;
}
