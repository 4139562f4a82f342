//! The loop as processes on a real etcd, each file hunting one kind of failure.
//!
//! What is checked is read from etcd's history, the files and the kernel.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod frozen_leader;
mod killed_process;
mod late_worker;
mod lost_request;
mod older_etcd;
mod orphaned_child;
#[path = "../own_hosts/mod.rs"]
mod own_hosts;
#[path = "../proxy/mod.rs"]
mod proxy;
mod rebuilt_etcd;
mod removed_worker;
mod replaced_worker;
mod support;
mod vanished_host;
