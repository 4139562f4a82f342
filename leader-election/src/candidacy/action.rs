//! What the core is told and what it answers.

use std::time::Duration;

use crate::{Error, Loss, Renewal, Resigned, Standing};

/// What happened. An `error` is given only where no retry can help.
#[derive(Debug)]
pub(crate) enum Input {
    Start,
    /// Time has passed.
    Tick,
    Joined {
        ttl: Duration,
    },
    Verified(Standing),
    Waited(Standing),
    Renewed {
        attempt: u64,
        answer: Renewal,
    },
    RenewalFailed {
        attempt: u64,
        error: Option<Error>,
    },
    /// The leader makes no progress: the renewal was not sent.
    Withheld {
        attempt: u64,
    },
    Failed {
        call: Call,
        error: Option<Error>,
    },
    /// The place has been left.
    Left,
    /// Nobody waits for the campaign any more.
    Withdrawn,
    /// The leadership was ended on this side.
    Ended,
}

/// A call to the store of which at most one runs at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Join,
    Verify,
    Wait,
    Leave,
}

/// What the driver is to do.
#[derive(Debug)]
pub(crate) enum Action {
    Join {
        limit: Duration,
    },
    Verify {
        limit: Duration,
    },
    /// To be asked again if nothing has changed within the limit.
    Wait {
        known: Standing,
        limit: Duration,
    },
    Renew {
        attempt: u64,
        limit: Duration,
    },
    Leave {
        limit: Duration,
    },
    /// Drop all calls that run and take a new candidate id.
    Requeue(Loss),
    /// Drop all calls that run.
    StopCalls,
    /// The campaign ends with this error.
    Fail(Error),
    /// The campaign ends with a leadership until this deadline.
    Announce(Duration),
    /// The leadership lasts until this later deadline.
    Extend(Duration),
    /// The leadership is over.
    End(Loss),
    /// Whoever resigns is told this; the place is still being given back.
    Tell(Resigned),
    /// Nothing more will come.
    Done(Resigned),
}

// ===== impl Call =====

impl Call {
    /// Returns its name in measures.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Join => "join",
            Self::Verify => "verify",
            Self::Wait => "wait",
            Self::Leave => "leave",
        }
    }
}
