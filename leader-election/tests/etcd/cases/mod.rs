//! Cases from practice, E01 to E14: what users of elections run into, on a real etcd.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod e01_orphaned_key;
mod e02_unsent_resign;
mod e03_deleted_leader_key;
mod e04_moving_token;
mod e05_expired_login;
mod e06_vanished_store;
mod e07_swallowed_answer;
mod e08_stampede;
mod e09_mute_endpoint;
mod e10_late_observer;
mod e11_graceful_stop;
mod e12_leading_again;
mod e13_gone_lease;
mod e14_same_identity;

use crate::together::together;

together! {
    cases_that_mostly_wait:
    e07_swallowed_answer::a_swallowed_answer_costs_one_attempt_and_no_leadership,
    e09_mute_endpoint::dead_and_mute_endpoints_hold_nothing_up,
    e10_late_observer::an_observer_survives_compaction_and_outages,
    e12_leading_again::stopped_candidates_that_go_on_lead_again,
    e14_same_identity::a_restarted_leader_of_the_same_name_waits_its_turn,
}

/// Tells that a case has passed, with a count that proves its fault.
#[track_caller]
fn passed(case: &str, fault: u64) {
    assert!(fault > 0, "{case}: the fault has not happened");
    println!("CASE {case} fault={fault}");
}

/// What a resource keeps: it refuses a token below the highest it has seen.
#[derive(Default)]
struct Verifier {
    highest: u64,
    refused: u64,
}

impl Verifier {
    fn admits(&mut self, token: u64) -> bool {
        let admits = token >= self.highest;
        self.highest = self.highest.max(token);
        self.refused += u64::from(!admits);
        admits
    }
}
