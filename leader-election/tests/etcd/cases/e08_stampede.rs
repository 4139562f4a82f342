//! E08: many candidates start at the same instant.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::{Instant, sleep, timeout};

use super::passed;
use crate::{
    boot_time,
    child::{Child, News, Orders, Words},
    cluster::Cluster,
    server::Etcd,
    soak,
};

const TTL: Duration = Duration::from_secs(2);
const USABLE: Duration = Duration::from_millis(1998);
const CANDIDATES: usize = 9;
/// Within this there is a leader again.
const FAILOVER: Duration = Duration::from_secs(4);

/// When each token was valid: from its first word to its last deadline.
#[derive(Default)]
struct History(BTreeMap<u64, (Duration, Duration)>);

impl History {
    fn add(&mut self, said: News) {
        if let News::Leads {
            token,
            at,
            deadline,
        } = said
        {
            let span = self.0.entry(token).or_insert((at, deadline));
            span.1 = span.1.max(deadline);
        }
    }

    fn check(&self) {
        let spans: Vec<_> = self.0.iter().collect();
        for pair in spans.windows(2) {
            let [(before, (_, to)), (after, (from, _))] = pair else {
                unreachable!("windows of two");
            };
            assert!(
                to <= from,
                "{before} led until {to:?}, {after} from {from:?}"
            );
        }
    }
}

fn orders(endpoints: &[String]) -> Orders<'_> {
    Orders {
        tells_renewals: true,
        ..Orders::new(endpoints, TTL.as_secs(), "one of nine")
    }
}

struct Crowd {
    words: Words,
    candidates: Vec<Child>,
    endpoints: Vec<String>,
    history: History,
    /// Rises with the leaderships.
    token: u64,
}

impl Crowd {
    fn start(endpoints: Vec<String>) -> Self {
        let words = Words::new();
        let start = |number| words.start(number, &orders(&endpoints));
        Self {
            candidates: (0..CANDIDATES).map(start).collect(),
            words,
            endpoints,
            history: History::default(),
            token: 0,
        }
    }

    /// Waits for someone who leads, with a deadline beyond this; returns who.
    async fn leads_beyond(&mut self, least: Duration) -> usize {
        let is_wanted = |_, said| matches!(said, News::Leads { deadline, .. } if deadline > least);
        let said = self.words.until(is_wanted).await;
        let mut leader = 0;
        for (number, said) in said {
            self.history.add(said);
            if let News::Leads { token, .. } = said {
                assert!(token >= self.token, "{token} after {}", self.token);
                (leader, self.token) = (number, token);
            }
        }
        self.history.check();
        leader
    }

    /// Listens for a while.
    async fn listen(&mut self, pause: Duration) {
        let began = Instant::now();
        while let Ok((_, said)) =
            timeout(pause.saturating_sub(began.elapsed()), self.words.next()).await
        {
            self.history.add(said);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nine_candidates_whose_leaders_are_killed_never_overlap() {
    let rounds = if soak() { 100 } else { 3 };
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let etcd = Etcd::start().await;
    let mut crowd = Crowd::start(vec![etcd.endpoint()]);
    let mut leader = crowd.leads_beyond(Duration::ZERO).await;
    let mut killed = 0;
    for round in 0..rounds {
        let pause = TTL.mul_f64(random.f64());
        crowd.listen(pause).await;
        let (token, at) = (crowd.token, boot_time());
        killed += crowd.candidates[leader].kill().await;
        let again = crowd.words.start(leader, &orders(&crowd.endpoints));
        crowd.candidates[leader] = again;
        while crowd.token == token {
            leader = crowd.leads_beyond(at).await;
        }
        let took = boot_time() - at;
        assert!(took <= FAILOVER, "round {round}: {took:?}");
    }
    passed("E08", killed);
}

/// The leader of etcd itself is killed: somebody leads on, or leads anew.
#[tokio::test(flavor = "multi_thread")]
async fn nine_candidates_never_overlap_when_etcds_leader_is_killed() {
    let rounds = if soak() { 20 } else { 1 };
    let mut cluster = Cluster::start().await;
    let mut crowd = Crowd::start(cluster.endpoints());
    crowd.leads_beyond(Duration::ZERO).await;
    let mut changes = 0;
    for round in 0..rounds {
        let before = cluster.leader().await;
        let at = boot_time();
        cluster.members[before].kill();
        // Confirmed by the others: sent after the kill.
        crowd.leads_beyond(at + USABLE).await;
        let took = boot_time() - at;
        assert!(took <= FAILOVER, "round {round}: {took:?}");
        let after = cluster.leader().await;
        changes += u64::from(before != after);
        cluster.members[before].restart().await;
        sleep(Duration::from_millis(200)).await;
    }
    passed("E08-cluster", changes);
}
