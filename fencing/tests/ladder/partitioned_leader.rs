//! A leader that cannot reach the store of its lease any more.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::thread;
use std::time::Duration;

use fencing::{EXIT_CODE, Guard, Watchdog, WatchdogConfig, boot_time};

use crate::child;
use crate::lease_server::{LeaseServer, Lessee, Mode};

const WORKERS: u64 = 2;

/// Long leases in a soak run, as in practice.
fn ttl() -> Duration {
    Duration::from_secs(if child::is_soak() { 5 } else { 2 })
}

/// Writes for as long as it can; the first one asks the guard, the second does not.
fn work(guard: &Guard, worker: u64) {
    let stamps = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .open(child::shared("stamps"))
        .unwrap();
    loop {
        let permit = guard.permit();
        if worker == 0 && permit.is_err() {
            return;
        }
        let now = u64::try_from(boot_time().as_nanos()).unwrap();
        stamps.write_all_at(&now.to_le_bytes(), 8 * worker).unwrap();
        // Gives the other threads of two processors a turn.
        thread::sleep(Duration::from_micros(200));
    }
}

pub(crate) fn lead_under_a_lease() {
    let config = WatchdogConfig::for_ttl(ttl());
    let watchdog = Watchdog::start(config).unwrap();
    let mut lessee = Lessee::connect(&child::hear("address"), ttl() / 6);
    let deadline = lessee.renew(1).unwrap();
    let guard = watchdog.guard(1, deadline).unwrap();
    for worker in 0..WORKERS {
        let guard = guard.clone();
        thread::spawn(move || work(&guard, worker));
    }
    child::tell_deadline(deadline);
    loop {
        thread::sleep(ttl() / 3);
        // What cannot be renewed ends by itself.
        if let Ok(deadline) = lessee.renew(1) {
            guard.extend(deadline);
            child::tell_deadline(deadline);
        }
    }
}

/// Returns how many requests were swallowed, and how long after the last write of the old
/// leader the standby could start.
fn partition() -> (u64, Duration) {
    let server = LeaseServer::start(ttl());
    let mut running = child::start("lead_under_a_lease");
    running.tell("address", &server.address());
    server.wait_for(|counts| counts.renewed >= 2);
    server.set(Mode::BlackHole);
    server.wait_for_expiry();
    let is_gone = running.child.try_wait().unwrap().is_some();
    let start = boot_time();
    assert!(is_gone, "the standby starts beside the old leader");
    let stamps = fs::read(running.path("stamps")).unwrap();
    let last = stamps
        .chunks_exact(8)
        .map(|stamp| u64::from_le_bytes(stamp.try_into().unwrap()))
        .max();
    let last = Duration::from_nanos(last.expect("the leader never wrote"));
    assert!(last < start, "written {:?} after it", last - start);
    let ended = running.wait();
    let is_fenced = ended.status.code() == Some(EXIT_CODE) || ended.is_killed();
    assert!(is_fenced, "{ended:?}");
    (server.counts().swallowed, start - last)
}

/// F01: gone, and silent, before anybody else can start.
#[test]
fn f01_a_partitioned_leader_is_gone_before_the_standby_can_start() {
    let rounds = child::rounds(5, 100);
    let (mut swallowed, mut closest) = (0, Duration::MAX);
    for _ in 0..rounds.div_ceil(5) {
        thread::scope(|scope| {
            let rounds = [0; 5].map(|_| scope.spawn(partition));
            for round in rounds {
                let (lost, distance) = round.join().unwrap();
                assert!(lost > 0, "no request was swallowed");
                swallowed += lost;
                closest = closest.min(distance);
            }
        });
    }
    println!("{rounds} rounds; the last write at least {closest:?} before the standby's start");
    println!("CASE F01 fault={swallowed}");
}
