//! What users ask of a running loop.

use std::fmt;
use std::path::PathBuf;

use tonic::async_trait;

/// The answer to [`RequestKind::Finish`].
pub const FINISHED: &str = "nothing is added from here on";

/// Why nothing is added after it.
pub const CLOSED: &str = "the loop was told to finish: what is to be counted now needs a new one, \
                          with another name and output folder";

/// Something a user asks for; it takes effect with a commit, or is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Request {
    /// Its name, unlike that of every other.
    pub id: String,
    /// Its revision in the store: gone once it is withdrawn or answered.
    pub revision: i64,
    /// The lease in the store that it lives under, and so its answer.
    pub lease: i64,
    /// What is asked for.
    pub kind: RequestKind,
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequestKind {
    /// The file, or what is in and below the folder, is counted too.
    Add(PathBuf),
    /// Nothing is added any more: the chain ends once everything is counted.
    Finish,
}

impl fmt::Display for RequestKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Add(path) => write!(f, "add {}", path.display()),
            Self::Finish => f.write_str("finish"),
        }
    }
}

/// Where users' requests come from.
#[async_trait]
pub trait Requests: Send + Sync + 'static {
    /// Returns those that are neither answered nor withdrawn, oldest first.
    fn open(&self) -> Vec<Request>;

    /// Tells the user why it cannot be done; an answer that is lost is given again.
    async fn refuse(&self, request: &Request, why: &str);
}

/// Nobody asks for anything.
#[derive(Clone, Copy, Debug)]
pub struct NoRequests;

#[async_trait]
impl Requests for NoRequests {
    fn open(&self) -> Vec<Request> {
        Vec::new()
    }

    async fn refuse(&self, _request: &Request, _why: &str) {}
}
