//! A real etcd.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use etcd_client::Client;
use tempfile::TempDir;
use tokio::time::{sleep, timeout};

use super::free_port;

const START: Duration = Duration::from_secs(20);
/// Another process can take a port that was free.
const TRIES: usize = 5;

/// An etcd of one member; killed on drop.
pub(crate) struct Etcd {
    child: Child,
    folder: TempDir,
    pub(crate) port: u16,
    peer_port: u16,
}

// ===== impl Etcd =====

impl Etcd {
    pub(crate) async fn start() -> Self {
        for _ in 0..TRIES {
            let folder = TempDir::new().unwrap();
            let (port, peer_port) = (free_port(), free_port());
            let mut etcd = Self {
                child: spawn(folder.path(), port, peer_port),
                folder,
                port,
                peer_port,
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

    pub(crate) async fn client(&self) -> Client {
        let client = Box::pin(Client::connect([self.endpoint()], None));
        client.await.expect("etcd serves")
    }

    /// Kills it as `kill -9` does, and starts it again; returns the signal's number.
    pub(crate) async fn crash(&mut self) -> Option<i32> {
        let signal = self.kill();
        self.restart().await;
        signal
    }

    /// Starts it again with identical flags and no data.
    pub(crate) async fn wipe(&mut self) {
        self.kill();
        std::fs::remove_dir_all(self.folder.path().join("data")).unwrap();
        self.restart().await;
    }

    pub(crate) fn save(&self, snapshot: &Path) {
        self.ctl(&["snapshot", "save", snapshot.to_str().unwrap()]);
    }

    /// Starts it again with identical flags and the data of a snapshot.
    pub(crate) async fn restore(&mut self, snapshot: &Path) {
        self.kill();
        let data = self.folder.path().join("data");
        std::fs::remove_dir_all(&data).unwrap();
        let peer = format!("http://127.0.0.1:{}", self.peer_port);
        let cluster = format!("m={peer}");
        let [snapshot, data] = [snapshot, &data].map(|path| path.to_str().unwrap());
        self.ctl(&[
            "snapshot",
            "restore",
            snapshot,
            "--data-dir",
            data,
            "--name",
            "m",
            "--initial-cluster",
            &cluster,
            "--initial-advertise-peer-urls",
            &peer,
        ]);
        self.restart().await;
    }

    fn ctl(&self, arguments: &[&str]) {
        let output = Command::new("etcdctl")
            .env("ETCDCTL_API", "3")
            .args(["--endpoints", &self.endpoint()])
            .args(arguments)
            .output()
            .expect("etcdctl cannot be run: install the package etcd-client");
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    }

    fn kill(&mut self) -> Option<i32> {
        let _ = self.child.kill();
        self.child.wait().unwrap().signal()
    }

    async fn restart(&mut self) {
        self.child = spawn(self.folder.path(), self.port, self.peer_port);
        assert!(self.serves().await, "etcd did not come back");
    }

    async fn serves(&mut self) -> bool {
        let served = timeout(START, async {
            while self.child.try_wait().unwrap().is_none() {
                // A get is served only once there is a leader.
                let asked = async {
                    let mut client = Client::connect([self.endpoint()], None).await?;
                    client.get("x", None).await
                };
                let asked = timeout(Duration::from_secs(1), Box::pin(asked));
                if matches!(asked.await, Ok(Ok(_))) {
                    return true;
                }
                sleep(Duration::from_millis(20)).await;
            }
            false
        });
        served.await.unwrap_or(false)
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.kill();
    }
}

fn spawn(folder: &Path, port: u16, peer_port: u16) -> Child {
    let url = |port: u16| format!("http://127.0.0.1:{port}");
    Command::new("etcd")
        .args(["--name", "m", "--log-level", "error"])
        .args(["--heartbeat-interval", "50", "--election-timeout", "500"])
        .arg("--data-dir")
        .arg(folder.join("data"))
        .args(["--listen-client-urls", &url(port)])
        .args(["--advertise-client-urls", &url(port)])
        .args(["--listen-peer-urls", &url(peer_port)])
        .args(["--initial-advertise-peer-urls", &url(peer_port)])
        .args(["--initial-cluster", &format!("m={}", url(peer_port))])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("etcd cannot be run: install the package etcd-server")
}
