//! The simulated store, and what its answers mean to the core.

use std::{collections::BTreeMap, time::Duration};

use super::super::{Call, Input};
use crate::{Loss, Renewal, Standing};

pub(super) const TTL: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Request {
    Join,
    Verify,
    Wait { leads: bool },
    Renew(u64),
    Leave,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Answer {
    Done,
    Queued,
    First,
    Gone,
}

/// Places by token: the id of the holder and the end of the lease.
#[derive(Debug, Default)]
pub(super) struct ModelStore {
    tokens: u64,
    places: BTreeMap<u64, (u64, Duration)>,
}

impl ModelStore {
    pub(super) fn purge(&mut self, now: Duration) {
        self.places.retain(|_, (_, ends)| *ends > now);
    }

    pub(super) fn token_of(&self, id: u64) -> Option<u64> {
        let (token, _) = self.places.iter().find(|(_, (holder, _))| *holder == id)?;
        Some(*token)
    }

    /// More would break the promise that every election is built upon.
    pub(super) fn expire_unless_first(&mut self, id: u64) {
        if self.standing(id) == Answer::Queued {
            self.places.retain(|_, (holder, _)| *holder != id);
        }
    }

    /// Answers a request; a wait has no answer yet while nothing changes.
    pub(super) fn handle(&mut self, now: Duration, request: Request, id: u64) -> Option<Answer> {
        let standing = self.standing(id);
        match (request, self.token_of(id)) {
            (Request::Join, None) => {
                self.tokens += 1;
                self.places.insert(self.tokens, (id, now + TTL));
                Some(Answer::Done)
            }
            (Request::Join, Some(_)) => Some(Answer::Done),
            (Request::Verify, _) => Some(standing),
            (Request::Wait { leads }, _) => {
                let known = if leads { Answer::First } else { Answer::Queued };
                Some(standing).filter(|standing| *standing != known)
            }
            (Request::Renew(_), Some(token)) => {
                self.places.insert(token, (id, now + TTL));
                Some(Answer::Done)
            }
            (Request::Renew(_), None) => Some(Answer::Gone),
            (Request::Leave, _) => {
                self.places.retain(|_, (holder, _)| *holder != id);
                Some(Answer::Done)
            }
        }
    }

    fn standing(&self, id: u64) -> Answer {
        let first = self.places.first_key_value().map(|(token, _)| *token);
        match self.token_of(id) {
            None => Answer::Gone,
            token if token == first => Answer::First,
            _ => Answer::Queued,
        }
    }
}

pub(super) fn failed(request: Request) -> Input {
    let call = match request {
        Request::Join => Call::Join,
        Request::Verify => Call::Verify,
        Request::Wait { .. } => Call::Wait,
        Request::Leave => Call::Leave,
        Request::Renew(attempt) => {
            return Input::RenewalFailed {
                attempt,
                error: None,
            };
        }
    };
    Input::Failed { call, error: None }
}

pub(super) fn input(request: Request, answer: Answer) -> Input {
    let standing = match answer {
        Answer::First => Standing::First,
        Answer::Queued => Standing::Queued,
        Answer::Done | Answer::Gone => Standing::Gone(Loss::Removed),
    };
    match (request, answer) {
        (Request::Join, _) => Input::Joined { ttl: TTL },
        (Request::Verify, _) => Input::Verified(standing),
        (Request::Wait { .. }, _) => Input::Waited(standing),
        (Request::Leave, _) => Input::Left,
        (Request::Renew(attempt), Answer::Done) => Input::Renewed {
            attempt,
            answer: Renewal::Confirmed(TTL),
        },
        (Request::Renew(attempt), _) => Input::Renewed {
            attempt,
            answer: Renewal::Gone(Loss::Removed),
        },
    }
}
