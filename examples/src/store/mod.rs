//! The output folder: the plan, the fence's mark, the chain of epochs, the deltas.
//!
//! | name | what it is |
//! | --- | --- |
//! | `fence.mark` | highest token that was admitted; its lock is the run's lock |
//! | `plan` | the input, as it was when the first run began |
//! | `chain` | the committed epochs |
//! | `deltas/` | sorted counts, each file named in the chain or not yet |
//! | `counts.tsv` | the totals, once the chain has ended |

mod chain;
pub(crate) mod clean;
mod commit;
mod error;
pub(crate) mod folder;

pub use chain::{AppendError, Appended, Chain, ChainError};
pub use commit::CommitError;
pub use error::StoreError;
pub use folder::{Snapshot, Store};
