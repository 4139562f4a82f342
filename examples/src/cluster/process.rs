//! One child process; it dies with this one.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::time::{Instant, sleep};

/// How often the end of a child is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Runs what follows, unless the parent was gone before the kernel was told to watch it.
const UNLESS_ORPHANED: &str = r#"[ "$PPID" = "$0" ] && exec "$@""#;

/// What is started, and how often it is the same.
#[derive(Clone, Debug)]
pub struct Program {
    name: String,
    path: PathBuf,
    args: Vec<OsString>,
    log: PathBuf,
}

/// A running child. Dropping it kills it; so does the end of the thread that started it,
/// however that ends.
#[derive(Debug)]
pub struct Process {
    program: Program,
    child: Child,
    ended: Option<ExitStatus>,
}

// ===== impl Program =====

impl Program {
    /// Names a program; what it prints goes to `<logs>/<name>.log`.
    #[must_use]
    pub fn new<A: Into<OsString>>(
        name: &str,
        path: &Path,
        args: impl IntoIterator<Item = A>,
        logs: &Path,
    ) -> Self {
        Self {
            name: name.to_owned(),
            path: path.to_owned(),
            args: args.into_iter().map(Into::into).collect(),
            log: logs.join(format!("{name}.log")),
        }
    }

    /// Starts it.
    ///
    /// Call it on a thread that lives as long as the child is to.
    ///
    /// # Errors
    ///
    /// With what to install, where that is it.
    pub fn start(&self) -> io::Result<Process> {
        let log = File::options().create(true).append(true).open(&self.log)?;
        // The kernel ends the child when this thread ends, even by a kill -9. A group of its
        // own: a terminal's Ctrl-C is for this process, which then ends the others in order.
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--", "sh", "-c", UNLESS_ORPHANED])
            .arg(std::process::id().to_string())
            .arg(&self.path)
            .args(&self.args)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn();
        let child = child.map_err(|error| {
            let text = format!("setpriv cannot be run ({error}): install the package util-linux");
            io::Error::new(error.kind(), text)
        })?;
        Ok(Process {
            program: self.clone(),
            child,
            ended: None,
        })
    }
}

// ===== impl Process =====

impl Process {
    /// Returns its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.program.name
    }

    /// Returns its process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns how it ended, or `None` while it runs.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().ok().flatten();
        }
        self.ended
    }

    /// Sends a signal; one that has ended gets none.
    pub fn signal(&mut self, signal: Signal) {
        if self.ended().is_none() {
            // It is this process's child and not waited for: the id is still its own.
            let _ = kill_process(Pid::from_child(&self.child), signal);
        }
    }

    /// Waits for its end, at most so long.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only looks.
    pub async fn wait(&mut self, most: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + most;
        loop {
            let ended = self.ended();
            if ended.is_some() || Instant::now() >= deadline {
                return ended;
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// Asks it to end, and kills it where it does not within `grace`.
    ///
    /// # Cancel safety
    ///
    /// Dropped, the process was asked but not killed yet.
    pub async fn stop(&mut self, grace: Duration) -> Option<ExitStatus> {
        self.signal(Signal::TERM);
        if self.wait(grace).await.is_none() {
            self.kill();
        }
        self.ended
    }

    /// Kills it as `kill -9` does, and waits for its end.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        self.ended = self.child.wait().ok().or(self.ended);
    }

    /// Kills it where it still runs, and starts the same program again.
    ///
    /// # Errors
    ///
    /// Those of [`Program::start`].
    pub fn restart(&mut self) -> io::Result<()> {
        self.kill();
        let again = self.program.start()?;
        *self = again;
        Ok(())
    }

    /// Returns the last line that it printed.
    #[must_use]
    pub fn last_words(&self) -> String {
        let log = std::fs::read(&self.program.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&log);
        let last = text.lines().rfind(|line| !line.is_empty());
        last.unwrap_or_default().to_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
