//! What a leader tells: its status as text, under a key that only it may write.

use std::fmt::Write;
use std::time::Duration;

use etcd_client::{Txn, TxnOp};
use prost::Message;
use tokio::sync::watch;

use super::keys::Keys;
use super::ledger::EtcdLedger;
use super::link::{Link, Unreachable, reads};
use super::queue::oldest;
use crate::status::{Phase, Status};
use crate::wire::Manifest;

/// How often the status is told at the most.
const EVERY: Duration = Duration::from_millis(250);

const ENDED: &str = "the chain has ended, everything is counted; its last leader said:\n";

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

/// Returns what the leader told last; where it leads no more, a first line says so.
///
/// # Errors
///
/// [`Unreachable`].
///
/// # Cancel safety
///
/// Cancel safe: it only reads.
pub async fn told(link: &Link, keys: &Keys) -> Result<String, Unreachable> {
    let read = link.txn(Txn::new().and_then([
        TxnOp::get(keys.status(), None),
        TxnOp::get(keys.head(), None),
        TxnOp::get(keys.election() + "/", Some(oldest())),
    ]));
    let read = read.await?;
    let found: Vec<_> = reads(&read).map(|mut read| read.take_kvs().pop()).collect();
    let [status, head, leader] = found.as_slice() else {
        return Ok("etcd's answer lacks a part: ask again".to_owned());
    };
    let Some(status) = status else {
        return Ok("nobody has led yet\n".to_owned());
    };
    let text = String::from_utf8_lossy(status.value());
    let head = head.as_ref().map(|kv| Manifest::decode(kv.value()));
    let first = match leader.as_ref().map(|kv| kv.create_revision()) {
        _ if matches!(head, Some(Ok(head)) if head.last) => ENDED.to_owned(),
        None => "nobody leads now; the last leader said:\n".to_owned(),
        Some(token) if !is_of(&text, token) => {
            format!("token {token} leads now; the leader before said:\n")
        }
        Some(_) => String::new(),
    };
    Ok(first + &text)
}

/// Says whether the leader with this token has written the status.
fn is_of(text: &str, token: i64) -> bool {
    let first = text.lines().next().unwrap_or_default();
    first.rsplit(' ').next() == Some(token.to_string().as_str())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_told_from_that_of_another_leader() {
        let status = Status {
            leader: "meta 1".to_owned(),
            token: 17,
            ..Status::default()
        };
        let text = describe(&status);
        assert!(is_of(&text, 17), "{text}");
        assert!(!is_of(&text, 7) && !is_of("", 17));
    }
}
