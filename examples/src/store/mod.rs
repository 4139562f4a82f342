//! The output folder: the plan, the fence's mark, the chain of epochs, the deltas.
//!
//! | name | what it is |
//! | --- | --- |
//! | `fence.mark` | highest token that was admitted; its lock is the run's lock |
//! | `plan` | the input, as it was when the first run began |
//! | `chain` | the committed epochs |
//! | `deltas/` | sorted counts, each file named in the chain or not yet |
//! | `counts.tsv` | the totals, once the chain has ended |
//!
//! Where several processes share the folder, the chain lies elsewhere, the input comes
//! in `parts/`, each worker has a mark of its own in `fences/`, and `backup/` holds what
//! the chain was when it was committed last.

mod backup;
mod chain;
pub(crate) mod clean;
mod commit;
mod error;
mod folder;
mod ledger;
pub(crate) mod output;

pub use backup::{Backup, Pen, Reign, Saved};
pub use chain::{AppendError, Appended, Chain, ChainError};
pub use clean::Leftovers;
pub use commit::CommitError;
pub use error::StoreError;
pub use folder::{Snapshot, Store};
pub use ledger::Ledger;
pub use output::Output;
