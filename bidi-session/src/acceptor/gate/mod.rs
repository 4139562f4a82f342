//! Who holds a worker's one session: decisions without I/O or clock.

use std::collections::VecDeque;

use crate::handshake::{Hello, Refusal};

/// How many pools of one term are remembered with their highest generation.
///
/// A pool that is forgotten could reopen with an old generation; pools of one term
/// follow each other only where an owner makes several.
const REMEMBERED_POOLS: usize = 64;

/// No stream has this term.
const NO_TERM: u64 = 0;

/// Admits one session at a time, the newest.
#[derive(Debug)]
pub(crate) struct Gate {
    worker: String,
    incarnation: u64,
    scope: String,
    highest: u64,
    // The highest generation of each pool of the highest term, oldest first.
    seen: VecDeque<(u128, u64)>,
    holder: Option<Claim>,
    // Waits for the holder to leave.
    next: Option<Claim>,
    last_ticket: Ticket,
}

/// Names one claim to the session.
pub(crate) type Ticket = u64;

/// What a gate decides about a stream that arrives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    /// It holds the session now.
    Admitted(Ticket),
    /// It is next; the holder has to be told that it is over.
    Next(Ticket),
    /// It is turned away.
    Refused(Refusal),
}

/// Where a stream that is next stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It holds the session now.
    Admitted,
    /// The holder is still there.
    Wait,
    /// A newer one has taken its place.
    Refused(Refusal),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Claim {
    ticket: Ticket,
    term: u64,
    pool: u128,
}

// ===== impl Gate =====

impl Gate {
    pub(crate) fn new(worker: String, incarnation: u64, highest: u64) -> Self {
        Self {
            worker,
            incarnation,
            scope: String::new(),
            highest,
            seen: VecDeque::new(),
            holder: None,
            next: None,
            last_ticket: 0,
        }
    }

    pub(crate) fn highest(&self) -> u64 {
        self.highest
    }

    /// Counts within another scope from here on. Whoever holds the session has to be told
    /// that it is over, and is waited for: its handler may go on for a while.
    pub(crate) fn reset(&mut self, scope: String, highest: u64) {
        self.scope = scope;
        self.highest = highest;
        self.seen.clear();
        self.next = None;
        if let Some(holder) = &mut self.holder {
            // Its term is of the old scope: it stands in nobody's way but by being there.
            holder.term = NO_TERM;
        }
    }

    /// Decides about a stream that arrives; raises the highest term if it is higher.
    pub(crate) fn offer(&mut self, hello: &Hello) -> Offer {
        if let Err(refusal) = self.check(hello) {
            return Offer::Refused(refusal);
        }
        if hello.term > self.highest {
            self.highest = hello.term;
            self.seen.clear();
        }
        self.remember(hello.pool, hello.generation);
        self.last_ticket += 1;
        let claim = Claim {
            ticket: self.last_ticket,
            term: hello.term,
            pool: hello.pool,
        };
        if self.holder.is_none() {
            self.holder = Some(claim);
            // Whoever was next is older.
            self.next = None;
            return Offer::Admitted(claim.ticket);
        }
        self.next = Some(claim);
        Offer::Next(claim.ticket)
    }

    /// Says where a claim of this term stands that was next.
    pub(crate) fn turn(&mut self, ticket: Ticket, term: u64) -> Turn {
        if term < self.highest {
            let highest = self.highest;
            return Turn::Refused(Refusal::LowerTerm { highest });
        }
        if self.next.is_none_or(|next| next.ticket != ticket) {
            return Turn::Refused(Refusal::StaleGeneration);
        }
        if self.holder.is_some() {
            return Turn::Wait;
        }
        self.holder = self.next.take();
        Turn::Admitted
    }

    /// Gives up on the holder, whose time is up.
    pub(crate) fn evict(&mut self, ticket: Ticket) {
        if self.next.is_some_and(|next| next.ticket == ticket) {
            self.holder = None;
        }
    }

    /// Takes back a claim, whichever place it has; a repetition changes nothing.
    pub(crate) fn leave(&mut self, ticket: Ticket) {
        for place in [&mut self.holder, &mut self.next] {
            if place.is_some_and(|claim| claim.ticket == ticket) {
                *place = None;
            }
        }
    }

    fn check(&self, hello: &Hello) -> Result<(), Refusal> {
        if hello.scope != self.scope {
            return Err(Refusal::WrongScope);
        }
        if hello.worker != self.worker {
            let actual = self.worker.clone();
            return Err(Refusal::WrongWorker { actual });
        }
        if hello
            .incarnation
            .is_some_and(|expected| expected != self.incarnation)
        {
            let actual = self.incarnation;
            return Err(Refusal::WrongIncarnation { actual });
        }
        if hello.term < self.highest {
            let highest = self.highest;
            return Err(Refusal::LowerTerm { highest });
        }
        if hello.term > self.highest {
            return Ok(());
        }
        let seen = self.seen.iter().find(|(pool, _)| *pool == hello.pool);
        if seen.is_some_and(|(_, generation)| hello.generation <= *generation) {
            return Err(Refusal::StaleGeneration);
        }
        let newest = self.next.or(self.holder);
        if newest.is_some_and(|claim| claim.term == hello.term && claim.pool != hello.pool) {
            return Err(Refusal::TermTaken);
        }
        Ok(())
    }

    fn remember(&mut self, pool: u128, generation: u64) {
        self.seen.retain(|(known, _)| *known != pool);
        if self.seen.len() == REMEMBERED_POOLS {
            self.seen.pop_front();
        }
        self.seen.push_back((pool, generation));
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
