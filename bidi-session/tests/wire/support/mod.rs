//! What the tests share: a pool over gRPC, and texts of its events.

mod gauge;
mod host;
mod proxy;

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use bidi_session::tonic::Tonic;
use bidi_session::{EventKind, PoolConfig};
use tonic::transport::Endpoint;

pub(crate) use gauge::{Gauge, Inside};
pub(crate) use host::{Accepting, Host, Raw, Replies, echo, reserve};
pub(crate) use proxy::Proxy;
use worker_v1::worker_client::WorkerClient;
pub(crate) use worker_v1::{Command, Reply};

#[allow(
    unreachable_pub,
    unused_qualifications,
    missing_docs,
    clippy::allow_attributes_without_reason,
    clippy::too_many_lines,
    reason = "generated code"
)]
pub(crate) mod worker_v1 {
    include!("../../gen/worker.v1.rs");
}

pub(crate) type Wire = Tonic<Command, Reply>;
pub(crate) type Pool = bidi_session::Pool<Wire>;
pub(crate) type Events = bidi_session::Events<Wire>;

/// Far above what any step takes; a test that waits so long fails.
pub(crate) const LONG: Duration = Duration::from_secs(30);

pub(crate) fn connector() -> Wire {
    Tonic::new(|channel, request| async move { WorkerClient::new(channel).control(request).await })
        .with_answers(|reply: &Reply| reply.epoch)
}

pub(crate) fn pool(term: u64) -> (Pool, Events) {
    Pool::new(connector(), PoolConfig::new(term))
}

pub(crate) fn endpoint(address: SocketAddr) -> Endpoint {
    Endpoint::from_shared(format!("http://{address}")).unwrap()
}

pub(crate) fn barrier(epoch: u64) -> Command {
    Command {
        epoch,
        body: Vec::new(),
    }
}

pub(crate) fn note(body: impl Into<Vec<u8>>) -> Command {
    Command {
        epoch: 0,
        body: body.into(),
    }
}

/// A message of a worker that answers no round.
pub(crate) fn told(body: impl Into<Vec<u8>>) -> Reply {
    Reply {
        epoch: None,
        body: body.into(),
    }
}

pub(crate) fn answer(epoch: u64) -> Reply {
    Reply {
        epoch: Some(epoch),
        body: Vec::new(),
    }
}

/// Waits for what must come.
pub(crate) async fn soon<F: Future>(what: F) -> F::Output {
    let in_time = tokio::time::timeout(LONG, what).await;
    in_time.expect("it never came")
}

/// Waits for the next event and returns it in short.
pub(crate) async fn next(events: &mut Events) -> String {
    let Some(event) = soon(events.recv()).await else {
        return "end".to_owned();
    };
    let worker = &event.worker;
    match event.kind {
        EventKind::AttemptFailed { error, .. } => format!("{worker} failed: {error}"),
        EventKind::Connected { incarnation, .. } => {
            format!("{worker} connected to {}", incarnation.unwrap())
        }
        EventKind::Message(reply) => {
            format!("{worker} said {}", String::from_utf8_lossy(&reply.body))
        }
        EventKind::Disconnected { reason } => format!("{worker} lost: {reason}"),
        EventKind::HigherTerm { term } => format!("{worker} saw term {term}"),
        EventKind::Removed => format!("{worker} removed"),
        other => format!("{worker}: {other:?}"),
    }
}

/// Waits for an event that starts so, and returns it; nothing else may come before it
/// but failed attempts.
pub(crate) async fn after_failures(events: &mut Events, start: &str) -> String {
    loop {
        let event = next(events).await;
        if event.starts_with(start) {
            return event;
        }
        assert!(event.contains(" failed: "), "{event} before {start}");
    }
}
