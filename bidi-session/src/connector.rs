//! The seam between the pool and a transport.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use futures_core::Stream;

use crate::outbox::Outbox;
use crate::worker::WorkerId;

/// Longest text that is told, bytes.
const MAX_TEXT_BYTES: usize = 300;

/// How a pool reaches its workers: one implementation per transport.
///
/// The pool calls [`open`](Self::open) anew for each attempt, bounds it by its own
/// deadline (dropping the future must leave nothing behind), and ends a session by
/// dropping the inbound stream and calling the kill switch.
pub trait Connector: Clone + Send + Sync + 'static {
    /// Where a worker is.
    type Target: Clone + Send + Sync + 'static;
    /// Messages to a worker.
    type Out: Send + 'static;
    /// Messages from a worker.
    type In: Send + 'static;

    /// Says whether two targets are the same place, so that an insert ends no session.
    fn is_same(&self, one: &Self::Target, other: &Self::Target) -> bool;

    /// Names a target in texts.
    fn describe(&self, target: &Self::Target) -> String;

    /// Returns the size of a message as it counts against the outbox, bytes.
    fn size(&self, message: &Self::Out) -> usize;

    /// Returns the size of the largest message that can be sent, bytes; by default only
    /// the outbox bounds it. A larger one is refused before it is queued.
    fn max_size(&self) -> usize {
        usize::MAX
    }

    /// Returns the first messages of a stream, ahead of all others; by default none.
    ///
    /// Called once for each stream, before it opens, so a stream that the worker then
    /// refuses has called it too. It must not block. A panic, and messages that do not
    /// fit the outbox, are a failed attempt.
    fn greeting(&self, attempt: &Attempt) -> Vec<Self::Out> {
        let _ = attempt;
        Vec::new()
    }

    /// Returns the round that a message answers, or `None` for one that answers none.
    fn answers(&self, message: &Self::In) -> Option<u64>;

    /// Opens one stream: name look-up, connection, handshake.
    ///
    /// The outbox is the request stream, and the greeting is in it. Dropping it ends the
    /// session one second later, at the latest, whether or not the worker still sends. A
    /// panic counts as a failed attempt.
    ///
    /// # Errors
    ///
    /// Each is a failed attempt that is told as an event; its class says when the next one
    /// is made.
    ///
    /// # Cancel safety
    ///
    /// The pool drops the future when the attempt takes too long, and when the worker is
    /// removed or replaced: what was opened by then has to end with it.
    fn open(
        &self,
        target: Self::Target,
        attempt: Attempt,
        outbox: Outbox<Self::Out>,
    ) -> impl Future<Output = Result<Opened<Self::In>, OpenError>> + Send + 'static;
}

/// What an attempt tells the worker.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Attempt {
    /// Who is meant.
    pub worker: WorkerId,
    /// The pool's scope.
    pub scope: String,
    /// The pool's term.
    pub term: u64,
    /// The pool's id, 128 random bits.
    pub pool: u128,
    /// The generation of this stream.
    pub generation: u64,
    /// The incarnation that the owner expects, if it gave one.
    pub incarnation: Option<u64>,
}

/// An open stream.
#[non_exhaustive]
pub struct Opened<In> {
    /// Messages from the worker; ends after its first error.
    pub inbound: Pin<Box<dyn Stream<Item = Result<In, Failure>> + Send>>,
    /// The worker's incarnation, where its handshake told one.
    pub incarnation: Option<u64>,
    /// Ends the connection at once, on both sides, whatever is buffered.
    pub kill: Box<dyn FnOnce() + Send>,
}

impl<In> Opened<In> {
    /// Joins what an attempt has opened; the kill switch must not block.
    pub fn new(
        inbound: impl Stream<Item = Result<In, Failure>> + Send + 'static,
        incarnation: Option<u64>,
        kill: impl FnOnce() + Send + 'static,
    ) -> Self {
        Self {
            inbound: Box::pin(inbound),
            incarnation,
            kill: Box::new(kill),
        }
    }
}

