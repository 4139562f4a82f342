//! The gate against a model that knows the whole history and no state.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Holding,
    Waiting,
    Gone,
}

/// One stream that was let in or told to wait, in the order of arrival.
#[derive(Clone, Debug)]
struct Record {
    ticket: Ticket,
    hello: Hello,
    standing: Standing,
}

/// What happened within one scope.
#[derive(Debug)]
struct Model {
    scope: String,
    mark: u64,
    since_reset: usize,
    records: Vec<Record>,
}

#[derive(Clone, Debug)]
enum Step {
    Offer(Hello),
    /// Which record, counted from the newest.
    Leave(usize),
    Turn(usize),
    Evict(usize),
    Reset(u64),
}

// ===== impl Model =====

impl Model {
    fn here(&self) -> &[Record] {
        &self.records[self.since_reset..]
    }

    fn highest(&self) -> u64 {
        let terms = self.here().iter().map(|record| record.hello.term);
        terms.max().unwrap_or(0).max(self.mark)
    }

    fn holder(&self) -> Option<&Record> {
        let mut holding = self
            .records
            .iter()
            .filter(|record| record.standing == Standing::Holding);
        let holder = holding.next();
        assert!(holding.next().is_none(), "two hold the session");
        holder
    }

    /// Only the last one that came can be next.
    fn next(&self) -> Option<&Record> {
        self.here()
            .last()
            .filter(|record| record.standing == Standing::Waiting)
    }

    fn refusal(&self, hello: &Hello) -> Option<Refusal> {
        let highest = self.highest();
        let is_repeated = |record: &Record| {
            let earlier = &record.hello;
            earlier.term == hello.term
                && earlier.pool == hello.pool
                && earlier.generation >= hello.generation
        };
        let newest = self.next().or(self.holder());
        if hello.scope != self.scope {
            Some(Refusal::WrongScope)
        } else if hello.worker != "w1" {
            let actual = "w1".to_owned();
            Some(Refusal::WrongWorker { actual })
        } else if hello.incarnation.is_some_and(|expected| expected != 40) {
            Some(Refusal::WrongIncarnation { actual: 40 })
        } else if hello.term < highest {
            Some(Refusal::LowerTerm { highest })
        } else if self.here().iter().any(is_repeated) {
            Some(Refusal::StaleGeneration)
        } else {
            // A holder from before a reset is of terms that count no more.
            let is_present = |record: &&Record| {
                let mut here = self.here().iter();
                here.any(|one| one.ticket == record.ticket)
            };
            let is_taken = newest.filter(is_present).is_some_and(|newest| {
                newest.hello.term == hello.term && newest.hello.pool != hello.pool
            });
            is_taken.then_some(Refusal::TermTaken)
        }
    }

    fn turn(&self, record: &Record) -> Turn {
        let highest = self.highest();
        if record.hello.term < highest {
            return Turn::Refused(Refusal::LowerTerm { highest });
        }
        if self.next().is_none_or(|next| next.ticket != record.ticket) {
            return Turn::Refused(Refusal::StaleGeneration);
        }
        if self.holder().is_some() {
            Turn::Wait
        } else {
            Turn::Admitted
        }
    }

    fn part(&mut self, ticket: Ticket) {
        for record in &mut self.records {
            if record.ticket == ticket {
                record.standing = Standing::Gone;
            }
        }
    }
}

/// Reads a step off a number; small numbers are simple, so that a schedule shrinks to a
/// readable one.
fn decode(number: u32) -> Step {
    let place = (number >> 4) as usize % 4;
    match number % 16 {
        0..7 => Step::Offer(hello(number >> 4)),
        7..10 => Step::Leave(place),
        10..14 => Step::Turn(place),
        14 => Step::Evict(place),
        // Rare: it forgets everything.
        _ if number >> 4 & 7 == 7 => Step::Reset(u64::from(number >> 7) % 3),
        _ => Step::Turn(0),
    }
}

