//! An etcd of its own, in a folder of its own and on free ports.

use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::process::{Process, Program};
use crate::etcd::Link;

/// How long it may take to serve.
const START: Duration = Duration::from_secs(20);

/// How often a start is tried: another process can take a port that was free.
const TRIES: u32 = 5;

/// An etcd that ends with this process.
#[derive(Debug)]
pub struct EtcdServer {
    process: Process,
    endpoint: String,
}

// ===== impl EtcdServer =====

impl EtcdServer {
    /// Starts it on the data in `folder`, if there is some, and waits until it serves.
    ///
    /// # Errors
    ///
    /// With what to install, or what it says.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future kills it.
    pub async fn start(folder: &Path, logs: &Path) -> io::Result<Self> {
        let program = std::env::var_os("ETCD").map_or_else(|| "etcd".into(), PathBuf::from);
        let mut last_words = String::new();
        for _ in 0..TRIES {
            let (port, peer_port) = (free_port()?, free_port()?);
            let args = flags(folder, port, peer_port);
            let program = Program::new("etcd", &program, args, logs);
            let mut etcd = Self {
                process: program.start()?,
                endpoint: format!("http://127.0.0.1:{port}"),
            };
            if etcd.serves().await {
                return Ok(etcd);
            }
            last_words = etcd.process.last_words();
        }
        let text = format!(
            "etcd does not start (is the package etcd-server installed? ETCD may name its \
             path): {last_words}"
        );
        Err(io::Error::other(text))
    }

    /// Returns where it serves.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Returns its process.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Kills it and starts it again on the same data, with identical flags.
    ///
    /// # Errors
    ///
    /// Those of the start.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it runs and may not serve yet.
    pub async fn restart(&mut self) -> io::Result<()> {
        self.process.restart()?;
        if self.serves().await {
            return Ok(());
        }
        let text = format!("etcd did not come back: {}", self.process.last_words());
        Err(io::Error::other(text))
    }

    /// Waits until it serves; false where it has ended, or takes too long.
    async fn serves(&mut self) -> bool {
        let deadline = Instant::now() + START;
        let link = Link::new(std::slice::from_ref(&self.endpoint));
        while Instant::now() < deadline && self.process.ended().is_none() {
            // Served only once it has a leader.
            let read = link.call(|mut client| async move { client.get("x", None).await });
            if read.await.is_ok() {
                return true;
            }
            sleep(Duration::from_millis(20)).await;
        }
        false
    }
}

fn flags(folder: &Path, port: u16, peer_port: u16) -> Vec<String> {
    let (client, peer) = (
        format!("http://127.0.0.1:{port}"),
        format!("http://127.0.0.1:{peer_port}"),
    );
    let data = folder.display().to_string();
    let members = format!("m={peer}");
    let flags = [
        ("--name", "m"),
        ("--log-level", "error"),
        ("--heartbeat-interval", "50"),
        ("--election-timeout", "500"),
        ("--data-dir", &data),
        ("--listen-client-urls", &client),
        ("--advertise-client-urls", &client),
        ("--listen-peer-urls", &peer),
        ("--initial-advertise-peer-urls", &peer),
        ("--initial-cluster", &members),
    ];
    let flags = flags.iter().flat_map(|(flag, value)| [*flag, *value]);
    flags.map(str::to_owned).collect()
}

fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
