//! A real PostgreSQL.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use tokio::time::{sleep, timeout};
use tokio_postgres::{Config, NoTls};

use super::free_port;

const START: Duration = Duration::from_secs(30);
const NO_ROOT: &str = "nobody";

/// A PostgreSQL; killed on drop.
pub(crate) struct Postgres {
    child: Child,
    folder: TempDir,
    pub(crate) port: u16,
}

// ===== impl Postgres =====

impl Postgres {
    pub(crate) async fn start() -> Self {
        let folder = TempDir::new().unwrap();
        give_away(folder.path());
        // The page cache survives the end of a process, which is all that is done to it.
        let made = unprivileged("initdb")
            .args(["--auth=trust", "--username=postgres", "--encoding=UTF8"])
            .args(["--no-locale", "--no-sync", "--pgdata"])
            .arg(folder.path().join("data"))
            .output()
            .expect("setpriv runs");
        assert!(made.status.success(), "{made:?}");
        let port = free_port();
        let child = spawn(folder.path(), port);
        let mut postgres = Self {
            child,
            folder,
            port,
        };
        postgres.serves().await;
        postgres
    }

    pub(crate) fn config(port: u16) -> Config {
        let mut config = Config::new();
        config.host("127.0.0.1").port(port).user("postgres");
        config
    }

    /// Kills it as `kill -9` does, and starts it again; returns the signal's number.
    pub(crate) async fn crash(&mut self) -> Option<i32> {
        let _ = self.child.kill();
        let signal = self.child.wait().unwrap().signal();
        self.child = spawn(self.folder.path(), self.port);
        self.serves().await;
        signal
    }

    async fn serves(&mut self) {
        let served = timeout(START, async {
            loop {
                // What is left of the one before may keep the folder for a moment, and
                // another process can take a port that was free.
                if self.child.try_wait().unwrap().is_some() {
                    self.child = spawn(self.folder.path(), self.port);
                }
                let asked = async {
                    let (client, connection) = Self::config(self.port).connect(NoTls).await?;
                    tokio::select! {
                        answer = client.simple_query("SELECT 1") => answer.map(drop),
                        ended = connection => ended,
                    }
                };
                if matches!(timeout(Duration::from_secs(1), asked).await, Ok(Ok(()))) {
                    return;
                }
                sleep(Duration::from_millis(30)).await;
            }
        });
        assert!(
            served.await.is_ok(),
            "PostgreSQL did not serve within {START:?}"
        );
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // Its own children end when they see that it is gone.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(folder: &Path, port: u16) -> Child {
    let folder = folder.join("data");
    unprivileged("postgres")
        .arg("-D")
        .arg(&folder)
        .args(["-p", &port.to_string(), "-c", "listen_addresses=127.0.0.1"])
        .args(["-c", "unix_socket_directories=", "-c", "fsync=off"])
        .args(["-c", "shared_buffers=16MB", "-c", "max_connections=200"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("setpriv runs")
}

/// PostgreSQL does not run as root.
fn unprivileged(name: &str) -> Command {
    let program = find(name);
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid", NO_ROOT, "--regid", "nogroup", "--clear-groups"])
        .arg(program);
    command
}

fn give_away(folder: &Path) {
    if is_root() {
        let status = Command::new("chown").arg(NO_ROOT).arg(folder).status();
        assert!(status.expect("chown runs").success());
    }
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output().expect("id runs");
    id.stdout.trim_ascii() == b"0"
}

/// Debian keeps the programs of a server beside the path.
fn find(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).collect::<Vec<_>>();
    let versions = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten();
    let debian = versions.filter_map(|version| Some(version.ok()?.path().join("bin")));
    let mut programs = folders
        .into_iter()
        .chain(debian)
        .map(|folder| folder.join(name));
    programs
        .find(|program| program.exists())
        .unwrap_or_else(|| panic!("{name} cannot be run: install the package postgresql"))
}
