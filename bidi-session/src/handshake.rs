//! The handshake's fields and the names of its headers: the only place that has them.
//!
//! A controller sends [`Hello`] as the metadata of its call; a worker answers with
//! [`Welcome`] in the metadata of its response, or with a refusal in the metadata
//! of its status. Numbers are decimal digits, texts are percent-encoded.

/// Version of this handshake; the value of [`VERSION_HEADER`].
pub(crate) const VERSION: &str = "1";

/// Both ways: the version.
pub(crate) const VERSION_HEADER: &str = "bidi-session-version";
/// Controller: the scope of the term; absent for the empty scope.
pub(crate) const SCOPE_HEADER: &str = "bidi-session-scope";
/// Controller: the leader's term, above zero.
pub(crate) const TERM_HEADER: &str = "bidi-session-term";
/// Controller: the pool's id, 32 lower-case hexadecimal digits.
pub(crate) const POOL_HEADER: &str = "bidi-session-pool";
/// Controller: the generation of this stream within the pool.
pub(crate) const GENERATION_HEADER: &str = "bidi-session-generation";
/// Controller: the worker that is meant; worker: the worker that answers.
pub(crate) const WORKER_HEADER: &str = "bidi-session-worker";
/// Controller: the incarnation that is expected, where one is; worker: its own.
pub(crate) const INCARNATION_HEADER: &str = "bidi-session-incarnation";
/// Worker, in a refusal: why, one of the `REFUSED_` words.
pub(crate) const REFUSED_HEADER: &str = "bidi-session-refused";
/// Worker, in a refusal for a lower term: the highest term it has seen.
pub(crate) const HIGHEST_HEADER: &str = "bidi-session-highest";

/// What a controller says at the start of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    pub(crate) scope: String,
    pub(crate) term: u64,
    pub(crate) pool: u128,
    pub(crate) generation: u64,
    pub(crate) worker: String,
    /// Only where the owner of the pool gave one.
    pub(crate) incarnation: Option<u64>,
}

/// What a worker says when it admits the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Welcome {
    pub(crate) worker: String,
    pub(crate) incarnation: u64,
}

/// Why a worker does not admit a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It has seen a higher term.
    LowerTerm { highest: u64 },
    /// The term is of another scope.
    WrongScope,
    /// It is another worker.
    WrongWorker { actual: String },
    /// It is another incarnation than the expected one.
    WrongIncarnation { actual: u64 },
    /// Within this term and pool a generation at least as high was seen.
    StaleGeneration,
    /// Another pool of the same term holds the session.
    TermTaken,
    /// The handshake is missing or cannot be read.
    Malformed(String),
}
