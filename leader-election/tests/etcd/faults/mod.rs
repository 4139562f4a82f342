//! What each fault of etcd, its network or its disk costs: the rows of the README's table
//! that are no case from practice.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod leader_change;
mod lost_place;
mod refused_user;
mod restarted;
mod slow_disk;
mod stuck_connection;
mod switched_auth;

use std::time::Duration;

use leader_election::Leadership;
use tokio::time::sleep;

use crate::{boot_time, soon};

/// Tells that a fault was survived as the table says, with a count that proves it.
#[track_caller]
fn proven(fault: &str, count: u64) {
    assert!(count > 0, "{fault}: it has not happened");
    println!("FAULT {fault} count={count}");
}

/// Waits until a renewal of a lease of `ttl` is confirmed that was sent from now on.
pub(crate) async fn renewed(leadership: &Leadership, ttl: u64) {
    let begun = boot_time() + Duration::from_secs(ttl).mul_f64(0.999);
    let renewed = async {
        while leadership.deadline() <= begun {
            assert!(leadership.is_valid());
            sleep(Duration::from_millis(5)).await;
        }
    };
    soon(renewed).await;
}
