//! What each fault of etcd, its network or its disk costs: the rows of the README's table
//! that are no case from practice.

mod leader_change;
mod lost_place;
mod restarted;
mod slow_disk;
mod stuck_connection;

/// Tells that a fault was survived as the table says, with a count that proves it.
#[track_caller]
fn proven(fault: &str, count: u64) {
    assert!(count > 0, "{fault}: it has not happened");
    println!("FAULT {fault} count={count}");
}
