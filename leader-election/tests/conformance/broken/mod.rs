//! Stores that break the contract, and the claims that find it.

mod store;

use std::{collections::BTreeSet, time::Duration};

use leader_election::{
    conformance::{Claim, Harness, check},
    simulated_time,
};
use store::{Broken, Fault};

use crate::Simulated;

/// Which claims find which fault.
const FOUND: &[(Fault, &[&str])] = &[
    (
        Fault::TokensFall,
        &[
            "tokens_rise",
            "candidates_that_start_together_lead_one_by_one",
        ],
    ),
    (
        Fault::EveryoneIsFirst,
        &[
            "candidates_lead_in_the_order_of_joining",
            "candidates_that_start_together_lead_one_by_one",
        ],
    ),
    (Fault::LeasesAreShorterThanTold, &["one_leader_at_a_time"]),
    (Fault::OnlyLeadersAreRenewed, &["a_win_is_fresh"]),
    (
        Fault::LeasesCountFromTheReply,
        &["a_deadline_counts_from_the_send"],
    ),
    (
        Fault::EachJoinMakesAPlace,
        &["a_lost_answer_makes_no_second_place"],
    ),
    (
        Fault::PlacesAreAdoptedByValue,
        &["a_restart_adopts_nothing"],
    ),
    (
        Fault::NobodyLeaves,
        &[
            "a_dropped_campaign_leaves_nobody",
            "a_dropped_leadership_is_resigned",
            "an_end_comes_before_its_release",
        ],
    ),
    (
        Fault::TheFirstLeaves,
        &["resigning_again_removes_no_successor"],
    ),
    (Fault::TasksLeak, &["cycles_leave_nothing_behind"]),
    (
        Fault::LostPlacesWin,
        &[
            "a_place_lost_while_waiting_is_no_win",
            "a_revoked_lease_ends_the_leadership",
            "a_removed_place_ends_the_leadership",
        ],
    ),
    (
        Fault::PlacesEndWithTheConnection,
        &["a_short_cut_costs_nothing"],
    ),
    (
        Fault::RenewalsAreNotSent,
        &[
            "a_long_cut_ends_at_the_deadline",
            "one_leader_at_a_time",
            "a_takeover_delay_is_kept",
        ],
    ),
    (Fault::AnyoneProclaims, &["a_lost_leader_proclaims_nothing"]),
    (
        Fault::LeasesRenewThemselves,
        &["a_leader_without_progress_loses"],
    ),
    (
        Fault::GonePlacesAreRenewed,
        &["a_renewal_of_a_gone_place_confirms_nothing"],
    ),
    (
        Fault::OnlyChangesAreObserved,
        &["an_observer_sees_the_present_leader"],
    ),
    (
        Fault::NobodyIsNotObserved,
        &["an_observer_sees_changes_and_nobody"],
    ),
    (
        Fault::OlderLeadersAreObserved,
        &["an_observer_sees_changes_and_nobody"],
    ),
    (
        Fault::ObserversEndWithTheConnection,
        &["an_observer_survives_a_cut"],
    ),
    (Fault::ValuesAreText, &["values_are_bytes"]),
];

async fn finds(claim: &str, harness: &dyn Harness, what: &str) {
    let violation = check(claim, harness).await.expect_err(what);
    assert_eq!(violation.claim().name(), claim);
    let text = violation.to_string();
    assert!(text.ends_with(violation.claim().promise()), "{text}");
    println!("{what}: {text}");
}

#[tokio::test(start_paused = true)]
async fn each_fault_is_found_by_its_claims() {
    for (fault, claims) in FOUND {
        for claim in *claims {
            let harness = fault.harness();
            finds(claim, &harness, &format!("{fault:?}")).await;
        }
    }
}

#[test]
fn each_claim_finds_a_fault() {
    let found = FOUND.iter().flat_map(|(_, claims)| claims.iter().copied());
    let found: BTreeSet<_> = found.collect();
    let claims: BTreeSet<_> = Claim::all().iter().map(Claim::name).collect();
    assert_eq!(found, claims);
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_runs_ahead_is_found() {
    let ahead = || simulated_time() + Duration::from_secs(1);
    let harness = Simulated::new(|wire, _| wire).with_clock(ahead);
    let claim = "a_deadline_counts_from_the_send";
    finds(claim, &harness, "a clock that runs ahead").await;
}

#[tokio::test(start_paused = true)]
#[should_panic = "the suite has no claim"]
async fn a_claim_that_does_not_exist_is_no_pass() {
    let harness = Simulated::new(|wire, _| wire);
    let _ = check("tokens_fall", &harness).await;
}

impl Fault {
    fn harness(self) -> Simulated<Broken> {
        let harness = Simulated::new(self.open());
        if self == Self::TokensFall {
            return harness.with_tokens(store::falling);
        }
        harness
    }
}