fn hello(number: u32) -> Hello {
    let odd = |shift: u32| (number >> shift) & 31 == 31;
    Hello {
        scope: if odd(10) { "0" } else { "" }.to_owned(),
        term: [1, 1, 2, 2, 1, 2, 3, u64::MAX][number as usize & 7],
        pool: u128::from(number >> 3) % 3,
        generation: u64::from(number >> 5) % 8,
        worker: if odd(15) { "w2" } else { "w1" }.to_owned(),
        incarnation: odd(20).then_some(40 + u64::from(number >> 25) % 2),
    }
}

/// Lets one step happen to both; returns a stream that was admitted by it.
fn take(gate: &mut Gate, model: &mut Model, step: Step) -> Result<Option<Hello>, TestCaseError> {
    let nth = |model: &Model, back: usize| {
        let place = model.records.len().checked_sub(back + 1)?;
        Some((place, model.records[place].clone()))
    };
    match step {
        Step::Offer(hello) => return offer(gate, model, hello),
        Step::Leave(back) => {
            if let Some((_, record)) = nth(model, back) {
                gate.leave(record.ticket);
                model.part(record.ticket);
            }
        }
        Step::Turn(back) => {
            if let Some((place, record)) = nth(model, back)
                && record.standing == Standing::Waiting
            {
                let expected = model.turn(&record);
                let turn = gate.turn(record.ticket, record.hello.term);
                prop_assert_eq!(&turn, &expected);
                if turn == Turn::Admitted {
                    model.records[place].standing = Standing::Holding;
                    return Ok(Some(record.hello));
                }
            }
        }
        Step::Evict(back) => {
            if let Some((_, record)) = nth(model, back) {
                let is_next = model
                    .next()
                    .is_some_and(|next| next.ticket == record.ticket);
                gate.evict(record.ticket);
                if is_next && let Some(holder) = model.holder().map(|holder| holder.ticket) {
                    model.part(holder);
                }
            }
        }
        Step::Reset(mark) => {
            gate.reset(String::new(), mark);
            model.mark = mark;
            model.since_reset = model.records.len();
            let holder = model.holder().map(|holder| holder.ticket);
            let tickets: Vec<_> = model.records.iter().map(|one| one.ticket).collect();
            for ticket in tickets {
                if Some(ticket) != holder {
                    model.part(ticket);
                }
            }
        }
    }
    Ok(None)
}

fn offer(gate: &mut Gate, model: &mut Model, hello: Hello) -> Result<Option<Hello>, TestCaseError> {
    let refusal = model.refusal(&hello);
    let is_free = model.holder().is_none();
    let (ticket, standing) = match gate.offer(&hello) {
        Offer::Refused(told) => {
            prop_assert_eq!(Some(told), refusal);
            return Ok(None);
        }
        Offer::Admitted(ticket) => (ticket, Standing::Holding),
        Offer::Next(ticket) => (ticket, Standing::Waiting),
    };
    prop_assert_eq!(None, refusal);
    prop_assert_eq!(standing == Standing::Holding, is_free);
    model.records.push(Record {
        ticket,
        hello: hello.clone(),
        standing,
    });
    Ok(is_free.then_some(hello))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn any_schedule_admits_whom_the_model_admits(
        steps in proptest::collection::vec(any::<u32>(), 1..60),
    ) {
        let mut gate = Gate::new("w1".to_owned(), 40, 0);
        let mut model = Model {
            scope: String::new(),
            mark: 0,
            since_reset: 0,
            records: Vec::new(),
        };
        let mut last: Option<Hello> = None;
        for step in steps.into_iter().map(decode) {
            if matches!(step, Step::Reset(_)) {
                last = None;
            }
            if let Some(admitted) = take(&mut gate, &mut model, step)? {
                if let Some(last) = last {
                    prop_assert!(last.term <= admitted.term, "a lower term took over");
                    let is_same = last.term == admitted.term && last.pool == admitted.pool;
                    prop_assert!(!is_same || last.generation < admitted.generation);
                }
                last = Some(admitted);
            }
            prop_assert_eq!(gate.highest(), model.highest());
            prop_assert_eq!(gate.holder.is_some(), model.holder().is_some());
        }
    }
}
