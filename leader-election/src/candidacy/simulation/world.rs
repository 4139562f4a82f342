//! The simulated candidates, network and clocks.

use std::{
    cmp::Reverse,
    collections::{BTreeSet, BinaryHeap},
    time::Duration,
};

use super::{
    super::{Action, Candidacy, Input},
    model::{Answer, ModelStore, Request, TTL, failed, input},
};
use crate::{ElectionConfig, Standing, config::Timing};

#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) seed: u64,
    /// By how much each candidate's clock is too fast.
    pub(super) drift: [f64; 3],
    pub(super) faults: Vec<Fault>,
    /// The longest way of a message.
    pub(super) slowest: Duration,
    pub(super) takeover_delay: Duration,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    /// Every message from or to the candidate is lost.
    Cut {
        who: usize,
        at: Duration,
        length: Duration,
    },
    /// The process of the candidate is stopped.
    Pause {
        who: usize,
        at: Duration,
        length: Duration,
    },
    /// It resigns if it leads, else withdraws; then a new candidate starts.
    Resign { who: usize, at: Duration },
    /// The store drops the place if it is not the first.
    Expire { who: usize, at: Duration },
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Tick,
    /// A call, named by its number, is given up.
    Timeout(u64, Request),
    Arrive(u64, Request, u64),
    Reply(u64, Request, Option<u64>, Answer),
    Resign,
    Expire,
}

struct Candidate {
    core: Candidacy,
    rate: f64,
    /// Changes with each place.
    id: u64,
    /// The calls that still wait for an answer.
    open: BTreeSet<u64>,
    token: Option<u64>,
    deadline: Duration,
    last_renewal: Duration,
}

type Entry = Reverse<(Duration, u64, usize, Event)>;

pub(super) struct World {
    plan: Plan,
    now: Duration,
    random: fastrand::Rng,
    events: BinaryHeap<Entry>,
    sequence: u64,
    next_id: u64,
    store: ModelStore,
    candidates: Vec<Candidate>,
    /// (candidate, token) of each leadership.
    pub(super) history: Vec<(usize, u64)>,
}

impl World {
    pub(super) fn new(plan: &Plan) -> Self {
        let mut world = Self {
            plan: plan.clone(),
            now: Duration::from_secs(1),
            random: fastrand::Rng::with_seed(plan.seed),
            events: BinaryHeap::new(),
            sequence: 0,
            next_id: 0,
            store: ModelStore::default(),
            candidates: Vec::new(),
            history: Vec::new(),
        };
        for who in 0..plan.drift.len() {
            let fresh = world.fresh(who);
            world.candidates.push(fresh);
            world.step(who, Input::Start).expect("a first step");
        }
        for fault in plan.faults.clone() {
            match fault {
                Fault::Resign { who, at } => world.schedule(at, who, Event::Resign),
                Fault::Expire { who, at } => world.schedule(at, who, Event::Expire),
                Fault::Cut { .. } | Fault::Pause { .. } => {}
            }
        }
        world
    }

    /// The candidates that hold a handle that is valid now.
    pub(super) fn valid(&self) -> Vec<usize> {
        let valid = |who: &usize| self.local(*who) < self.candidates[*who].deadline;
        (0..self.candidates.len()).filter(valid).collect()
    }

    /// From now on every message is fast.
    pub(super) fn calm(&mut self) {
        self.plan.slowest = Duration::from_millis(5);
    }

    pub(super) fn run_until(&mut self, end: Duration) -> Result<(), String> {
        while let Some(Reverse((at, ..))) = self.events.peek()
            && *at <= end
        {
            let Reverse((at, _, who, event)) = self.events.pop().expect("peeked");
            self.now = self.now.max(at);
            self.store.purge(self.now);
            self.handle(who, event)?;
            if let [one, other, ..] = self.valid()[..] {
                return Err(format!("{one} and {other} are both valid at {at:?}"));
            }
        }
        self.now = end;
        Ok(())
    }

    fn handle(&mut self, who: usize, event: Event) -> Result<(), String> {
        match event {
            Event::Arrive(call, request, id) => {
                self.arrive(who, call, request, id);
                return Ok(());
            }
            Event::Expire => {
                self.store.expire_unless_first(self.candidates[who].id);
                return Ok(());
            }
            _ => {}
        }
        if let Some(end) = self.fault_end(who, false) {
            self.schedule(end, who, event);
            return Ok(());
        }
        match event {
            Event::Tick => self.step(who, Input::Tick),
            Event::Resign => self.restart(who),
            Event::Timeout(call, request) if self.candidates[who].open.remove(&call) => {
                self.step(who, failed(request))
            }
            Event::Reply(call, request, token, answer)
                if self.candidates[who].open.remove(&call) =>
            {
                self.candidates[who].token = token;
                self.step(who, input(request, answer))
            }
            _ => Ok(()),
        }
    }

    fn restart(&mut self, who: usize) -> Result<(), String> {
        self.candidates[who].deadline = Duration::ZERO;
        let leads = self.candidates[who].core.is_leading();
        let end = if leads {
            Input::Ended
        } else {
            Input::Withdrawn
        };
        self.step(who, end)?;
        self.candidates[who] = self.fresh(who);
        self.step(who, Input::Start)
    }

