//! The list of claims, and the check of one.

use std::fmt;

use super::{
    Harness,
    claims::{self, Checked},
};

type Run = for<'a> fn(&'a dyn Harness) -> Checked<'a>;

/// One clause of the contract.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Claim {
    name: &'static str,
    promise: &'static str,
    run: Run,
}

/// A claim that does not hold.
#[derive(Debug)]
#[non_exhaustive]
pub struct Violation {
    claim: Claim,
    seen: String,
}

/// Checks the claim of this name on a harness that nothing has used before.
///
/// # Errors
///
/// A [`Violation`] that says which clause is broken and what was seen.
///
/// # Panics
///
/// Outside a tokio runtime with a timer, and where no claim has this name.
///
/// # Cancel safety
///
/// Cancel safe: candidates are withdrawn.
pub async fn check(claim: &str, harness: &dyn Harness) -> Result<(), Violation> {
    let mut all = Claim::all().iter();
    let found = all.find(|known| known.name == claim);
    let claim = found.unwrap_or_else(|| panic!("the suite has no claim {claim}"));
    claim.check(harness).await
}

// ===== impl Claim =====

impl Claim {
    /// Returns every claim.
    #[must_use]
    pub fn all() -> &'static [Self] {
        ALL
    }

    /// Returns the name that its test has.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns what the contract says.
    #[must_use]
    pub fn promise(&self) -> &'static str {
        self.promise
    }

    /// Checks it on a harness that nothing has used before.
    ///
    /// # Errors
    ///
    /// A [`Violation`] that says what was seen.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with a timer.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: candidates are withdrawn.
    pub async fn check(&self, harness: &dyn Harness) -> Result<(), Violation> {
        let checked = (self.run)(harness).await;
        checked.map_err(|seen| Violation { claim: *self, seen })
    }
}

impl fmt::Debug for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Claim({})", self.name)
    }
}

// ===== impl Violation =====

impl Violation {
    /// Returns the claim that does not hold.
    #[must_use]
    pub fn claim(&self) -> Claim {
        self.claim
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Claim { name, promise, .. } = self.claim;
        write!(f, "{name}: {}; the contract: {promise}", self.seen)
    }
}

impl std::error::Error for Violation {}

macro_rules! claims {
    ($($module:ident :: $name:ident $promise:literal)*) => {
        const ALL: &[Claim] = &[$(Claim {
            name: stringify!($name),
            promise: $promise,
            run: |harness| Box::pin(claims::$module::$name(harness)),
        }),*];
    };
}

