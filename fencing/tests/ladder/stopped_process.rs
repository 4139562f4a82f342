//! A process that is stopped beyond its lease.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use fencing::boot_time;

use crate::{LEAD, block, child, config, guard};

pub(crate) fn spin() {
    let (_watchdog, guard) = guard(config());
    let _permit = guard.permit().unwrap();
    block()
}

/// Check 6: the kernel ends what is stopped, without waking it.
#[test]
#[cfg_attr(fencing_portable, ignore = "there is no kernel timer")]
fn a_stopped_process_is_ended_by_the_kernel() {
    let rounds = child::rounds(4, 20);
    let mut killed = 0;
    for round in 0..rounds {
        let running = child::start("spin");
        let deadline = running.deadline();
        // At random points over the whole lease, up to its cancel point.
        let pause =
            (LEAD - Duration::from_millis(350)).mul_f64(f64::from(round) / f64::from(rounds));
        thread::sleep(pause);
        running.signal("STOP");
        let ended = running.wait();
        assert!(ended.is_killed(), "{ended:?}");
        let late = ended.at.saturating_sub(deadline);
        assert!(late < Duration::from_millis(500), "{late:?}");
        killed += 1;
    }
    // The kernel itself counts them: each status is that of signal 9.
    println!("CASE F02 fault={killed}");
}

/// A group of processes that the kernel freezes, as `docker pause` does.
struct Freezer {
    folder: PathBuf,
    /// Of the first version of groups, which does not kill what is frozen.
    is_old: bool,
}

impl Freezer {
    /// One of each version that this machine has.
    fn all() -> Vec<Self> {
        let roots = [
            ("/sys/fs/cgroup", false),
            ("/sys/fs/cgroup/unified", false),
            ("/sys/fs/cgroup/freezer", true),
        ];
        let found = roots.into_iter().filter_map(|(root, is_old)| {
            let folder = Path::new(root).join(format!("fencing-test-{}", std::process::id()));
            fs::create_dir(&folder).ok()?;
            let knob = folder.join(if is_old {
                "freezer.state"
            } else {
                "cgroup.freeze"
            });
            let freezer = Self { folder, is_old };
            knob.exists().then_some(freezer)
        });
        let found: Vec<Self> = found.collect();
        let missing = "no group of processes can be made: run it as root, with cgroups mounted";
        assert!(!found.is_empty(), "{missing}");
        found
    }

    fn freeze(&self, pid: u32) {
        fs::write(self.folder.join("cgroup.procs"), pid.to_string()).unwrap();
        let (knob, on, shown, wanted) = if self.is_old {
            ("freezer.state", "FROZEN", "freezer.state", "FROZEN")
        } else {
            ("cgroup.freeze", "1", "cgroup.events", "frozen 1")
        };
        fs::write(self.folder.join(knob), on).unwrap();
        while !fs::read_to_string(self.folder.join(shown))
            .unwrap()
            .contains(wanted)
        {
            thread::yield_now();
        }
    }

    fn thaw(&self) {
        let (knob, off) = if self.is_old {
            ("freezer.state", "THAWED")
        } else {
            ("cgroup.freeze", "0")
        };
        fs::write(self.folder.join(knob), off).unwrap();
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        // It stays while the process in it does.
        let _ = fs::remove_dir(&self.folder);
    }
}

/// F02 in a frozen group: killed while it is frozen, or when it is thawed.
#[test]
#[ignore = "makes a cgroup: run it as root where that is allowed, by `--ignored frozen`"]
fn a_frozen_process_is_ended_by_the_kernel() {
    for freezer in Freezer::all() {
        freeze_beyond_the_lease(&freezer);
    }
}

fn freeze_beyond_the_lease(freezer: &Freezer) {
    let mut running = child::start("spin");
    let deadline = running.deadline();
    freezer.freeze(running.child.id());
    thread::sleep((deadline + Duration::from_millis(100)).saturating_sub(boot_time()));
    let is_ended = running.ends_within(Duration::from_millis(500));
    assert_eq!(is_ended, !freezer.is_old);
    freezer.thaw();
    let ended = running.wait();
    assert!(ended.is_killed(), "{ended:?}");
    let version = if freezer.is_old { 1 } else { 2 };
    println!(
        "frozen by version {version}: {:?} after D",
        ended.at.saturating_sub(deadline)
    );
    println!("CASE F02 fault={}", u32::from(ended.is_killed()));
}

pub(crate) fn renew_for_ever() {
    let (_watchdog, guard) = guard(config());
    for _ in 0..2_000 {
        guard.extend(boot_time() + LEAD);
        guard.check().unwrap();
        thread::sleep(Duration::from_millis(1));
    }
}

/// Renewals race with the timer all the time: a healthy process lives.
#[test]
#[cfg_attr(fencing_portable, ignore = "there is no kernel timer")]
fn a_process_that_renews_is_never_ended() {
    let ended = child::run("renew_for_ever");
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
}
