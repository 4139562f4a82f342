//! What is written is what is there.

use crate::conformance::case::Stage;
use crate::write::{Entry, WriteError};

/// Below what etcd takes in one request.
const LARGE: usize = 1 << 20;

pub(in crate::conformance) async fn a_first_write_is_the_only_entry(stage: Stage<'_>) {
    let (resource, token) = (stage.open().await, stage.next_token().await);
    stage.holds(&*resource, &[]).await;
    stage.write(&*resource, &token, "a").await;
    stage.holds(&*resource, &[(&token, "a")]).await;
}

pub(in crate::conformance) async fn an_equal_token_writes_again_and_in_order(stage: Stage<'_>) {
    let (resource, token) = (stage.open().await, stage.next_token().await);
    // An order that is not the one of the names.
    let ids = ["c", "a", "b", "10", "9"];
    for id in ids {
        stage.write(&*resource, &token, id).await;
    }
    let other = stage.open().await;
    let expected = ids.map(|id| (&token, id));
    stage.holds(&*other, &expected).await;
}

pub(in crate::conformance) async fn an_empty_a_large_and_an_odd_value_come_back_as_they_were(
    stage: Stage<'_>,
) {
    let (resource, token) = (stage.open().await, stage.next_token().await);
    let large: Vec<u8> = (0..LARGE).map(|at| (at % 251) as u8).collect();
    let values = [
        ("empty", Vec::new()),
        ("large", large),
        ("all 'bytes' / \"and\" é %00 ;--", (0..=255).collect()),
    ];
    for (id, value) in &values {
        let written = resource.append(&token, id, value).await;
        assert!(written.is_ok(), "{id}: {written:?}");
    }
    let expected = values.map(|(id, value)| Entry::new(token.clone(), id, value));
    assert!(
        stage.open().await.entries().await == expected,
        "another value came back"
    );
}

pub(in crate::conformance) async fn an_id_is_written_once_whatever_came_between(stage: Stage<'_>) {
    let (resource, token) = (stage.open().await, stage.next_token().await);
    for id in ["a", "b", "a", "b", "a"] {
        stage.write(&*resource, &token, id).await;
    }
    stage.write(&*stage.open().await, &token, "a").await;
    stage
        .holds(&*resource, &[(&token, "a"), (&token, "b")])
        .await;
}

pub(in crate::conformance) async fn an_id_with_another_value_is_refused_and_the_first_stays(
    stage: Stage<'_>,
) {
    let (resource, token) = (stage.open().await, stage.next_token().await);
    stage.write(&*resource, &token, "a").await;
    for client in [resource, stage.open().await] {
        let again = client.append(&token, "a", b"another").await;
        assert!(
            matches!(again, Err(WriteError::Invalid { .. })),
            "{again:?}"
        );
        stage.holds(&*client, &[(&token, "a")]).await;
    }
}
