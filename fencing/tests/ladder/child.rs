//! Children that end in other ways than tests do.

use std::fs;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread;
use std::time::Duration;

use fencing::boot_time;
use tempfile::TempDir;

/// Longer than any child may live on a loaded machine.
const LIMIT: Duration = Duration::from_secs(60);

const SCENARIO: &str = "LADDER_SCENARIO";
const FOLDER: &str = "LADDER_FOLDER";

/// Held by tests that take the whole machine; the others share it.
static MACHINE: RwLock<()> = RwLock::new(());

/// A child that runs, and the folder that it shares with its parent.
pub(crate) struct Running {
    pub(crate) child: Child,
    folder: TempDir,
    _machine: Option<RwLockReadGuard<'static, ()>>,
}

/// How a child has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    /// Reading of the boot clock when the parent knew.
    pub(crate) at: Duration,
    /// What the child has told, if it did.
    pub(crate) deadline: Option<Duration>,
    pub(crate) stderr: String,
}

// ===== The child's side =====

pub(crate) fn scenario() -> String {
    std::env::var(SCENARIO).expect("a parent started this")
}

/// A file that the parent reads.
pub(crate) fn shared(name: &str) -> PathBuf {
    let folder = std::env::var_os(FOLDER).expect("a parent started this");
    PathBuf::from(folder).join(name)
}

pub(crate) fn tell_deadline(deadline: Duration) {
    tell("deadline", &deadline.as_nanos().to_string());
}

pub(crate) fn tell(name: &str, text: &str) {
    write_at_once(&shared(name), text);
}

/// Waits until the parent has told something.
pub(crate) fn hear(name: &str) -> String {
    read_when_there(&shared(name))
}

/// Runs long versions of the tests, for a machine that has the time.
pub(crate) fn is_soak() -> bool {
    std::env::var_os("SOAK").is_some()
}

pub(crate) fn rounds(few: u32, many: u32) -> u32 {
    if is_soak() { many } else { few }
}

// ===== The parent's side =====

/// Runs a child to its end.
pub(crate) fn run(scenario: &str) -> Ended {
    start(scenario).wait()
}

pub(crate) fn start(scenario: &str) -> Running {
    start_under(&[], scenario)
}

/// Takes the machine for children that are started by [`start_alone`].
pub(crate) fn take_machine() -> RwLockWriteGuard<'static, ()> {
    MACHINE.write().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a child whose folder is prepared before, under [`take_machine`].
pub(crate) fn start_alone(scenario: &str, prepare: impl FnOnce(&Path)) -> Running {
    let folder = TempDir::new().unwrap();
    prepare(folder.path());
    start_in(folder, &[], scenario)
}

/// Starts a child by another program, such as `prlimit`.
pub(crate) fn start_under(program: &[&str], scenario: &str) -> Running {
    let machine = MACHINE.read().unwrap_or_else(PoisonError::into_inner);
    let mut running = start_in(TempDir::new().unwrap(), program, scenario);
    running._machine = Some(machine);
    running
}

fn start_in(folder: TempDir, program: &[&str], scenario: &str) -> Running {
    let this = std::env::current_exe().unwrap();
    let mut command = match program {
        [] => Command::new(this),
        [name, arguments @ ..] => {
            let mut command = Command::new(name);
            command.args(arguments).arg(this);
            command
        }
    };
    let child = command
        .args(["child", "--exact", "--ignored", "--nocapture"])
        .env(SCENARIO, scenario)
        .env(FOLDER, folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let child = child.unwrap_or_else(|error| panic!("cannot run {program:?}: {error}"));
    Running {
        child,
        folder,
        _machine: None,
    }
}

impl Running {
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Waits until the child has told something.
    pub(crate) fn told(&self, name: &str) -> String {
        read_when_there(&self.path(name))
    }

    pub(crate) fn tell(&self, name: &str, text: &str) {
        write_at_once(&self.path(name), text);
    }

    pub(crate) fn deadline(&self) -> Duration {
        Duration::from_nanos(self.told("deadline").parse().unwrap())
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let status = Command::new("kill")
            .args([format!("-{name}"), pid])
            .status();
        assert!(status.unwrap().success());
    }

    /// Waits for the end and reads a file of the child's.
    pub(crate) fn wait_and_read(mut self, name: &str) -> (Ended, Vec<u8>) {
        let ended = self.end();
        (ended, fs::read(self.path(name)).unwrap())
    }

    /// Waits for the end; a child that does not end is killed, and the test fails.
    pub(crate) fn wait(mut self) -> Ended {
        self.end()
    }

    fn end(&mut self) -> Ended {
        let (status, at) = self.status().unwrap_or_else(|| {
            let _ = self.child.kill();
            let _ = self.child.wait();
            panic!("the child has not ended")
        });
        let mut stderr = String::new();
        if let Some(mut pipe) = self.child.stderr.take() {
            pipe.read_to_string(&mut stderr).unwrap();
        }
        let deadline = fs::read_to_string(self.path("deadline")).ok();
        let deadline = deadline.map(|text| Duration::from_nanos(text.parse().unwrap()));
        Ended {
            status,
            at,
            deadline,
            stderr,
        }
    }

    /// Waits for the end for a while.
    pub(crate) fn ends_within(&mut self, limit: Duration) -> bool {
        let until = boot_time() + limit;
        while boot_time() < until {
            if self.child.try_wait().unwrap().is_some() {
                return true;
            }
            thread::sleep(Duration::from_millis(1));
        }
        false
    }

    fn status(&mut self) -> Option<(ExitStatus, Duration)> {
        let until = boot_time() + LIMIT;
        while boot_time() < until {
            if let Some(status) = self.child.try_wait().unwrap() {
                return Some((status, boot_time()));
            }
            thread::sleep(Duration::from_micros(200));
        }
        None
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ended {
    /// Ended by the watchdog's thread or, on a loaded machine, by the kernel's timer.
    #[track_caller]
    pub(crate) fn assert_fenced(&self) {
        self.assert_fenced_at_last();
        let deadline = self.deadline.expect("the child told its deadline");
        // The parent learns of it somewhat later.
        assert!(self.at < deadline + SEEN_LATE, "{self:?}");
    }

    /// The same, however late: without the kernel's timer a thread is as late as it is.
    #[track_caller]
    pub(crate) fn assert_fenced_at_last(&self) {
        let is_fenced = self.status.code() == Some(fencing::EXIT_CODE) || self.is_killed();
        assert!(is_fenced, "{self:?}");
    }

    /// Ended by the kernel's timer.
    pub(crate) fn is_killed(&self) -> bool {
        self.status.signal() == Some(9)
    }
}

/// How much later than a process's end its parent may see it, on a busy machine.
const SEEN_LATE: Duration = Duration::from_millis(500);

/// Nobody reads half of it.
fn write_at_once(path: &Path, text: &str) {
    let draft = path.with_extension("draft");
    fs::write(&draft, text).unwrap();
    fs::rename(draft, path).unwrap();
}

fn read_when_there(path: &Path) -> String {
    let until = boot_time() + LIMIT;
    loop {
        if let Ok(text) = fs::read_to_string(path) {
            return text;
        }
        assert!(boot_time() < until, "nobody ever told {}", path.display());
        thread::sleep(Duration::from_millis(1));
    }
}
