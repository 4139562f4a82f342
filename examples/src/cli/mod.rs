//! The command lines of the programs.

mod embedded;
mod lease;
#[cfg(feature = "etcd")]
mod processes;
mod values;

pub use embedded::{Args, When};
pub use lease::LeaseArgs;
#[cfg(feature = "etcd")]
pub use processes::{
    AskArgs, ClusterArgs, ComputeArgs, LoopArgs, MetaArgs, MetaCommand, RestoreArgs, RunArgs,
    StoreArgs,
};
