//! The etcd that is measured: a process on free ports, in a temporary folder.

use std::{
    net::TcpListener,
    process::{Child, Command, Stdio},
    time::Duration,
};

use etcd_client::Client;
use tempfile::TempDir;
use tokio::time::{sleep, timeout};

/// How long a start may take, and how often one is tried: another process can take a port
/// that was free.
const START: Duration = Duration::from_secs(20);
const TRIES: usize = 5;

/// A process that is killed when this is dropped.
#[derive(Debug)]
pub struct Etcd {
    child: Child,
    port: u16,
    _dir: TempDir,
}

// ===== impl Etcd =====

impl Etcd {
    /// Starts etcd, and waits until it serves. Its path is that of `ETCD`, if set.
    ///
    /// # Panics
    ///
    /// Where it cannot be run or does not serve.
    pub async fn start() -> Self {
        for _ in 0..TRIES {
            let mut etcd = Self::spawn();
            if etcd.serves().await {
                return etcd;
            }
        }
        panic!("etcd did not serve within {START:?}, {TRIES} times");
    }

    /// Returns its address.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Connects by etcd's client.
    ///
    /// # Panics
    ///
    /// Where it does not serve.
    pub async fn client(&self) -> Client {
        let client = Client::connect([self.endpoint()], None).await;
        client.expect("etcd serves")
    }

    fn spawn() -> Self {
        let dir = TempDir::new().expect("a temporary folder");
        let (port, peer_port) = (free_port(), free_port());
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let program = std::env::var_os("ETCD").unwrap_or_else(|| "etcd".into());
        let child = Command::new(program)
            .args(["--name", "m", "--log-level", "error"])
            .arg("--data-dir")
            .arg(dir.path().join("data"))
            .args(["--listen-client-urls", &url(port)])
            .args(["--advertise-client-urls", &url(port)])
            .args(["--listen-peer-urls", &url(peer_port)])
            .args(["--initial-advertise-peer-urls", &url(peer_port)])
            .args(["--initial-cluster", &format!("m={}", url(peer_port))])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let child = child.unwrap_or_else(|error| {
            panic!("etcd cannot be run ({error}): install etcd-server, or set ETCD to its path")
        });
        Self {
            child,
            port,
            _dir: dir,
        }
    }

    async fn serves(&mut self) -> bool {
        let served = timeout(START, async {
            loop {
                if self.child.try_wait().expect("an own child").is_some() {
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
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("it is bound").port()
}
