//! A wall clock that jumps by an hour, forth and back.

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, SystemTime};

use fencing::{Backstop, GuardState, Watchdog, WatchdogConfig, boot_time};
use tempfile::TempDir;

use crate::{block, child};

/// Where libfaketime reads by how much the wall clock is wrong.
const STEPS: &str = "FAKETIME_TIMESTAMP_FILE";
const TTL: Duration = Duration::from_secs(3);

/// The library for programs with threads, as Debian's package has it.
fn library() -> PathBuf {
    let folders = fs::read_dir("/usr/lib").unwrap();
    folders
        .filter_map(|folder| Some(folder.ok()?.path().join("faketime/libfaketimeMT.so.1")))
        .find(|path| path.exists())
        .expect("libfaketime is missing: install the package faketime")
}

/// How far the wall clock is ahead of the boot clock, in seconds.
#[expect(clippy::disallowed_methods, reason = "the clock that jumps is wanted")]
fn offset() -> i64 {
    let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let wall = i64::try_from(wall.unwrap().as_secs()).unwrap();
    wall - i64::try_from(boot_time().as_secs()).unwrap()
}

/// Leads through all jumps, which it counts by what it sees, and then cannot renew.
pub(crate) fn lead_while_the_clock_jumps() {
    let steps = std::env::var_os(STEPS).unwrap();
    let config = WatchdogConfig::for_ttl(TTL).with_backstop(Backstop::Required);
    let watchdog = Watchdog::start(config).unwrap();
    let guard = watchdog.guard(7, boot_time() + TTL).unwrap();
    let (mut seen, mut jumps) = (offset(), 0);
    // A jump at each turn, in a soak run each 1.5 s for 45 s.
    let turns = child::rounds(1, 15);
    for turn in 0..30 * turns {
        if turn % turns == 0 {
            let is_ahead = (turn / turns).is_multiple_of(2);
            fs::write(&steps, if is_ahead { "+3600s" } else { "-3600s" }).unwrap();
        }
        let now = offset();
        jumps += i32::from((now - seen).abs() > 1_800);
        seen = now;
        // Neither a loss nor a longer life: exactly what the boot clock says.
        assert_eq!(guard.state(), GuardState::Live);
        assert!(guard.remaining() <= TTL - watchdog.reserve());
        guard.extend(boot_time() + TTL);
        thread::sleep(Duration::from_millis(100));
    }
    child::tell("jumps", &jumps.to_string());
    let deadline = boot_time() + TTL;
    guard.extend(deadline);
    child::tell_deadline(deadline);
    let _permit = guard.permit().unwrap();
    // The wall clock says that there is an hour left, or that there never was one.
    fs::write(&steps, "-3600s").unwrap();
    block()
}

/// F06: no loss by the jumps, and no life beyond the deadline.
#[test]
#[cfg_attr(fencing_portable, ignore = "there is no kernel timer")]
fn f06_jumps_of_the_wall_clock_change_nothing() {
    let folder = TempDir::new().unwrap();
    let steps = folder.path().join("steps");
    fs::write(&steps, "+0s").unwrap();
    let library = format!("LD_PRELOAD={}", library().display());
    let steps = format!("{STEPS}={}", steps.display());
    let under = [
        "env",
        &library,
        &steps,
        "FAKETIME_NO_CACHE=1",
        "FAKETIME_DONT_FAKE_MONOTONIC=1",
    ];
    let running = child::start_under(&under, "lead_while_the_clock_jumps");
    let jumps: u32 = running.told("jumps").parse().unwrap();
    let told = running.deadline();
    let ended = running.wait();
    ended.assert_fenced();
    // Not before its time either: the abort point is 200 ms before the deadline.
    assert!(ended.at > told - Duration::from_millis(200), "{ended:?}");
    println!("CASE F06 fault={jumps}");
    assert!(jumps >= 10, "{jumps}");
}
