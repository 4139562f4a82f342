//! A leader under Kubernetes: readiness, SIGTERM, exit codes.
//!
//! `cargo run -p examples --bin graceful-shutdown -- /tmp/ready`, then `kill -TERM` it.
//!
//! | what happens | exit code |
//! | --- | --- |
//! | SIGTERM or Ctrl-C: the work stops, the lease is given back, the next one leads at once | 0 |
//! | the lease is lost and the work stops in time | none: it campaigns again |
//! | the lease is lost and the work does not stop | 75 by the watchdog, 137 by the kernel |
//! | it cannot start | 2, with one line that says why |
//!
//! ```yaml
//! terminationGracePeriodSeconds: 30   # above "told to stop" of lease-calculator
//! containers:
//!   - command: [graceful-shutdown, /tmp/ready]
//!     readinessProbe: { exec: { command: [test, -f, /tmp/ready] } }
//! ```
//!
//! Ready is who takes part, not who leads: with a probe for leading, a rolling update would
//! wait for a new leader, and the new leader for the old one to go. A liveness probe asks
//! neither: a standby is healthy, and who cannot stop is ended by the watchdog.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use examples::process::code::DONE;
use examples::process::{cancel_on_signal, complain, exit};
use fencing::{Guard, Watchdog, WatchdogConfig};
use leader_election::{Election, ElectionConfig, MemoryElection};
use tokio_util::sync::CancellationToken;

const PROGRAM: &str = "graceful-shutdown";

#[tokio::main]
async fn main() -> ExitCode {
    let Some(path) = std::env::args_os().nth(1) else {
        return exit(complain(
            PROGRAM,
            "name the file that says that it is ready",
        ));
    };
    match serve(Path::new(&path)).await {
        Ok(()) => exit(DONE),
        Err(error) => exit(complain(PROGRAM, &error.to_string())),
    }
}

async fn serve(path: &Path) -> Result<(), Box<dyn Error>> {
    // First of all: a SIGTERM while it starts counts.
    let stop = CancellationToken::new();
    let mut signals = tokio::task::JoinSet::new();
    signals.spawn(cancel_on_signal(stop.clone()));
    let mut stopped = pin!(stop.cancelled());

    let watchdog = Watchdog::start(WatchdogConfig::default())?;
    let config = ElectionConfig::default().with_reserve(watchdog.reserve());
    let election = MemoryElection::new(config, 1); // EtcdElection::connect(..) in earnest
    let mut ready = Some(Ready::announce(path)?);
    loop {
        let leadership = tokio::select! {
            won = election.campaign(b"pod-1") => won?,
            () = &mut stopped => break,
        };
        let guard = watchdog.guard(leadership.token(), leadership.deadline())?;
        let renewed = guard.clone();
        leadership.follow(move |deadline| renewed.extend(deadline));
        println!("leads with token {}", leadership.token());
        let is_over = tokio::select! {
            _ = guard.run(work(&guard)) => false,
            () = &mut stopped => true,
        };
        if is_over {
            // Before the work is waited for, so that nothing new is sent here meanwhile.
            ready = None;
            println!("is no longer ready");
        }
        guard.finish().await; // what has begun ends, at the abort point at the latest
        println!("the lease is {}", leadership.resign().await);
        if is_over {
            break;
        }
    }
    drop(ready);
    Ok(())
}

/// The work of a leader, in pieces that each ask first.
async fn work(guard: &Guard) {
    while let Ok(permit) = guard.permit() {
        tokio::time::sleep(Duration::from_millis(20)).await;
        drop(permit);
    }
}

/// The file that the readiness probe looks for.
struct Ready(PathBuf);

impl Ready {
    fn announce(path: &Path) -> Result<Self, String> {
        let written = std::fs::write(path, "ready\n");
        written.map_err(|error| {
            format!(
                "{}: {error}; name a file that can be written",
                path.display()
            )
        })?;
        Ok(Self(path.to_owned()))
    }
}

impl Drop for Ready {
    fn drop(&mut self) {
        // A file that is gone already is as good.
        let _ = std::fs::remove_file(&self.0);
    }
}
