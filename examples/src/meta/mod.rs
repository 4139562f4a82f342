//! The control plane: one candidate of the election, and the loop that it runs while it leads.
//!
//! | step | file |
//! | --- | --- |
//! | waits for leadership, guards it, gives it back | `candidate` |
//! | opens a reign: admits the token, opens the pool, runs the rounds | `lead` |
//! | goes back to the last committed epoch and hands out the shards | `recover`, `assign` |
//! | waits until a barrier is due and sends it to every worker | `inject` |
//! | waits for all answers, or names who failed | `collect` |
//! | takes what users ask for into a commit | `additions` |
//! | makes the epoch durable under the guard and the token | `commit` |

mod additions;
mod assign;
mod candidate;
mod collect;
mod commit;
mod inject;
mod lead;
mod recover;

pub use candidate::{Candidate, Ended, Hooks, NoHooks, Settings};
pub use commit::{Holder, Refused, commit};
