//! The disk of etcd is slow: each write is delayed in the kernel.

use std::{
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    time::Duration,
};

use leader_election::{Loss, etcd::EtcdElection};
use tokio::{task::JoinHandle, time::sleep};

use super::{proven, renewed};
use crate::{
    boot_time, config, join, lead,
    server::{Etcd, signal},
    soon,
    together::together,
};

/// Delays every `fdatasync` of etcd until it is dropped.
struct SlowDisk {
    strace: Child,
    log: PathBuf,
}

impl SlowDisk {
    async fn start(etcd: &Etcd, delay: Duration) -> Self {
        let log = etcd.dir().join("strace");
        let inject = format!("inject=fdatasync:delay_enter={}", delay.as_micros());
        let strace = Command::new("strace")
            .args(["-f", "-e", "trace=fdatasync", "-e", &inject])
            .args(["-p", &etcd.pid().to_string(), "-o"])
            .arg(&log)
            .stderr(Stdio::null())
            .spawn();
        let strace = strace.unwrap_or_else(|error| {
            panic!("strace cannot be run ({error}): install the package strace")
        });
        let mut disk = Self { strace, log };
        let begins = async {
            while disk.delayed() == 0 {
                let ended = disk.strace.try_wait().expect("own child");
                assert!(
                    ended.is_none(),
                    "strace cannot attach: run as root, or set kernel.yama.ptrace_scope to 0"
                );
                sleep(Duration::from_millis(20)).await;
            }
        };
        soon(begins).await;
        disk
    }

    /// How many writes were delayed, as strace tells.
    fn delayed(&self) -> u64 {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        log.lines()
            .filter(|line| line.contains("(DELAYED)"))
            .count() as u64
    }
}

impl Drop for SlowDisk {
    fn drop(&mut self) {
        // Asked to end it lets go of etcd.
        signal(self.strace.id(), "TERM");
        let _ = self.strace.wait();
    }
}

/// Something to write at all times.
async fn write(etcd: &Etcd) -> JoinHandle<()> {
    let mut client = etcd.client().await;
    tokio::spawn(async move {
        loop {
            let _ = client.put("unrelated", "x", None).await;
            sleep(Duration::from_millis(20)).await;
        }
    })
}

together! {
    the_disk_is_slow:
    a_disk_faster_than_the_renew_timeout_costs_nothing,
    a_disk_slower_than_the_lease_is_an_etcd_that_is_stopped,
}

async fn a_disk_faster_than_the_renew_timeout_costs_nothing() {
    let etcd = Etcd::start().await;
    // Renewed often, so that the test need not wait long for several.
    let config = config(6).with_renew_every(Duration::from_millis(500));
    let election = EtcdElection::connect([etcd.endpoint()], "e", config).await;
    let leadership = lead(&election.unwrap(), b"a").await;
    let token = leadership.token();
    let writes = write(&etcd).await;
    let disk = SlowDisk::start(&etcd, Duration::from_millis(300)).await;
    for _ in 0..3 {
        renewed(&leadership, 6).await;
    }
    assert_eq!(leadership.token(), token);
    writes.abort();
    proven("slow disk", disk.delayed());
}

async fn a_disk_slower_than_the_lease_is_an_etcd_that_is_stopped() {
    let etcd = Etcd::start().await;
    let election = join(&etcd, 2).await;
    let leadership = lead(&election, b"a").await;
    let last = Arc::new(Mutex::new(Duration::ZERO));
    let deadline = Arc::clone(&last);
    leadership.follow(move |now| {
        let mut last = deadline.lock().unwrap();
        *last = now.max(*last);
    });
    let writes = write(&etcd).await;
    let disk = SlowDisk::start(&etcd, Duration::from_secs(4)).await;
    assert_eq!(soon(leadership.lost()).await, Loss::Expired);
    assert!(boot_time() >= *last.lock().unwrap());
    assert!(!leadership.is_valid());
    let delayed = disk.delayed();
    writes.abort();
    drop(disk);
    // It goes on, and so does the election.
    assert!(lead(&election, b"a").await.token() > leadership.token());
    proven("slower disk", delayed);
}
