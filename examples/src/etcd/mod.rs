//! The loop as processes that share an etcd and an output folder.
//!
//! | what | file | key below `<name>/` |
//! | --- | --- | --- |
//! | how calls reach etcd | `link` | |
//! | the chain of epochs, committed by whoever leads | `ledger` | `head`, `chain/<term>-<n>` |
//! | a worker keeps itself registered | `registration` | `workers/<id>` |
//! | a leader looks at workers and requests | `board` | `workers/`, `requests/` |
//! | a user asks for something and waits for the answer | `errand` | `requests/<id>`, `answers/<id>` |
//! | a leader tells what it does | `bulletin` | `status` |
//! | who leads | `queue` | `leader/` |
//! | a leader has workers remove what was never committed | `sweep` | |
//! | after etcd was rebuilt, the chain comes back | `restore` | `head`, `chain/` |
//! | what happened, from etcd's own history | `history` | all of them |
//!
//! The election is `<name>/leader`.

mod board;
mod bulletin;
mod errand;
mod history;
mod keys;
mod ledger;
mod link;
mod queue;
mod registration;
mod restore;
mod sweep;

pub use board::Board;
pub use bulletin::{publish, told};
pub use errand::{Errand, Failed};
pub use history::{Commit, History};
pub use keys::Keys;
pub use ledger::EtcdLedger;
pub use link::{Link, Unreachable};
pub use queue::first_candidate;
pub use registration::{Ended, Registration};
pub use restore::restore;
