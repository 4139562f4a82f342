//! A worker's side of sessions: who is admitted, and what its handler gets.

mod door;
mod gate;
mod link;
mod refusals;
mod replies;
mod session;
mod tenure;

pub use self::door::Acceptor;
pub use self::session::{Session, SessionOver, SessionSender, TrySendError};

pub(crate) use self::door::Unadmitted;
pub(crate) use self::link::{Break, Ending};
pub(crate) use self::replies::Replies;
