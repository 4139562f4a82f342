//! The command lines of the programs.

#[cfg(feature = "etcd")]
mod chaos;
mod embedded;
#[cfg(feature = "etcd")]
mod processes;
mod values;

#[cfg(feature = "etcd")]
pub use chaos::ChaosArgs;
pub use embedded::{Args, When};
#[cfg(feature = "etcd")]
pub use processes::{
    AskArgs, ClusterArgs, ComputeArgs, LoopArgs, MetaArgs, MetaCommand, RunArgs, StoreArgs,
};
