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

/// A single etcd; killed on drop.
pub(crate) struct Etcd {
    child: Child,
    dir: TempDir,
    port: u16,
    peer_port: u16,
    extra: Vec<String>,
}

impl Etcd {
    pub(crate) async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// Starts etcd with more flags.
    pub(crate) async fn start_with(extra: &[&str]) -> Self {
        let extra: Vec<String> = extra.iter().map(|flag| (*flag).to_owned()).collect();
        for _ in 0..TRIES {
            let dir = TempDir::new().expect("a temporary folder");
            let (port, peer_port) = (free_port(), free_port());
            let child = spawn(dir.path(), port, peer_port, &extra);
            let mut etcd = Self {
                child,
                dir,
                port,
                peer_port,
                extra: extra.clone(),
            };
            if etcd.serves().await {
                return etcd;
            }
        }
        panic!("etcd did not serve within {START:?}, {TRIES} times");
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn dir(&self) -> PathBuf {
        self.dir.path().to_owned()
    }

    pub(crate) async fn client(&self) -> Client {
        Client::connect([self.endpoint()], None)
            .await
            .expect("etcd serves")
    }

    /// Reads one of its own metrics.
    pub(crate) async fn metric(&self, name: &str) -> u64 {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).await;
        let mut stream = stream.expect("etcd serves");
        let request = "GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n";
        let written = stream.write_all(request.as_bytes()).await;
        written.expect("etcd reads");
        let mut answer = String::new();
        let read = timeout(START, stream.read_to_string(&mut answer)).await;
        read.expect("etcd answers").expect("text");
        let mut lines = answer.lines().filter_map(|line| line.split_once(' '));
        let (_, number) = lines.find(|line| line.0 == name).expect("etcd counts it");
        number.parse().expect("a number")
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

    /// Starts it again with identical flags, after [`kill`](Self::kill).
    pub(crate) async fn restart(&mut self) {
        self.kill();
        self.child = spawn(self.dir.path(), self.port, self.peer_port, &self.extra);
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
        let peer = format!("http://127.0.0.1:{}", self.peer_port);
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

    pub(crate) fn ctl_command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(binary("ETCDCTL", "etcdctl"));
        command
            .env("ETCDCTL_API", "3")
            .arg("--endpoints")
            .arg(self.endpoint())
            .args(arguments);
        command
    }

    async fn serves(&mut self) -> bool {
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

fn spawn(dir: &Path, port: u16, peer_port: u16, extra: &[String]) -> Child {
    let client = format!("http://127.0.0.1:{port}");
    let peer = format!("http://127.0.0.1:{peer_port}");
    let child = Command::new(binary("ETCD", "etcd"))
        .args(["--name", "m", "--log-level", "error"])
        .args(["--heartbeat-interval", "50", "--election-timeout", "500"])
        .arg("--data-dir")
        .arg(data(dir))
        .args(["--listen-client-urls", &client])
        .args(["--advertise-client-urls", &client])
        .args(["--listen-peer-urls", &peer])
        .args(["--initial-advertise-peer-urls", &peer])
        .args(["--initial-cluster", &format!("m={peer}")])
        .args(extra)
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