claims! {
    winning::tokens_rise
        "a token is higher than every token granted before in its scope, and stays while the leadership lasts"
    winning::candidates_lead_in_the_order_of_joining
        "candidates lead in the order in which they joined"
    winning::candidates_that_start_together_lead_one_by_one
        "each of several candidates that start at once gets a place, and leads alone in its turn"
    winning::one_leader_at_a_time
        "at any instant at most one leadership is valid, whatever is cut"
    winning::a_win_is_fresh
        "waiting candidates keep their place, and the winner has nearly the whole lease left"
    winning::a_deadline_counts_from_the_send
        "a renewal extends the deadline to when it was sent, plus the TTL, and no further"
    winning::a_lost_answer_makes_no_second_place
        "joining again with the same id finds the place that is there"
    winning::a_restart_adopts_nothing
        "a candidate of the same value as a crashed leader waits until that one's lease is over"
    leaving::a_dropped_campaign_leaves_nobody
        "dropping a campaign at any await withdraws the candidate"
    leaving::a_dropped_leadership_is_resigned
        "dropping a leadership lets the next candidate lead before the lease ends"
    leaving::resigning_again_removes_no_successor
        "resign is repeatable and never removes a successor's place"
    leaving::an_end_comes_before_its_release
        "a leadership is over on its own side before the next one can begin, and resign answers in time"
    leaving::cycles_leave_nothing_behind
        "campaigns that ended leave no place and no task"
    losing::a_place_lost_while_waiting_is_no_win
        "a candidate whose place is lost while it waits joins again at the back of the queue"
    losing::a_revoked_lease_ends_the_leadership
        "a leader whose lease is revoked loses long before its deadline, and the next one leads"
    losing::a_removed_place_ends_the_leadership
        "a leader whose place is removed loses long before its deadline, and the next one leads"
    losing::a_short_cut_costs_nothing
        "a leadership survives a cut that ends well before its deadline"
    losing::a_long_cut_ends_at_the_deadline
        "without confirmed renewals a leadership is over at its deadline, not before, and nothing revives it"
    losing::a_lost_leader_proclaims_nothing
        "a value proclaimed after the loss is refused as lost and shown to nobody"
    losing::a_leader_without_progress_loses
        "while renew_while answers false no renewal is sent: the leader stalls and the next one leads"
    losing::a_renewal_of_a_gone_place_confirms_nothing
        "a renewal of a place that is gone extends no deadline, whether or not the loss is known yet"
    observing::an_observer_sees_the_present_leader
        "an observer that comes late sees the leader that is there"
    observing::an_observer_sees_changes_and_nobody
        "an observer sees the newest value, nobody once nobody leads, and never an older leader after a newer"
    observing::an_observer_survives_a_cut
        "an observer shows the newest leader after a cut, and no older one before it"
    settings::values_are_bytes
        "a value is any bytes up to 1 MiB; a longer one is refused as invalid"
    settings::a_takeover_delay_is_kept
        "with a takeover delay a winner leads that long after its predecessor went, whether or not it saw it go"
}

/// Makes a test of each claim of the [conformance suite](mod@crate::conformance).
///
/// Takes an expression whose future gives a fresh
/// [`Harness`](crate::conformance::Harness), and the attributes of the tests.
#[macro_export]
#[cfg_attr(docsrs, doc(cfg(feature = "conformance")))]
macro_rules! conformance_tests {
    (@list [$($context:tt)*]) => {
        $crate::conformance_tests! {
            $($context)*
            tokens_rise
            candidates_lead_in_the_order_of_joining
            candidates_that_start_together_lead_one_by_one
            one_leader_at_a_time
            a_win_is_fresh
            a_deadline_counts_from_the_send
            a_lost_answer_makes_no_second_place
            a_restart_adopts_nothing
            a_dropped_campaign_leaves_nobody
            a_dropped_leadership_is_resigned
            resigning_again_removes_no_successor
            an_end_comes_before_its_release
            cycles_leave_nothing_behind
            a_place_lost_while_waiting_is_no_win
            a_revoked_lease_ends_the_leadership
            a_removed_place_ends_the_leadership
            a_short_cut_costs_nothing
            a_long_cut_ends_at_the_deadline
            a_lost_leader_proclaims_nothing
            a_leader_without_progress_loses
            a_renewal_of_a_gone_place_confirms_nothing
            an_observer_sees_the_present_leader
            an_observer_sees_changes_and_nobody
            an_observer_survives_a_cut
            values_are_bytes
            a_takeover_delay_is_kept
        }
    };
    (@names $($claim:ident)*) => {
        [$(::core::stringify!($claim)),*]
    };
    (@each $attributes:tt $harness:tt $($claim:ident)*) => {
        $($crate::conformance_tests! { @one $attributes $harness $claim })*
    };
    (@one [$($attribute:tt)*] [$harness:expr] $claim:ident) => {
        $($attribute)*
        async fn $claim() {
            let harness = $harness.await;
            let checked = $crate::conformance::check(::core::stringify!($claim), &harness).await;
            if let Err(broken) = checked {
                ::core::panic!("{broken}");
            }
        }
    };
    ($harness:expr, $(#[$attribute:meta])+) => {
        $crate::conformance_tests! { @list [@each [$(#[$attribute])+] [$harness]] }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_macro_makes_a_test_of_every_claim() {
        let known: Vec<_> = Claim::all().iter().map(Claim::name).collect();
        assert_eq!(known, crate::conformance_tests!(@list [@names]));
    }
}
