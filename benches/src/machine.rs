//! What the measurements run on: CPUs, runtimes, memory, limits.

use std::fs;
use std::time::Duration;

use rustix::process::{Resource, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use tokio::runtime::{Builder, Runtime};

/// Which runtime both sides run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavor {
    /// One thread.
    Current,
    /// Two threads.
    Multi,
}

/// The CPUs that a thread could run on before it was pinned.
#[derive(Debug)]
pub struct Affinity {
    cpus: CpuSet,
}

// ===== impl Flavor =====

impl Flavor {
    /// Makes a runtime.
    ///
    /// # Panics
    ///
    /// Where the system refuses its threads or descriptors.
    #[must_use]
    pub fn runtime(self) -> Runtime {
        let mut builder = match self {
            Self::Current => Builder::new_current_thread(),
            Self::Multi => {
                let mut builder = Builder::new_multi_thread();
                builder.worker_threads(2);
                builder
            }
        };
        builder.enable_all().build().expect("a runtime can be made")
    }
}

/// Keeps this thread, and what it starts from here on, on one CPU.
///
/// One message in flight between two CPUs of a virtual machine measures how long a halted
/// CPU takes to wake up, which is one of two figures by chance.
///
/// # Panics
///
/// Where the system refuses that.
#[must_use = "the way back"]
pub fn pin() -> Affinity {
    let cpus = sched_getaffinity(None).expect("the CPUs of a thread can be read");
    let last = (0..CpuSet::MAX_CPU).rev().find(|cpu| cpus.is_set(*cpu));
    let mut one = CpuSet::new();
    one.set(last.expect("a thread has a CPU"));
    sched_setaffinity(None, &one).expect("a thread can stay on one of its CPUs");
    Affinity { cpus }
}

/// Takes a pinning back for this thread.
///
/// # Panics
///
/// Where the system refuses that.
pub fn unpin(before: &Affinity) {
    sched_setaffinity(None, &before.cpus).expect("a thread can go back to its CPUs");
}

/// Raises the number of open files to the most that is allowed.
pub fn raise_file_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // What is allowed at present may do as well.
    let _ = setrlimit(Resource::Nofile, limit);
}

/// Returns the memory of this process that is resident and its own, without the program
/// itself and without the kernel's buffers.
///
/// # Panics
///
/// Where the system does not tell.
#[must_use]
pub fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux tells of a process");
    let kib = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"))
        .and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.expect("Linux tells RssAnon in KiB") * 1024
}

/// Returns the CPU time of this process, all threads.
#[must_use]
pub fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// Returns the CPU time of another process, in steps of the system's tick.
pub(crate) fn cpu_time_of(process: u32) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name, in parentheses, may hold anything; user and system time are the 12th and
    // 13th field after it.
    let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
    let [user, system] = [fields.get(11)?, fields.get(12)?].map(|field| field.parse::<u64>().ok());
    let ticks = user? + system?;
    let tick = 1e6 / rustix::param::clock_ticks_per_second() as f64;
    Some(Duration::from_micros((ticks as f64 * tick) as u64))
}

/// Returns how many CPUs this process may use.
fn cpu_count() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Returns the name of the CPU.
fn cpu_model() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find(|line| line.starts_with("model name"));
    let model = model.and_then(|line| line.split(": ").nth(1));
    model.unwrap_or("unknown").to_owned()
}

/// Returns the kernel's name and version.
fn kernel() -> String {
    let uname = rustix::system::uname();
    let (name, release) = (uname.sysname(), uname.release());
    format!("{} {}", name.to_string_lossy(), release.to_string_lossy())
}

/// Prints what was measured on, and the head of the table of ratios.
pub fn print_head(pairs: usize) {
    println!(
        "{} CPUs ({}), {}; load before {}; {pairs} pairs\n",
        cpu_count(),
        cpu_model(),
        kernel(),
        load(),
    );
    println!("| case | figure | medians | ratio: median (lowest .. highest) |");
    println!("| --- | --- | --- | --- |");
}

/// Returns the load averages of the last 1, 5 and 15 minutes.
#[must_use]
pub fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let fields: Vec<&str> = text.split_whitespace().take(3).collect();
    fields.join(" ")
}
