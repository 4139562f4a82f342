//! The process that keeps the resource is killed.

use crate::conformance::case::Stage;
use crate::conformance::harness::Fault;

pub(in crate::conformance) async fn what_was_acknowledged_or_raised_survives_a_crash(
    stage: Stage<'_>,
) {
    let old = stage.next_token().await;
    stage.write(&*stage.open().await, &old, "old").await;
    let new = stage.next_token().await;
    let raised = stage.open().await.raise(&new).await;
    assert!(raised.is_ok(), "{raised:?}");
    if stage.harness.crash().await == 0 {
        return;
    }
    stage.refused_as_stale(stage.settle(&old, "late").await, &old, &new);
    stage.holds(&*stage.open().await, &[(&old, "old")]).await;
    let settled = stage.settle(&new, "new").await;
    assert!(settled.is_ok(), "{settled:?}");
    stage
        .holds(&*stage.open().await, &[(&old, "old"), (&new, "new")])
        .await;
}

pub(in crate::conformance) async fn a_crash_within_a_write_leaves_it_whole_or_out(
    stage: Stage<'_>,
) {
    for (fault, id) in [(Fault::LostReply, "lost"), (Fault::Held, "held")] {
        let token = stage.next_token().await;
        let raised = stage.open().await.raise(&token).await;
        assert!(raised.is_ok(), "{raised:?}");
        let faulty = stage.open_faulty(fault).await;
        let (resource, one) = (faulty.resource(), token.clone());
        let call = tokio::spawn(async move { resource.append(&one, id, id.as_bytes()).await });
        stage.until(async || faulty.faults() > 0).await;
        let crashes = stage.harness.crash().await;
        call.abort();
        let outcome = call.await;
        assert!(
            !matches!(outcome, Ok(Ok(()))),
            "the reply came: {outcome:?}"
        );
        if crashes == 0 {
            return;
        }
        let settled = stage.settle(&token, id).await;
        assert!(settled.is_ok(), "{settled:?}");
    }
    let entries = stage.open().await.entries().await;
    let ids: Vec<_> = entries.iter().map(|entry| entry.id.as_str()).collect();
    assert_eq!(ids, ["lost", "held"], "{}", stage.name);
}
