//! Hunts a guard that sleeps through its deadline with the machine (F05), or that
//! follows a clock which jumps (F06).
#![cfg(feature = "test-util")]

mod support;

use std::path::Path;
use std::pin::pin;

use fencing::GuardState;
use support::{ms, poll_once, simulated};

#[test]
fn an_hour_of_suspend_ends_the_guard_at_the_first_check() {
    let (watchdog, simulation, hand) = simulated();
    let guard = watchdog.guard(1, ms(110_000)).unwrap();
    guard.check().unwrap();
    let mut cancelled = pin!(guard.cancelled());
    assert!(poll_once(cancelled.as_mut()).is_pending());
    // One second of work, an hour with the lid closed. No timer has run yet.
    let asleep_ms = 3_600_000;
    hand.set(101_000 + asleep_ms);
    guard.check().unwrap_err();
    assert_eq!(guard.state(), GuardState::Lost);
    // The renewal that was under way answers now: it changes nothing.
    guard.extend(ms(111_000 + asleep_ms));
    guard.check().unwrap_err();
    simulation.tick();
    assert!(poll_once(cancelled).is_ready());
    // The process can lead again without help.
    let again = watchdog.guard(2, ms(111_000 + asleep_ms)).unwrap();
    again.check().unwrap();
    println!("CASE F05 fault={}", hand.now().as_millis() - 101_000);
}

#[test]
fn equal_clocks_end_nothing_early() {
    let (watchdog, simulation, hand) = simulated();
    let guard = watchdog.guard(1, ms(110_000)).unwrap();
    for now in (100_000..700_000).step_by(1_000) {
        hand.set(now);
        simulation.tick();
        guard.check().unwrap();
        guard.extend(ms(now + 10_000));
    }
    assert_eq!(simulation.actions(), []);
}

/// A jump of the wall clock cannot matter to what never reads it.
#[test]
fn no_source_file_reads_the_wall_clock() {
    fn search(folder: &Path, files: &mut usize) {
        for entry in folder.read_dir().unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                search(&path, files);
                continue;
            }
            *files += 1;
            let text = std::fs::read_to_string(&path).unwrap();
            for word in ["SystemTime", "Realtime", "UNIX_EPOCH", "tokio::time"] {
                assert!(!text.contains(word), "{} has {word}", path.display());
            }
        }
    }
    let mut files = 0;
    search(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
        &mut files,
    );
    assert!(files > 20, "only {files} files were searched");
}
