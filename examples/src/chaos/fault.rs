//! The kinds of faults, and how soon commits must go on after each.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Kind {
    /// The leader gets a SIGKILL.
    KillLeader,
    /// A worker gets a SIGKILL.
    KillWorker,
    /// The leader is stopped for longer than its lease lives.
    FreezeLeader,
    /// A worker is stopped for a while.
    FreezeWorker,
    /// The leader's lease is revoked.
    RevokeLease,
    /// The leader's key is deleted.
    DeleteKey,
    /// etcd is killed and started again on its data.
    RestartEtcd,
    /// Each `fdatasync` of etcd takes longer.
    SlowDisk,
    /// No packet passes between the leader and etcd.
    CutLeader,
    /// Packets between the leader and etcd pass one way only.
    CutLeaderOneWay,
    /// No packet passes between the leader and a worker.
    CutWorker,
    /// Packets between the leader and a worker pass one way only.
    CutWorkerOneWay,
    /// A worker's host vanishes from all networks.
    VanishWorker,
    /// A worker comes back at another address.
    MoveWorker,
    /// A worker registers under a name that does not resolve yet.
    LateName,
    /// A commit lands, and its answer is lost.
    LoseReply,
    /// A commit is held up in the network, and reaches etcd after later ones.
    HoldCommit,
    /// The same, and the leader is killed meanwhile: it arrives in a later term.
    HoldCommitOfDead,
    /// What a leader sends to its workers is held up until another leads and has committed;
    /// it lives, does not hear of its loss, and goes on giving orders.
    LateOrders,
}

/// The times of which the bounds are made.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// Length of each lease.
    pub ttl: Duration,
    /// How long a recovery waits for who was lost.
    pub patience: Duration,
    /// How long a round may take.
    pub round: Duration,
    /// What a machine that is busy with other things adds.
    pub slack: Duration,
}

/// From the silence of a peer to the end of its session.
const DETECTION: Duration = Duration::from_secs(10);

/// The longest pause before a worker is dialed again.
const BACKOFF_CAP: Duration = Duration::from_secs(5);

/// What a takeover takes beyond the end of a lease.
const TAKEOVER: Duration = Duration::from_secs(2);

/// A process that has ended is started again this much later, and then registers.
const START: Duration = Duration::from_secs(2);

// ===== impl Kind =====

impl Kind {
    /// Each kind.
    pub const ALL: [Self; 19] = [
        Self::KillLeader,
        Self::KillWorker,
        Self::FreezeLeader,
        Self::FreezeWorker,
        Self::RevokeLease,
        Self::DeleteKey,
        Self::RestartEtcd,
        Self::SlowDisk,
        Self::CutLeader,
        Self::CutLeaderOneWay,
        Self::CutWorker,
        Self::CutWorkerOneWay,
        Self::VanishWorker,
        Self::MoveWorker,
        Self::LateName,
        Self::LoseReply,
        Self::HoldCommit,
        Self::HoldCommitOfDead,
        Self::LateOrders,
    ];

    /// Returns its name on the command line and in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::KillLeader => "kill-leader",
            Self::KillWorker => "kill-worker",
            Self::FreezeLeader => "freeze-leader",
            Self::FreezeWorker => "freeze-worker",
            Self::RevokeLease => "revoke-lease",
            Self::DeleteKey => "delete-key",
            Self::RestartEtcd => "restart-etcd",
            Self::SlowDisk => "slow-disk",
            Self::CutLeader => "cut-leader",
            Self::CutLeaderOneWay => "cut-leader-one-way",
            Self::CutWorker => "cut-worker",
            Self::CutWorkerOneWay => "cut-worker-one-way",
            Self::VanishWorker => "vanish-worker",
            Self::MoveWorker => "move-worker",
            Self::LateName => "late-name",
            Self::LoseReply => "lose-reply",
            Self::HoldCommit => "hold-commit",
            Self::HoldCommitOfDead => "hold-commit-of-dead",
            Self::LateOrders => "late-orders",
        }
    }

    /// Returns how long it lasts: the least, and by how much it may be longer; zero for
    /// what happens at an instant.
    #[must_use]
    pub fn hold(self, limits: &Limits) -> (Duration, Duration) {
        let second = Duration::from_secs(1);
        match self {
            Self::FreezeLeader | Self::CutLeader | Self::CutLeaderOneWay => {
                (limits.ttl + second, 2 * second)
            }
            Self::FreezeWorker | Self::SlowDisk | Self::LateName => (3 * second, 2 * second),
            Self::CutWorker => (2 * second, 4 * second),
            // A round that waits for what is lost ends meanwhile.
            Self::CutWorkerOneWay => (limits.round + second, 2 * second),
            Self::VanishWorker => (limits.ttl + 2 * second, 3 * second),
            Self::HoldCommit | Self::HoldCommitOfDead => (5 * second, Duration::ZERO),
            // From when they pass: the kernel sends again what was held up after a while.
            Self::LateOrders => (2 * second, second),
            _ => (Duration::ZERO, Duration::ZERO),
        }
    }

    /// Returns how soon after its end the next commit must have landed.
    #[must_use]
    pub fn bound(self, limits: &Limits) -> Duration {
        let bound = match self {
            Self::KillLeader
            | Self::FreezeLeader
            | Self::RevokeLease
            | Self::DeleteKey
            | Self::SlowDisk
            | Self::CutLeader
            | Self::CutLeaderOneWay
            | Self::HoldCommit
            | Self::HoldCommitOfDead
            | Self::LateOrders
            | Self::LoseReply => limits.ttl + TAKEOVER,
            // A lease that was running out begins anew when etcd starts.
            Self::RestartEtcd => 2 * limits.ttl + TAKEOVER,
            Self::KillWorker | Self::MoveWorker => limits.patience + START + BACKOFF_CAP,
            Self::LateName => BACKOFF_CAP,
            Self::FreezeWorker | Self::CutWorker | Self::CutWorkerOneWay | Self::VanishWorker => {
                limits.round + DETECTION + BACKOFF_CAP
            }
        };
        bound + limits.slack
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == text);
        found.ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|kind| kind.name()).collect();
            format!("the kinds of faults are {}", names.join(", "))
        })
    }
}

// ===== impl Limits =====

impl Limits {
    /// Limits of leases of this length, on a machine of one's own.
    #[must_use]
    pub fn for_ttl(ttl: Duration) -> Self {
        Self {
            ttl,
            patience: Duration::from_secs(1),
            round: Duration::from_secs(3),
            slack: Duration::ZERO,
        }
    }

    /// Sets what a busy machine adds to each bound.
    #[must_use]
    pub fn with_slack(mut self, slack: Duration) -> Self {
        self.slack = slack;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_stands_for_one_kind() {
        for kind in Kind::ALL {
            assert_eq!(kind.name().parse(), Ok(kind));
        }
        assert!("nothing".parse::<Kind>().unwrap_err().contains("slow-disk"));
    }

    #[test]
    fn a_leader_is_kept_away_for_longer_than_its_lease_lives() {
        let limits = Limits::for_ttl(Duration::from_secs(7));
        for kind in [Kind::FreezeLeader, Kind::CutLeader, Kind::CutLeaderOneWay] {
            assert!(kind.hold(&limits).0 > limits.ttl, "{kind}");
        }
        assert!(Kind::CutWorkerOneWay.hold(&limits).0 > limits.round);
        let slow = limits.with_slack(Duration::from_secs(9));
        for kind in Kind::ALL {
            assert_eq!(kind.bound(&slow), kind.bound(&limits) + slow.slack);
        }
    }
}
