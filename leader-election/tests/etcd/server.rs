//! A real etcd, started by the test on free ports and in a folder of its own.

use std::{
    io,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::Duration,
};

use etcd_client::Client;
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{sleep, timeout},
};

/// How long etcd may take to serve.
const START: Duration = Duration::from_secs(20);
/// How often a start is tried: another process can take a port that was free.
const TRIES: usize = 5;

/// An etcd, alone or one of several; killed on drop.
pub(crate) struct Etcd {
    child: Child,
    dir: TempDir,
    flags: Flags,
}

/// With what an etcd is started, each time.
#[derive(Clone)]
pub(crate) struct Flags {
    pub(crate) name: String,
    pub(crate) port: u16,
    pub(crate) peer_port: u16,
    /// Where the others reach it.
    pub(crate) advertised_peer_port: u16,
    /// All members, as `--initial-cluster` wants it.
    pub(crate) members: String,
    /// How clients reach it, `http` or `https`.
    pub(crate) scheme: &'static str,
    pub(crate) extra: Vec<String>,
}

impl Etcd {
    pub(crate) async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// Starts etcd with more flags.
    pub(crate) async fn start_with(extra: &[&str]) -> Self {
        for _ in 0..TRIES {
            let (port, peer_port) = (free_port(), free_port());
            let mut etcd = Self::spawn(Flags {
                name: "m".to_owned(),
                port,
                peer_port,
                advertised_peer_port: peer_port,
                members: format!("m=http://127.0.0.1:{peer_port}"),
                scheme: "http",
                extra: extra.iter().map(|flag| (*flag).to_owned()).collect(),
            });
            if etcd.serves().await {
                return etcd;
            }
        }
        panic!("etcd did not serve within {START:?}, {TRIES} times");
    }

    /// Starts a process that does not serve yet.
    pub(crate) fn spawn(flags: Flags) -> Self {
        let dir = TempDir::new().expect("a temporary folder");
        let child = spawn(dir.path(), &flags);
        Self { child, dir, flags }
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.flags.port)
    }

    pub(crate) fn port(&self) -> u16 {
        self.flags.port
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn dir(&self) -> PathBuf {
        self.dir.path().to_owned()
    }

    pub(crate) async fn client(&self) -> Client {
        Client::connect([self.endpoint()], None)
            .await
            .expect("etcd serves")
    }

    /// Kills it as `kill -9` does; its data stays.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub(crate) fn stop(&self) {
        signal(self.child.id(), "STOP");
    }

    pub(crate) fn go_on(&self) {
        signal(self.child.id(), "CONT");
    }

    /// Reads from the kernel how many of its threads are stopped.
    pub(crate) fn stopped_threads(&self) -> u64 {
        stopped_threads(self.child.id())
    }

    /// Starts it again with identical flags, after [`kill`](Self::kill).
    pub(crate) async fn restart(&mut self) {
        self.kill();
        self.child = spawn(self.dir.path(), &self.flags);
        assert!(self.serves().await, "etcd did not come back");
    }

    /// Starts it again with identical flags and no data.
    pub(crate) async fn restart_empty(&mut self) {
        self.kill();
        std::fs::remove_dir_all(data(self.dir.path())).expect("the data of etcd");
        self.restart().await;
    }

    /// Starts it again with identical flags and the data of a snapshot that
    /// `etcdctl snapshot save` made.
    pub(crate) async fn restore(&mut self, snapshot: &Path) {
        self.kill();
        let data = data(self.dir.path());
        std::fs::remove_dir_all(&data).expect("the data of etcd");
        let peer = format!("http://127.0.0.1:{}", self.flags.peer_port);
        let cluster = format!("m={peer}");
        let paths = [snapshot, &data].map(|path| path.to_str().expect("text"));
        self.ctl(&[
            "snapshot",
            "restore",
            paths[0],
            "--data-dir",
            paths[1],
            "--name",
            "m",
            "--initial-cluster",
            &cluster,
            "--initial-advertise-peer-urls",
            &peer,
        ]);
        self.restart().await;
    }

    /// Runs the packaged `etcdctl` against it.
    pub(crate) fn ctl(&self, arguments: &[&str]) -> Output {
        let output = self.ctl_command(arguments).output();
        let output = output.unwrap_or_else(|error| missing("etcdctl", "etcd-client", &error));
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        output
    }

    /// Sums what etcd counts under the names that contain all of these.
    pub(crate) async fn metric(&self, parts: &[&str]) -> u64 {
        let mut stream = TcpStream::connect(("127.0.0.1", self.flags.port))
            .await
            .expect("etcd listens");
        let request = b"GET /metrics HTTP/1.0\r\n\r\n";
        stream.write_all(request).await.expect("etcd reads");
        let mut text = String::new();
        stream.read_to_string(&mut text).await.expect("etcd writes");
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let wanted = lines.filter(|line| parts.iter().all(|part| line.contains(part)));
        let counts = wanted.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        counts.sum::<f64>() as u64
    }

    pub(crate) fn ctl_command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(binary("ETCDCTL", "etcdctl"));
        command
            .env("ETCDCTL_API", "3")
            .arg("--endpoints")
            .arg(self.endpoint())
            .args(arguments);
        command
    }

    /// Waits until it serves; false where it does not, or has ended.
    pub(crate) async fn serves(&mut self) -> bool {
        let served = timeout(START, async {
            loop {
                if self.child.try_wait().expect("own child").is_some() {
                    return false;
                }
                // A get is served only once there is a leader.
                let asked = async {
                    let mut client = Client::connect([self.endpoint()], None).await?;
                    client.get("x", None).await
                };
                if matches!(timeout(Duration::from_secs(1), asked).await, Ok(Ok(_))) {
                    return true;
                }
                sleep(Duration::from_millis(20)).await;
            }
        });
        served.await.unwrap_or(false)
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.kill();
    }
}

