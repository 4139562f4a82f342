//! The command lines of the programs.

#[cfg(feature = "etcd")]
mod chaos;
mod embedded;
mod lease;
#[cfg(feature = "etcd")]
mod processes;
mod values;

#[cfg(feature = "etcd")]
pub use chaos::ChaosArgs;
pub use embedded::{Args, When};
pub use lease::LeaseArgs;
#[cfg(feature = "etcd")]
pub use processes::{
    AskArgs, ClusterArgs, ComputeArgs, LoopArgs, MetaArgs, MetaCommand, RestoreArgs, RunArgs,
    StoreArgs,
};
