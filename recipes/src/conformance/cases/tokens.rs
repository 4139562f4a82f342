//! Which tokens are admitted.

use fencing::Token;

use crate::conformance::case::Stage;
use crate::conformance::harness::Resource;
use crate::write::WriteError;

pub(in crate::conformance) async fn a_lower_token_is_refused_with_what_was_seen(stage: Stage<'_>) {
    let (resource, other) = (stage.open().await, stage.open().await);
    let old = stage.next_token().await;
    stage.write(&*resource, &old, "old").await;
    let new = stage.next_token().await;
    stage.write(&*other, &new, "new").await;
    for client in [resource, other] {
        let late = client.append(&old, "late", b"late").await;
        stage.refused_as_stale(late, &old, &new);
        stage.refused_as_stale(client.raise(&old).await, &old, &new);
        stage.holds(&*client, &[(&old, "old"), (&new, "new")]).await;
    }
}

pub(in crate::conformance) async fn a_higher_token_raises_without_a_write(stage: Stage<'_>) {
    let resource = stage.open().await;
    let old = stage.next_token().await;
    stage.write(&*resource, &old, "old").await;
    let new = stage.next_token().await;
    let raised = stage.open().await.raise(&new).await;
    assert!(raised.is_ok(), "{raised:?}");
    let late = resource.append(&old, "late", b"late").await;
    stage.refused_as_stale(late, &old, &new);
    stage.holds(&*resource, &[(&old, "old")]).await;
    stage.write(&*resource, &new, "new").await;
}

pub(in crate::conformance) async fn numbers_are_compared_as_numbers(stage: Stage<'_>) {
    let resource = stage.open().await;
    let rising = [9, 10, 99, 100, i64::MAX as u64, 1 << 63, u64::MAX];
    let mut written = Vec::new();
    for number in rising {
        let (token, id) = (Token::from(number), number.to_string());
        stage.write(&*resource, &token, &id).await;
        written.push((token.clone(), id));
        for below in rising.iter().filter(|below| **below < number) {
            let below = Token::from(*below);
            let late = resource.append(&below, "late", b"late").await;
            stage.refused_as_stale(late, &below, &token);
        }
    }
    let expected: Vec<_> = written
        .iter()
        .map(|(token, id)| (token, id.as_str()))
        .collect();
    stage.holds(&*resource, &expected).await;
}

pub(in crate::conformance) async fn token_zero_is_refused(stage: Stage<'_>) {
    let (resource, token) = (stage.open().await, stage.next_token().await);
    let zero = Token::scoped(token.scope(), 0);
    refuses_as_invalid(&*resource, &zero).await;
    stage.write(&*resource, &token, "a").await;
    refuses_as_invalid(&*resource, &zero).await;
    stage.holds(&*resource, &[(&token, "a")]).await;
}

pub(in crate::conformance) async fn a_long_scope_is_refused(stage: Stage<'_>) {
    let resource = stage.open().await;
    let long = "s".repeat(129);
    refuses_as_invalid(&*resource, &Token::scoped(&long, 1)).await;
    let reset = resource.reset(&long).await;
    assert!(
        matches!(reset, Err(WriteError::Invalid { .. })),
        "{reset:?}"
    );
    let token = Token::scoped("s".repeat(128), 1);
    stage.write(&*resource, &token, "a").await;
    stage.holds(&*resource, &[(&token, "a")]).await;
}

pub(in crate::conformance) async fn another_scope_is_refused_with_a_text_that_names_reset(
    stage: Stage<'_>,
) {
    let resource = stage.open().await;
    let token = Token::scoped("one life/e", 7);
    stage.write(&*resource, &token, "a").await;
    for other in [Token::scoped("another life/e", 9), Token::from(9)] {
        let text = wrong_scope(&*resource, &other, "one life/e").await;
        assert!(text.contains("reset"), "{text}");
        assert!(text.contains(&format!("{:?}", other.scope())), "{text}");
    }
    stage.holds(&*resource, &[(&token, "a")]).await;
}

pub(in crate::conformance) async fn after_a_reset_low_tokens_of_the_new_scope_write_and_old_ones_do_not(
    stage: Stage<'_>,
) {
    let resource = stage.open().await;
    let old = Token::scoped("old", 1_000);
    stage.write(&*resource, &old, "a").await;
    let reset = stage.open().await.reset("new").await;
    assert!(reset.is_ok(), "{reset:?}");
    wrong_scope(&*resource, &old, "new").await;
    let (low, next) = (Token::scoped("new", 1), Token::scoped("new", 2));
    stage.write(&*resource, &low, "b").await;
    stage.write(&*resource, &next, "c").await;
    let late = resource.append(&low, "late", b"late").await;
    stage.refused_as_stale(late, &low, &next);
    wrong_scope(&*resource, &old, "new").await;
    stage
        .holds(&*resource, &[(&old, "a"), (&low, "b"), (&next, "c")])
        .await;
}

pub(in crate::conformance) async fn the_highest_number_of_another_scope_harms_nobody(
    stage: Stage<'_>,
) {
    let resource = stage.open().await;
    let token = Token::scoped("good", 1);
    stage.write(&*resource, &token, "a").await;
    let bad = Token::scoped("bad", u64::MAX);
    wrong_scope(&*stage.open().await, &bad, "good").await;
    stage.write(&*resource, &token, "b").await;
    let next = Token::scoped("good", 2);
    stage.write(&*resource, &next, "c").await;
    stage
        .holds(&*resource, &[(&token, "a"), (&token, "b"), (&next, "c")])
        .await;
}

pub(in crate::conformance) async fn two_resources_know_nothing_of_each_other(stage: Stage<'_>) {
    let name = format!("{}-2", stage.name);
    let (one, two) = (stage.open().await, stage.harness.open(&name).await);
    let (low, high) = (
        stage.next_token().await,
        stage.harness.next_token(&name).await,
    );
    stage.write(&*two, &high, "a").await;
    stage.write(&*one, &low, "a").await;
    stage.write(&*two, &high, "b").await;
    stage.holds(&*one, &[(&low, "a")]).await;
    stage.holds(&*two, &[(&high, "a"), (&high, "b")]).await;
}

async fn refuses_as_invalid(resource: &dyn Resource, token: &Token) {
    let written = resource.append(token, "invalid", b"").await;
    assert!(
        matches!(written, Err(WriteError::Invalid { .. })),
        "{written:?}"
    );
    let raised = resource.raise(token).await;
    assert!(
        matches!(raised, Err(WriteError::Invalid { .. })),
        "{raised:?}"
    );
}

/// Expects both calls to be refused; returns the text.
async fn wrong_scope(resource: &dyn Resource, token: &Token, expected: &str) -> String {
    let raised = resource.raise(token).await;
    assert!(
        matches!(raised, Err(WriteError::WrongScope { .. })),
        "{raised:?}"
    );
    let refused = resource.append(token, "wrong scope", b"").await;
    let text = refused
        .as_ref()
        .map_or_else(ToString::to_string, |()| String::new());
    match refused {
        Err(WriteError::WrongScope { scope, .. }) => assert_eq!(scope, expected),
        other => panic!("{token} was not refused: {other:?}"),
    }
    text
}
