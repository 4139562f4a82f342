//! What a leader tells: its status as text, under a key that only it may write.

use std::fmt::Write;
use std::time::Duration;

use tokio::sync::watch;

use super::keys::Keys;
use super::ledger::EtcdLedger;
use crate::status::{Phase, Status};

/// How often the status is told at the most.
const EVERY: Duration = Duration::from_millis(250);

/// Keeps telling, while this process leads; runs for ever.
///
/// # Cancel safety
///
/// Cancel safe.
pub async fn publish(ledger: &EtcdLedger, keys: &Keys, mut status: watch::Receiver<Status>) {
    let mut told = String::new();
    loop {
        let now = status.borrow_and_update().clone();
        let text = describe(&now);
        if now.phase != Phase::Electing && text != told {
            match ledger.put_as_leader(keys.status(), text.clone()).await {
                Ok(true) => told = text,
                Ok(false) => {}
                Err(error) => tracing::debug!(%error, "the status cannot be told"),
            }
        }
        tokio::time::sleep(EVERY).await;
        if status.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Returns the status, a line for each fact.
fn describe(status: &Status) -> String {
    let mut text = format!(
        "leader {} token {}\nphase {}\nepoch {}\nbytes {} of {}\n",
        status.leader,
        status.token,
        status.phase,
        status.epoch,
        status.committed_bytes,
        status.total_bytes
    );
    // Writing to a string cannot fail.
    let notes = [
        ("trouble", &status.trouble),
        ("waits", &status.waits),
        ("round", &status.round),
    ];
    for (name, note) in notes {
        if !note.is_empty() {
            let _ = writeln!(text, "{name} {}", note.escape_debug());
        }
    }
    for worker in &status.states {
        let _ = writeln!(
            text,
            "worker {} {} shards, {}",
            worker.worker,
            worker.shards,
            worker.state.escape_debug()
        );
    }
    text
}
