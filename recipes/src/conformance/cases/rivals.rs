//! Many at once.

use std::collections::BTreeSet;

use fencing::Token;
use tokio::task::JoinSet;

use crate::conformance::case::Stage;
use crate::write::WriteError;

const TAKEOVERS: usize = 16;
/// Of each, after it has raised.
const WRITES: usize = 4;

pub(in crate::conformance) async fn of_sixteen_takeovers_at_once_the_order_of_tokens_is_the_history(
    stage: Stage<'_>,
) {
    let mut rivals = JoinSet::new();
    let mut last = None;
    for rival in 0..TAKEOVERS {
        let token = stage.next_token().await;
        let resource = stage.open().await;
        last = Some(token.clone());
        rivals.spawn(async move {
            let mut acknowledged = Vec::new();
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
                    // Another one is in the way just now.
                    Err(WriteError::Failed(_)) => tokio::task::yield_now().await,
                    Err(error) => panic!("{token}: {error:?}"),
                }
            }
            acknowledged
        });
    }
    let acknowledged: BTreeSet<_> = rivals.join_all().await.into_iter().flatten().collect();
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
    assert_eq!(unique, acknowledged, "{}", stage.name);
    // The highest one is refused by nobody.
    let last = last.as_ref().map_or(0, Token::number);
    let of_last = there.iter().filter(|(number, _)| *number == last).count();
    assert_eq!(of_last, WRITES, "{}: {there:?}", stage.name);
}

pub(in crate::conformance) async fn eight_attempts_at_once_are_one_entry(stage: Stage<'_>) {
    let token = stage.next_token().await;
    let mut attempts = JoinSet::new();
    for _ in 0..8 {
        let (resource, token) = (stage.open().await, token.clone());
        attempts.spawn(async move {
            loop {
                match resource.append(&token, "a", b"a").await {
                    Err(WriteError::Failed(_)) => tokio::task::yield_now().await,
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
