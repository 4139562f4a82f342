//! The cases, and what they share.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use fencing::Token;
use tokio::time::{sleep, timeout};

use super::cases::{crashes, replies, rivals, tokens, values};
use super::harness::{Fault, FaultyClient, Harness, Resource};
use crate::write::{Entry, WriteError};

/// A call that takes longer hangs.
const HANG: Duration = Duration::from_secs(60);
/// How often something is looked at again that another side does.
const LOOK: Duration = Duration::from_millis(5);

type Run = for<'a> fn(Stage<'a>) -> Pin<Box<dyn Future<Output = ()> + 'a>>;

/// One claim of the suite.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Case {
    /// The claim.
    pub name: &'static str,
    /// Whether it needs tokens of its own choice.
    needs_any_token: bool,
    run: Run,
}

macro_rules! cases {
    ($($file:ident, $needs_any_token:literal: $($name:ident),+; )+) => {
        /// Every case of the suite.
        pub const CASES: &[Case] = &[
            $($(Case {
                name: stringify!($name),
                needs_any_token: $needs_any_token,
                run: |stage| Box::pin($file::$name(stage)),
            },)+)+
        ];
    };
}

cases! {
    values, false: a_first_write_is_the_only_entry,
        an_equal_token_writes_again_and_in_order,
        an_empty_a_large_and_an_odd_value_come_back_as_they_were,
        an_id_is_written_once_whatever_came_between,
        an_id_with_another_value_is_refused_and_the_first_stays;
    tokens, false: a_lower_token_is_refused_with_what_was_seen,
        a_higher_token_raises_without_a_write,
        token_zero_is_refused,
        two_resources_know_nothing_of_each_other;
    tokens, true: numbers_are_compared_as_numbers,
        a_long_scope_is_refused,
        another_scope_is_refused_with_a_text_that_names_reset,
        after_a_reset_low_tokens_of_the_new_scope_write_and_old_ones_do_not,
        the_highest_number_of_another_scope_harms_nobody;
    replies, false: a_lost_reply_and_a_retry_are_one_success,
        a_retry_after_a_successor_wrote_is_refused_and_changes_nothing,
        a_late_write_after_a_raise_is_refused,
        a_dropped_call_and_a_retry_are_one_success;
    rivals, false: of_sixteen_takeovers_at_once_the_order_of_tokens_is_the_history,
        eight_attempts_at_once_are_one_entry;
    crashes, false: what_was_acknowledged_or_raised_survives_a_crash,
        a_crash_within_a_write_leaves_it_whole_or_out;
}

/// Runs every case that the harness can run, one after the other.
///
/// # Panics
///
/// When a claim does not hold.
///
/// # Cancel safety
///
/// Dropping the future ends the run at the case that it is in.
pub async fn run(harness: &dyn Harness) {
    for case in CASES {
        run_case(harness, case).await;
    }
}

/// Runs one case; returns whether the harness can run it.
///
/// # Panics
///
/// When the claim does not hold.
///
/// # Cancel safety
///
/// Dropping the future ends the case where it is.
pub async fn run_case(harness: &dyn Harness, case: &Case) -> bool {
    if case.needs_any_token && !harness.takes_any_token() {
        return false;
    }
    let stage = Stage {
        harness,
        name: case.name,
    };
    let run = timeout(HANG, (case.run)(stage)).await;
    assert!(run.is_ok(), "{}: hangs", case.name);
    true
}

/// One resource, that of a case.
#[derive(Clone, Copy)]
pub(super) struct Stage<'a> {
    pub(super) harness: &'a dyn Harness,
    pub(super) name: &'static str,
}

// ===== impl Stage =====

impl Stage<'_> {
    pub(super) async fn open(&self) -> Arc<dyn Resource> {
        self.harness.open(self.name).await
    }

    pub(super) async fn open_faulty(&self, fault: Fault) -> Box<dyn FaultyClient> {
        self.harness.open_faulty(self.name, fault).await
    }

    pub(super) async fn next_token(&self) -> Token {
        self.harness.next_token(self.name).await
    }

    /// Writes and expects success.
    pub(super) async fn write(&self, resource: &dyn Resource, token: &Token, id: &str) {
        let written = resource.append(token, id, id.as_bytes()).await;
        assert!(written.is_ok(), "{}: {id}: {written:?}", self.name);
    }

    /// Repeats a write until a definite answer, over a new client each time.
    pub(super) async fn settle(&self, token: &Token, id: &str) -> Result<(), WriteError> {
        loop {
            match self.open().await.append(token, id, id.as_bytes()).await {
                Err(WriteError::Unknown(_) | WriteError::Failed(_)) => sleep(LOOK).await,
                settled => return settled,
            }
        }
    }

    pub(super) fn refused_as_stale(
        &self,
        outcome: Result<(), WriteError>,
        old: &Token,
        new: &Token,
    ) {
        match outcome {
            Err(WriteError::Stale { token, highest }) => {
                let expected = (old.number(), new.number());
                assert_eq!((token, highest), expected, "{}", self.name);
            }
            other => panic!("{}: {old} after {new}: {other:?}", self.name),
        }
    }

    /// Expects these entries and no others, each written with its id as its value.
    pub(super) async fn holds(&self, resource: &dyn Resource, expected: &[(&Token, &str)]) {
        let entry = |(token, id): &(&Token, &str)| Entry::new((*token).clone(), *id, *id);
        let expected: Vec<_> = expected.iter().map(entry).collect();
        assert_eq!(resource.entries().await, expected, "{}", self.name);
    }

    /// Waits until the other side has done something.
    pub(super) async fn until(&self, mut is_so: impl AsyncFnMut() -> bool) {
        let so = timeout(HANG / 2, async {
            while !is_so().await {
                sleep(LOOK).await;
            }
        });
        assert!(so.await.is_ok(), "{}: never happened", self.name);
    }
}
