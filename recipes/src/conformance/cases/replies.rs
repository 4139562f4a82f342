//! Replies that are lost, and writes that are late.

use std::sync::Arc;

use fencing::Token;
use tokio::task::JoinHandle;

use crate::conformance::case::Stage;
use crate::conformance::harness::{Fault, FaultyClient};
use crate::write::WriteError;

/// How often a call is dropped, each time a little later.
const DROPS: usize = 24;

pub(in crate::conformance) async fn a_lost_reply_and_a_retry_are_one_success(stage: Stage<'_>) {
    let (resource, token) = (stage.open().await, stage.next_token().await);
    stage.write(&*resource, &token, "before").await;
    let _faulty = loses_reply(&stage, &token).await;
    let settled = stage.settle(&token, "a").await;
    assert!(settled.is_ok(), "{settled:?}");
    stage.write(&*resource, &token, "after").await;
    let expected = ["before", "a", "after"].map(|id| (&token, id));
    stage.holds(&*resource, &expected).await;
}

pub(in crate::conformance) async fn a_retry_after_a_successor_wrote_is_refused_and_changes_nothing(
    stage: Stage<'_>,
) {
    let (resource, old) = (stage.open().await, stage.next_token().await);
    let _faulty = loses_reply(&stage, &old).await;
    let new = stage.next_token().await;
    stage.write(&*resource, &new, "new").await;
    stage.refused_as_stale(stage.settle(&old, "a").await, &old, &new);
    stage.holds(&*resource, &[(&old, "a"), (&new, "new")]).await;
}

pub(in crate::conformance) async fn a_late_write_after_a_raise_is_refused(stage: Stage<'_>) {
    let (resource, old) = (stage.open().await, stage.next_token().await);
    stage.write(&*resource, &old, "before").await;
    let faulty = stage.open_faulty(Fault::Held).await;
    let late = begin(&*faulty, &old, "late");
    stage.until(async || faulty.faults() > 0).await;
    let new = stage.next_token().await;
    // A transaction that is held within may have to be ended first.
    stage
        .until(async || resource.raise(&new).await.is_ok())
        .await;
    stage.write(&*resource, &new, "new").await;
    faulty.heal();
    // Whatever it is told, it did not land, and the retry says so.
    let outcome = late.await;
    assert!(!matches!(outcome, Ok(Ok(()))), "{outcome:?}");
    stage.refused_as_stale(stage.settle(&old, "late").await, &old, &new);
    stage
        .holds(&*resource, &[(&old, "before"), (&new, "new")])
        .await;
    println!("CASE F09 fault={}", faulty.faults());
}

pub(in crate::conformance) async fn a_dropped_call_and_a_retry_are_one_success(stage: Stage<'_>) {
    let token = stage.next_token().await;
    let ids: Vec<_> = (0..DROPS).map(|drop| format!("d{drop}")).collect();
    for (polls, id) in ids.iter().enumerate() {
        let client = stage.open().await;
        let call = client.append(&token, id, id.as_bytes());
        tokio::select! {
            biased;
            _ = call => {}
            () = turns(polls) => {}
        }
        let settled = stage.settle(&token, id).await;
        assert!(settled.is_ok(), "{settled:?}");
    }
    let expected: Vec<_> = ids.iter().map(|id| (&token, id.as_str())).collect();
    stage.holds(&*stage.open().await, &expected).await;
}

/// Lets other tasks run so many times.
async fn turns(turns: usize) {
    for _ in 0..turns {
        tokio::task::yield_now().await;
    }
}

fn begin(
    faulty: &dyn FaultyClient,
    token: &Token,
    id: &'static str,
) -> JoinHandle<Result<(), WriteError>> {
    let (resource, token) = (faulty.resource(), token.clone());
    tokio::spawn(async move { resource.append(&token, id, id.as_bytes()).await })
}

/// Writes `a`; the caller never hears of it.
async fn loses_reply(stage: &Stage<'_>, token: &Token) -> Arc<dyn FaultyClient> {
    let direct = stage.open().await;
    assert!(direct.raise(token).await.is_ok(), "{token}");
    let faulty: Arc<dyn FaultyClient> = stage.open_faulty(Fault::LostReply).await.into();
    let call = begin(&*faulty, token, "a");
    stage
        .until(async || {
            let entries = direct.entries().await;
            faulty.faults() > 0 && entries.iter().any(|entry| entry.id == "a")
        })
        .await;
    call.abort();
    let outcome = call.await;
    assert!(
        !matches!(outcome, Ok(Ok(()))),
        "the reply came: {outcome:?}"
    );
    faulty
}
