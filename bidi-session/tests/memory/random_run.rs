//! One random run: leaders that come and go, workers that die and return, and every fault.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bidi_session::Direction;
use bidi_session::memory::{Acceptor, Network};
use bidi_session::{Events, Pool, PoolConfig};
use tokio::time::Instant;

use crate::grammar::Grammar;
use crate::rig::{Connect, Word, WorkerSession, connect, millis, short};

pub(crate) const WORKERS: u64 = 5;

/// What happened, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log(pub(crate) Arc<Mutex<Vec<String>>>);

/// One leader's pool.
struct Leader {
    term: u64,
    pool: Pool<Connect>,
    events: Events<Connect>,
    grammars: BTreeMap<String, Grammar>,
}

/// One random run.
pub(crate) struct Run {
    pub(crate) random: fastrand::Rng,
    start: Instant,
    pub(crate) network: Network,
    leaders: Vec<Leader>,
    incarnations: u64,
    last_round: u64,
    pub(crate) log: Log,
}

/// Counts the handlers of one worker that live.
struct Live(Arc<AtomicU32>);

// ===== impl Log =====

impl Log {
    fn note(&self, start: Instant, text: &str) {
        let line = format!("{} ms: {text}", start.elapsed().as_millis());
        self.0.lock().unwrap().push(line);
    }
}

// ===== impl Run =====