impl OpenError {
    /// Says why an attempt failed and what the pool does about it; a text above 300
    /// bytes is cut.
    pub fn new(class: OpenClass, text: impl Into<String>) -> Self {
        Self {
            class,
            text: shorten(text.into()),
        }
    }
}

impl Failure {
    /// Says why an open stream ended, in a text that is cut above 300 bytes; the kind is
    /// [`FailureKind::Other`].
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            kind: FailureKind::Other,
            text: shorten(text.into()),
        }
    }

    /// Sets what the reason is to a program.
    #[must_use]
    pub fn with_kind(mut self, kind: FailureKind) -> Self {
        self.kind = kind;
        self
    }
}

impl<In> fmt::Debug for Opened<In> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened")
            .field("incarnation", &self.incarnation)
            .finish_non_exhaustive()
    }
}

/// Why an attempt failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenError {
    /// What the pool does about it.
    pub class: OpenClass,
    /// The reason, as text, at most some hundred bytes.
    pub text: String,
}

/// What the pool does about a failed attempt; every class is retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpenClass {
    /// The worker cannot be reached, or not be served now: retry with backoff.
    Unreachable,
    /// Something answered that is not the worker meant, or refuses: retry slowly.
    Refused,
    /// The worker has seen a higher term: retry slowly, and tell the owner.
    HigherTerm(u64),
    /// Another pool of the same term holds the worker: retry with backoff. Lasting, it
    /// says that two controllers lead with one term, which share the workers by chance.
    TermTaken,
}

/// Why an open stream ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// What the reason is to a program.
    pub kind: FailureKind,
    /// The reason, as text, at most some hundred bytes.
    pub text: String,
}

/// What the end of a stream means to a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FailureKind {
    /// The connection broke, or the worker ended the stream: a new session may do.
    Other,
    /// A message was above the limit of the side that reads it. A repetition ends the
    /// next session as well: send less at a time, or raise that limit.
    TooLarge {
        /// Who sent it.
        direction: Direction,
        /// Its size, bytes.
        size: usize,
        /// The limit of the side that refused it, bytes.
        limit: usize,
    },
    /// A message could not be decoded: both sides speak different methods or versions.
    Undecodable {
        /// Who sent it.
        direction: Direction,
    },
}

/// The way of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Direction {
    /// From the pool.
    ToWorker,
    /// To the pool.
    FromWorker,
}

// ===== impl OpenClass =====

impl OpenClass {
    /// Whether the next attempt is made slowly.
    pub(crate) fn is_blocked(self) -> bool {
        match self {
            Self::Unreachable | Self::TermTaken => false,
            Self::Refused | Self::HigherTerm(_) => true,
        }
    }
}

// ===== impl Direction =====

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ToWorker => "to the worker",
            Self::FromWorker => "from the worker",
        })
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for OpenError {}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Failure {}

/// Bounds a text, and keeps it on one line: it may be a peer's.
fn shorten(mut text: String) -> String {
    if text.contains(char::is_control) {
        text = text.replace(char::is_control, " ");
    }
    if text.len() > MAX_TEXT_BYTES {
        let mut end = MAX_TEXT_BYTES;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.shrink_to_fit();
        text.push_str("...");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_bounded_and_stays_text() {
        let failure = Failure::new("ä".repeat(1000));
        assert_eq!(failure.text.len(), MAX_TEXT_BYTES + 3);
        let error = OpenError::new(OpenClass::Refused, "ä".repeat(1000));
        assert_eq!(error.text, failure.text);
        let exact = "a".repeat(MAX_TEXT_BYTES);
        assert_eq!(Failure::new(exact.clone()).text, exact);
    }

    #[test]
    fn a_peer_cannot_write_lines_of_its_own() {
        let failure = Failure::new("bye\r\nERROR all is lost\u{1b}[2J");
        assert_eq!(failure.text, "bye  ERROR all is lost [2J");
    }
}