    fn fresh(&mut self, who: usize) -> Candidate {
        self.next_id += 1;
        let config = ElectionConfig::for_ttl(TTL).with_takeover_delay(self.plan.takeover_delay);
        Candidate {
            core: Candidacy::new(config.timing(), self.random.u64(..)),
            rate: 1.0 + self.plan.drift[who],
            id: self.next_id,
            open: BTreeSet::new(),
            token: None,
            deadline: Duration::ZERO,
            last_renewal: Duration::ZERO,
        }
    }

    fn step(&mut self, who: usize, input: Input) -> Result<(), String> {
        let now = self.local(who);
        let actions = self.candidates[who].core.step(now, input);
        for action in actions {
            self.perform(who, now, action)?;
        }
        let one = &self.candidates[who];
        if let Some(wake) = one.core.next_wake() {
            if wake <= now {
                return Err(format!("{who} wants to be woken in the past"));
            }
            let pause = (wake - now).min(TTL / 20).div_f64(one.rate);
            self.schedule(self.now + pause + Duration::from_nanos(1), who, Event::Tick);
        }
        Ok(())
    }

    fn perform(&mut self, who: usize, now: Duration, action: Action) -> Result<(), String> {
        match action {
            Action::Join { limit } => self.send(who, Request::Join, limit),
            Action::Verify { limit } => self.send(who, Request::Verify, limit),
            Action::Leave { limit } => self.send(who, Request::Leave, limit),
            Action::Wait { known, limit } => {
                let leads = known == Standing::First;
                self.send(who, Request::Wait { leads }, limit);
            }
            Action::Renew { attempt, limit } => {
                let deadline = self.candidates[who].deadline;
                if deadline > Duration::ZERO && now + limit > deadline {
                    return Err(format!("an attempt of {who} runs past its deadline"));
                }
                self.candidates[who].last_renewal = now;
                self.send(who, Request::Renew(attempt), limit);
            }
            Action::Requeue(_) => {
                self.next_id += 1;
                self.candidates[who].id = self.next_id;
                self.candidates[who].open.clear();
            }
            Action::StopCalls => self.candidates[who].open.clear(),
            Action::Announce(deadline) => {
                let token = self.candidates[who].token.expect("a renewal came before");
                if self.history.last().is_some_and(|(_, last)| *last >= token) {
                    return Err(format!("token {token} does not rise"));
                }
                self.history.push((who, token));
                self.lengthen(who, deadline)?;
            }
            Action::Extend(deadline) => {
                if now >= self.candidates[who].deadline {
                    return Err(format!("{who} was revived"));
                }
                self.lengthen(who, deadline)?;
            }
            Action::End(_) => self.candidates[who].deadline = Duration::ZERO,
            Action::Tell(_) => {}
            Action::Fail(error) => return Err(format!("campaign failed: {error}")),
            Action::Done(_) => {
                self.candidates[who] = self.fresh(who);
                self.step(who, Input::Start)?;
            }
        }
        Ok(())
    }

    fn lengthen(&mut self, who: usize, deadline: Duration) -> Result<(), String> {
        let one = &mut self.candidates[who];
        if deadline <= one.deadline {
            return Err(format!("the deadline of {who} falls"));
        }
        if deadline > Timing::deadline(one.last_renewal, TTL) {
            return Err(format!("the deadline of {who} is not from a send"));
        }
        one.deadline = deadline;
        Ok(())
    }

    fn send(&mut self, who: usize, request: Request, limit: Duration) {
        let call = self.sequence;
        let id = self.candidates[who].id;
        self.candidates[who].open.insert(call);
        let limit = limit.div_f64(self.candidates[who].rate);
        self.schedule(self.now + limit, who, Event::Timeout(call, request));
        if self.fault_end(who, true).is_none() {
            let arrival = self.now + self.way();
            self.schedule(arrival, who, Event::Arrive(call, request, id));
        }
    }

    /// The store handles a request and sends the answer back.
    fn arrive(&mut self, who: usize, call: u64, request: Request, id: u64) {
        let Some(answer) = self.store.handle(self.now, request, id) else {
            let again = self.now + Duration::from_millis(100 + self.random.u64(0..100));
            return self.schedule(again, who, Event::Arrive(call, request, id));
        };
        if self.fault_end(who, true).is_none() {
            let token = self.store.token_of(id);
            let back = self.now + self.way();
            self.schedule(back, who, Event::Reply(call, request, token, answer));
        }
    }

    fn local(&self, who: usize) -> Duration {
        self.now.mul_f64(self.candidates[who].rate)
    }

    fn way(&mut self) -> Duration {
        // Mostly fast: one message in eight may be as slow as the plan allows.
        let slowest = self.plan.slowest;
        let most = if self.random.u8(..8) == 0 {
            slowest
        } else {
            slowest / 16
        };
        most.mul_f64(self.random.f64())
    }

    fn fault_end(&self, who: usize, cut: bool) -> Option<Duration> {
        let ends = self.plan.faults.iter().filter_map(|fault| match *fault {
            Fault::Cut { who, at, length } if cut => Some((who, at, at + length)),
            Fault::Pause { who, at, length } if !cut => Some((who, at, at + length)),
            _ => None,
        });
        ends.filter(|(whom, at, end)| *whom == who && *at <= self.now && self.now < *end)
            .map(|(_, _, end)| end)
            .max()
    }

    fn schedule(&mut self, at: Duration, who: usize, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((at, self.sequence, who, event)));
    }
}
