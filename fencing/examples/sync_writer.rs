//! A writer without an async runtime: leads under a lease, writes, gives the lease back.
//!
//! The lease is a stand-in that is renewed twice and then not any more; yours comes from
//! etcd, an SQL row or a Kubernetes `Lease`. Run it with `cargo run -p fencing --example
//! sync_writer`.

use std::error::Error;
use std::fs::OpenOptions;
use std::io::Write;
use std::thread;
use std::time::Duration;

use fencing::{Fence, Guard, Watchdog, WatchdogConfig, boot_time, deadline};

const TTL: Duration = Duration::from_secs(2);
const TOKEN: u64 = 7;

/// Asks the store for the lease, or to renew it: `false` when it does not answer.
fn ask_store(times: u32) -> bool {
    times < 3
}

/// Renews until the store is lost or the work is over.
fn renew(guard: &Guard) {
    let mut times = 1;
    while guard.check().is_ok() {
        thread::sleep(TTL / 3);
        // Read before the request leaves.
        let sent = boot_time();
        if ask_store(times) {
            guard.extend(deadline(sent, TTL));
        }
        times += 1;
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let orders = folder.path().join("orders");

    // Before competing for the lease.
    let watchdog = Watchdog::start(WatchdogConfig::for_ttl(TTL))?;
    println!(
        "what ends this process at the latest: {:?}",
        watchdog.grade()
    );
    let sent = boot_time();
    assert!(ask_store(0));
    let guard = watchdog.guard(TOKEN, deadline(sent, TTL))?;

    // At the resource, which may be another process: nobody with a lower token gets in.
    let fence = Fence::open(folder.path().join("orders.mark"))?;
    let mut file = OpenOptions::new().create(true).append(true).open(&orders)?;
    let mut written = 0;
    thread::scope(|scope| {
        scope.spawn(|| renew(&guard));
        // Refused from the cancel point on: the store has not answered for too long.
        while let Ok(permit) = guard.permit() {
            let admission = fence.admit_blocking(TOKEN)?;
            writeln!(file, "order {written}")?;
            drop((admission, permit));
            written += 1;
            thread::sleep(Duration::from_millis(10));
        }
        // Nothing is written any more. Without this the process would end at the abort
        // point, so it comes before the wait for the other thread.
        guard.finish_blocking();
        Ok::<(), Box<dyn Error>>(())
    })?;
    println!("{written} orders written, and then: {:?}", guard.state());
    Ok(())
}