fn spawn(dir: &Path, flags: &Flags) -> Child {
    let url = |port: u16| format!("http://127.0.0.1:{port}");
    let clients = format!("{}://127.0.0.1:{}", flags.scheme, flags.port);
    let child = Command::new(binary("ETCD", "etcd"))
        .args(["--name", &flags.name, "--log-level", "error"])
        .args(["--heartbeat-interval", "50", "--election-timeout", "500"])
        .arg("--data-dir")
        .arg(data(dir))
        .args(["--listen-client-urls", &clients])
        .args(["--advertise-client-urls", &clients])
        .args(["--listen-peer-urls", &url(flags.peer_port)])
        .arg("--initial-advertise-peer-urls")
        .arg(url(flags.advertised_peer_port))
        .args(["--initial-cluster", &flags.members])
        .args(&flags.extra)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    child.unwrap_or_else(|error| missing("etcd", "etcd-server", &error))
}

/// A binary's path; a variable such as `ETCD` names another one.
fn binary(variable: &str, name: &str) -> PathBuf {
    std::env::var_os(variable).map_or_else(|| name.into(), PathBuf::from)
}

fn data(dir: &Path) -> PathBuf {
    dir.join("data")
}

fn missing(name: &str, package: &str, error: &io::Error) -> ! {
    panic!(
        "{name} cannot be run ({error}): install the package {package}, or set {} to its path",
        name.to_uppercase()
    )
}

pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("bound").port()
}

pub(crate) fn signal(pid: u32, name: &str) {
    let status = Command::new("kill")
        .args([format!("-{name}"), pid.to_string()])
        .status();
    assert!(status.expect("kill runs").success());
}

/// Reads from the kernel how many threads of a process are stopped.
pub(crate) fn stopped_threads(pid: u32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("the process runs");
    let states = tasks.filter_map(|task| {
        let stat = std::fs::read_to_string(task.ok()?.path().join("stat")).ok()?;
        // The name, which may hold anything, ends with the last parenthesis.
        Some(stat.rsplit(") ").next()?.starts_with('T'))
    });
    states.filter(|is_stopped| *is_stopped).count() as u64
}
