//! Why there is no watchdog, or no guard.

use std::io;

use crate::config::ConfigError;

/// The watchdog could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The configuration leaves no time to work. Fix it.
    #[error("the watchdog's configuration does not fit")]
    Config(#[from] ConfigError),
    /// The system grants no timer, say for want of file descriptors.
    #[error("the system grants the watchdog no timer")]
    Timer(#[source] io::Error),
    /// The system grants no thread.
    #[error("the system grants the watchdog no thread")]
    Thread(#[source] io::Error),
    /// The system grants no timer that ends the process, and one is required. Grant it
    /// (the limit of pending signals may be zero), or do with
    /// [`Backstop::BestEffort`](crate::Backstop::BestEffort).
    #[error("the system grants no timer that ends the process, which is required")]
    Backstop(#[source] io::Error),
}

/// The watchdog makes no new guard.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GuardError {
    /// An earlier guard is neither finished nor lost, or permits of it are held.
    #[error(
        "the guard of token {token} is still in use ({permits} permits are held); call finish() or finish_blocking() on it first, dropping it is not enough"
    )]
    #[non_exhaustive]
    Busy {
        /// Token of the earlier guard.
        token: u64,
        /// How many permits of it are held.
        permits: usize,
    },
}
