//! Two halves of one defense against a holder that does not know it lost its lease.
//!
//! *Self-fencing* bounds the damage in time: a [`Watchdog`] with its own thread
//! makes a [`Guard`], which refuses and cancels work before the lease can end.
//! *Resource fencing* makes the damage zero: a [`Fence`] at the resource refuses
//! every effect whose [`Token`] is not the highest seen.
//!
//! The README says what each half does and does not guarantee. The page
//! [`guide`](mod@guide) has concepts, recipes, pitfalls, how to test your own code, and what
//! drop does.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(missing_docs, clippy::exhaustive_enums, clippy::exhaustive_structs)]

#[cfg(any(doc, doctest))]
#[doc = include_str!("../docs/guide.md")]
pub mod guide {}

mod alarm;
mod backstop;
mod blocking;
mod clock;
mod config;
mod end;
mod fence;
mod guard;
mod signal;
mod token;
#[cfg(feature = "tonic")]
#[cfg_attr(docsrs, doc(cfg(feature = "tonic")))]
pub mod tonic;
#[cfg(feature = "tower")]
#[cfg_attr(docsrs, doc(cfg(feature = "tower")))]
pub mod tower;
mod watchdog;

pub use backstop::Grade;
pub use clock::boot_time;
pub use config::{Backstop, ConfigError, EXIT_CODE, Policy, WatchdogConfig, deadline};
pub use fence::{
    Admission, AdmitError, Fence, OpenError, ResetError, StaleToken, StorageError, WrongScope,
};
pub use guard::{Guard, GuardState, Permit, Refused, Stopped};
pub use token::{InvalidToken, Token};
#[cfg(any(test, feature = "test-util"))]
pub use watchdog::{Action, Simulation};
pub use watchdog::{GuardError, StartError, Watchdog};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
