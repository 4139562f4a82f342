//! Which fault comes when, on whom, and for how long: all of it from a seed.

use std::time::Duration;

use super::fault::{Kind, Limits};

/// Commits go on for at least so long, and by as much again at random, before the next fault.
const GAP: Duration = Duration::from_millis(500);

/// One fault that is to happen.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Planned {
    /// What goes wrong.
    pub kind: Kind,
    /// How long commits have gone on since the fault before.
    pub gap: Duration,
    /// How long it lasts.
    pub hold: Duration,
    /// Chooses among those whom it may concern, by remainder.
    pub choice: usize,
}

/// An endless plan: the kinds are dealt like cards, so that each gets its share.
#[derive(Clone, Debug)]
pub struct Plan {
    random: fastrand::Rng,
    limits: Limits,
    kinds: Vec<Kind>,
    deck: Vec<Kind>,
}

// ===== impl Plan =====

impl Plan {
    /// Plans faults of these kinds.
    #[must_use]
    pub fn new(seed: u64, kinds: &[Kind], limits: Limits) -> Self {
        Self {
            random: fastrand::Rng::with_seed(seed),
            limits,
            kinds: kinds.to_vec(),
            deck: Vec::new(),
        }
    }

    fn up_to(&mut self, most: Duration) -> Duration {
        most.mul_f64(self.random.f64())
    }
}

impl Iterator for Plan {
    type Item = Planned;

    fn next(&mut self) -> Option<Planned> {
        if self.deck.is_empty() {
            self.deck.clone_from(&self.kinds);
            self.random.shuffle(&mut self.deck);
        }
        let kind = self.deck.pop()?;
        let (least, more) = kind.hold(&self.limits);
        Some(Planned {
            kind,
            gap: GAP + self.up_to(GAP),
            hold: least + self.up_to(more),
            choice: self.random.usize(0..64),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn plan(seed: u64) -> Plan {
        Plan::new(seed, &Kind::ALL, Limits::for_ttl(Duration::from_secs(3)))
    }

    #[test]
    fn a_seed_says_all_and_another_seed_says_otherwise() {
        let one: Vec<Planned> = plan(7).take(100).collect();
        assert_eq!(one, plan(7).take(100).collect::<Vec<_>>());
        assert_ne!(one, plan(8).take(100).collect::<Vec<_>>());
    }

    #[test]
    fn each_kind_is_dealt_once_before_one_comes_again() {
        let all: BTreeSet<Kind> = Kind::ALL.into_iter().collect();
        for seed in 0..50 {
            let mut plan = plan(seed);
            for _ in 0..3 {
                let deal = plan.by_ref().take(all.len()).map(|planned| planned.kind);
                assert_eq!(deal.collect::<BTreeSet<_>>(), all, "seed {seed}");
            }
        }
    }

    #[test]
    fn gaps_and_holds_stay_within_their_ranges() {
        let limits = Limits::for_ttl(Duration::from_secs(3));
        for planned in plan(1).take(1000) {
            let (least, more) = planned.kind.hold(&limits);
            assert!(planned.gap >= GAP && planned.gap < GAP * 2, "{planned:?}");
            let longest = least + more;
            assert!(
                planned.hold >= least && planned.hold <= longest,
                "{planned:?}"
            );
        }
        assert_eq!(Plan::new(1, &[], limits).next(), None);
    }
}
