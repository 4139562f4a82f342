//! The last thing that any thread does, on a machine that is busy.
#![expect(unsafe_code, reason = "a thread's scheduling is set by the C library")]

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use fencing::{Backstop, Watchdog, boot_time};

use crate::{block, child, config, guard_of};

const THREADS: u64 = 16;
const NEIGHBORS: usize = 8;
/// What the kernel needs from its timer to the last instruction, at most.
const LATE: Duration = Duration::from_millis(1);
/// Rounds whose machine was taken away meanwhile prove nothing and are repeated.
const STOLEN: f64 = 0.05;
const MAX_REPEATS: usize = 300;

pub(crate) fn act_on_every_thread() {
    let has_backstop = !child::shared("no-backstop").exists();
    // The kill point follows the thread's own point by 1 ms: the kernel has to act.
    let config = config().with_abort_budget(Duration::from_millis(21));
    // Its thread is scheduled as the one that starts it.
    let start = move || {
        let backstop = if has_backstop {
            Backstop::Required
        } else {
            yield_to_everybody();
            Backstop::Off
        };
        Watchdog::start(config.with_backstop(backstop)).unwrap()
    };
    let watchdog = thread::spawn(start).join().unwrap();
    let guard = guard_of(&watchdog);
    for thread in 0..THREADS {
        let permit = guard.permit().unwrap();
        let stamps = File::options()
            .write(true)
            .open(child::shared("stamps"))
            .unwrap();
        thread::spawn(move || {
            let _permit = permit;
            loop {
                let now = u64::try_from(boot_time().as_nanos()).unwrap();
                stamps.write_all_at(&now.to_le_bytes(), 8 * thread).unwrap();
            }
        });
    }
    block()
}

/// Lets this thread, and those it starts, run only where nobody else wants to.
fn yield_to_everybody() {
    let param = libc::sched_param { sched_priority: 0 };
    // SAFETY: `param` outlives the call, which only reads it.
    let set = unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const param) };
    assert_eq!(set, 0, "{}", io::Error::last_os_error());
}

/// Processes that take the machine.
struct Neighbors(Vec<Child>);

impl Neighbors {
    fn start() -> Self {
        let spin = || {
            let mut command = Command::new("sh");
            command.args(["-c", "while :; do :; done"]);
            command.stdout(Stdio::null()).spawn().unwrap()
        };
        Self((0..NEIGHBORS).map(|_| spin()).collect())
    }
}

impl Drop for Neighbors {
    fn drop(&mut self) {
        for neighbor in &mut self.0 {
            let _ = neighbor.kill();
            let _ = neighbor.wait();
        }
    }
}

/// What a child has done that every processor was busy beside.
struct Round {
    /// How long after the kill point the last action was.
    late: Duration,
    /// The kernel has ended the process.
    is_killed: bool,
    /// How much of the machine's time its host has taken.
    stolen: f64,
}

fn last_action(has_backstop: bool) -> Round {
    for _ in 0..MAX_REPEATS {
        let before = jiffies();
        let running = child::start_alone("act_on_every_thread", |folder| {
            fs::write(folder.join("stamps"), vec![0; 8 * THREADS as usize]).unwrap();
            if !has_backstop {
                fs::write(folder.join("no-backstop"), "").unwrap();
            }
        });
        let kill_at = running.deadline() - Duration::from_millis(20);
        let (ended, stamps) = running.wait_and_read("stamps");
        if has_backstop {
            ended.assert_fenced();
        } else {
            ended.assert_fenced_at_last();
        }
        let last = stamps
            .chunks_exact(8)
            .map(|stamp| u64::from_le_bytes(stamp.try_into().unwrap()))
            .max();
        let last = Duration::from_nanos(last.unwrap());
        assert!(last > Duration::ZERO, "no thread has done anything");
        let stolen = jiffies().stolen_since(&before);
        if stolen > STOLEN {
            println!("repeated: {:.1} % of the time was stolen", 100.0 * stolen);
            continue;
        }
        return Round {
            late: last.saturating_sub(kill_at),
            is_killed: ended.is_killed(),
            stolen,
        };
    }
    panic!("more than 5 % of the machine's time was stolen in {MAX_REPEATS} rounds: try later")
}

#[test]
#[cfg_attr(fencing_portable, ignore = "there is no kernel timer")]
fn no_thread_acts_later_than_the_kernels_timer() {
    let rounds = child::rounds(20, 100);
    let _machine = child::take_machine();
    let _neighbors = Neighbors::start();
    let (mut latest, mut killed, mut stolen) = (Duration::ZERO, 0, 0.0);
    for _ in 0..rounds {
        let round = last_action(true);
        latest = latest.max(round.late);
        killed += u32::from(round.is_killed);
        stolen = round.stolen.max(stolen);
    }
    println!("at most {:.1} % of the time was stolen", 100.0 * stolen);
    println!("last action at most {latest:?} after the kill point; killed {killed} of {rounds}");
    assert!(latest < LATE, "{latest:?}");
    assert!(killed > 0, "the kernel never had to act");
}

/// Proves that the test above can fail: its thread gets what the others leave.
#[test]
#[cfg_attr(fencing_portable, ignore = "there is no kernel timer")]
fn without_the_kernel_some_thread_acts_later_than_that() {
    let _machine = child::take_machine();
    let _neighbors = Neighbors::start();
    let latest = (0..3).map(|_| last_action(false).late).max().unwrap();
    println!("last action {latest:?} after the kill point");
    assert!(latest > 5 * LATE, "{latest:?}");
}

/// What the machine's processors did so far.
struct Jiffies {
    total: u64,
    stolen: u64,
}

fn jiffies() -> Jiffies {
    let text = fs::read_to_string("/proc/stat").unwrap();
    let counts: Vec<u64> = text
        .lines()
        .next()
        .unwrap()
        .split_whitespace()
        .skip(1)
        .map(|count| count.parse().unwrap())
        .collect();
    Jiffies {
        total: counts.iter().take(8).sum(),
        stolen: counts[7],
    }
}

impl Jiffies {
    fn stolen_since(&self, before: &Self) -> f64 {
        let total = (self.total - before.total).max(1);
        (self.stolen - before.stolen) as f64 / total as f64
    }
}