impl Run {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            random: fastrand::Rng::with_seed(seed),
            start: Instant::now(),
            network: Network::new(seed),
            leaders: Vec::new(),
            incarnations: 0,
            last_round: 0,
            log: Log::default(),
        }
    }

    fn worker(&mut self) -> String {
        format!("w{}", self.random.u64(..WORKERS))
    }

    fn leader(&mut self) -> usize {
        self.random.usize(..self.leaders.len())
    }

    pub(crate) fn note(&self, text: &str) {
        self.log.note(self.start, text);
    }

    pub(crate) fn serve(&mut self, worker: &str) {
        self.incarnations += 1;
        // Half of them have kept the highest term.
        let known = self.leaders.last().map_or(0, |leader| leader.term);
        let highest = if self.random.bool() { known } else { 0 };
        let acceptor = Acceptor::new(worker, self.incarnations, highest);
        let live = Arc::new(AtomicU32::new(0));
        let (log, start) = (self.log.clone(), self.start);
        self.network.serve(worker, acceptor, move |session| {
            work(session, live.clone(), log.clone(), start)
        });
    }

    pub(crate) fn lead(&mut self) {
        let term = self.leaders.last().map_or(1, |leader| leader.term + 1);
        let config = PoolConfig::new(term).with_seed(term).with_inbox(8);
        let (pool, events) = Pool::new(connect(&self.network), config);
        for worker in 0..WORKERS {
            let worker = format!("w{worker}");
            pool.insert(worker.as_str(), worker.clone());
        }
        self.leaders.push(Leader {
            term,
            pool,
            events,
            grammars: BTreeMap::new(),
        });
    }

    fn send(&mut self) {
        let (leader, worker) = (self.leader(), self.worker());
        let pool = &self.leaders[leader].pool;
        let session = pool.state(&worker).and_then(|state| state.session());
        for _ in 0..self.random.u64(1..20) {
            let serial = self.random.u64(..1 << 32);
            let tag = session.unwrap_or(0) << 32 | serial;
            let sent = pool.try_send(&worker, Word { round: None, tag });
            assert!(session.is_some() || sent.is_err(), "sent on no session");
        }
    }

    fn inject(&mut self) {
        let leader = self.leader();
        self.last_round += 1;
        let id = self.last_round;
        let asked: Vec<String> = (0..WORKERS).map(|worker| format!("w{worker}")).collect();
        let pool = &self.leaders[leader].pool;
        let generation = |worker: &str| {
            let state = pool.state(worker);
            state.and_then(|state| state.session()).unwrap_or(0)
        };
        let round = pool.inject(id, &asked, |worker| Word {
            round: Some(id),
            tag: generation(worker.as_str()) << 32,
        });
        let round = match round {
            Ok(round) => round,
            Err(error) => return self.note(&format!("round {id}: {error}")),
        };
        let (log, start) = (self.log.clone(), self.start);
        let wait = millis(self.random.u64(1..15_000));
        tokio::spawn(async move {
            let outcome = match round.collect(wait).await {
                Ok(answers) => {
                    let is_own = |(_, word): &(_, Word)| word.round == Some(id);
                    assert!(answers.iter().all(is_own) && answers.len() == asked.len());
                    "complete".to_owned()
                }
                Err(error) => error.to_string(),
            };
            log.note(start, &format!("round {id}: {outcome}"));
        });
    }

    fn fault(&mut self) {
        let worker = self.worker();
        let ways = [Direction::ToWorker, Direction::FromWorker];
        let way = ways[self.random.usize(..2)];
        let network = &self.network;
        match self.random.u32(..12) {
            0 => network.cut(&worker),
            1 => network.cut_one_way(&worker, way),
            2 => network.stall(&worker, way),
            3 => network.delay(&worker, way, millis(1)..=millis(900)),
            4 => network.reset(&worker),
            5 => network.reset_after(&worker, way, self.random.u64(..10)),
            6 => network.refuse(&worker),
            7 => network.hang(&worker),
            8 => drop(network.kill(&worker)),
            _ => network.heal(&worker),
        }
    }

    pub(crate) fn step(&mut self) {
        match self.random.u32(..40) {
            0..15 => self.send(),
            15..20 => self.inject(),
            20..32 => self.fault(),
            32..35 => {
                let worker = self.worker();
                self.serve(&worker);
            }
            35 => {
                let (leader, worker) = (self.leader(), self.worker());
                self.leaders[leader].pool.remove(&worker);
            }
            36 => {
                // Moved to another's address, whose worker turns it away.
                let (leader, worker, address) = (self.leader(), self.worker(), self.worker());
                self.leaders[leader].pool.insert(worker.as_str(), address);
            }
            37 | 38 => {
                let (leader, worker) = (self.leader(), self.worker());
                let pool = &self.leaders[leader].pool;
                pool.insert(worker.as_str(), worker.clone());
            }
            _ => self.lead(),
        }
    }

    pub(crate) fn drain(&mut self) {
        for leader in &mut self.leaders {
            while let Some(event) = leader.events.try_recv() {
                let grammar = leader.grammars.entry(event.worker.to_string());
                grammar.or_default().check(&event);
                let (term, generation) = (leader.term, event.generation);
                let text = format!("term {term}, generation {generation}: {}", short(&event));
                self.log.note(self.start, &text);
            }
        }
    }

    /// Everything is well again: the last leader gets all its workers.
    pub(crate) async fn recover(&mut self) {
        let last = self.leaders.pop().unwrap();
        for leader in std::mem::take(&mut self.leaders) {
            self.finish(leader).await;
        }
        let workers: Vec<String> = (0..WORKERS).map(|worker| format!("w{worker}")).collect();
        for worker in &workers {
            self.network.heal(worker);
            self.serve(worker);
            last.pool.insert(worker.as_str(), worker.clone());
        }
        last.pool
            .ready(&workers, Duration::from_secs(25))
            .await
            .unwrap();
        self.note("all are up again");
        self.leaders.push(last);
        self.drain();
        let last = self.leaders.pop().unwrap();
        self.finish(last).await;
    }

    /// Closes a pool; its events end with each worker's removal.
    async fn finish(&mut self, leader: Leader) {
        leader.pool.close().await;
        self.leaders.push(leader);
        self.drain();
        let mut leader = self.leaders.pop().unwrap();
        assert_eq!(leader.events.recv().await, None);
        for (worker, grammar) in &leader.grammars {
            assert!(
                grammar.is_over,
                "{worker} of term {} never ended",
                leader.term
            );
        }
        let counters = leader.pool.counters();
        self.note(&format!("term {}: {counters:?}", leader.term));
    }
}

/// Answers each message with itself; may hang for ever after the end of its session.
async fn work(mut session: WorkerSession, live: Arc<AtomicU32>, log: Log, start: Instant) {
    let before = live.fetch_add(1, Ordering::SeqCst);
    let _live = Live(live);
    let generation = session.generation();
    if before > 0 {
        log.note(start, "VIOLATION: two sessions at once");
    }
    while let Some(word) = session.recv().await {
        if word.tag >> 32 != generation {
            log.note(start, "VIOLATION: a message of another session");
        }
        if session.send(word).await.is_err() {
            break;
        }
    }
    if generation.is_multiple_of(7) {
        std::future::pending::<()>().await;
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
