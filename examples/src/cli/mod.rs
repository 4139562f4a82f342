//! The command lines of the programs.

mod embedded;
#[cfg(feature = "etcd")]
mod processes;
mod values;

pub use embedded::{Args, When};
#[cfg(feature = "etcd")]
pub use processes::{
    AskArgs, ClusterArgs, ComputeArgs, LoopArgs, MetaArgs, MetaCommand, RestoreArgs, RunArgs,
    StoreArgs,
};
