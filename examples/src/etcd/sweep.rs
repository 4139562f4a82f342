//! The end of deltas that were never committed: each worker removes its own.
//!
//! The leader calls with its token, so that a worker's fence refuses whoever leads no
//! longer, however late the call comes. Beside the control stream, since a thousand files
//! must not stand before a barrier.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use bidi_session::WorkerId;
use fencing::Guard;
use fencing::tonic::ChannelLayer;
use fencing::tower::ClientLayer;
use tokio::task::JoinSet;
use tonic::transport::Endpoint;
use tower_layer::Layer;

use crate::roster::Roster;
use crate::store::clean::writer_of;
use crate::wire::RemoveRequest;
use crate::wire::snapshots_client::SnapshotsClient;

/// How long a connection, and a call, may take.
const LIMIT: Duration = Duration::from_secs(2);

/// Names in one call.
const MOST: usize = 1000;

/// Has each of these files removed by the worker that wrote it; those of workers that are
/// not in the roster stay. Returns how many were removed.
///
/// # Errors
///
/// The first one, once all were asked.
///
/// # Cancel safety
///
/// Cancel safe: a call under way may still be carried out.
pub(super) async fn sweep(
    guard: &Guard,
    scope: &str,
    roster: &Roster,
    names: Vec<String>,
) -> io::Result<usize> {
    let layer = ChannelLayer::new(ClientLayer::new(guard.clone()).with_scope(scope));
    let mut calls = JoinSet::new();
    for (worker, names) in by_writer(names) {
        if let Some(place) = roster.get(&worker) {
            calls.spawn(remove(layer.clone(), place.endpoint.clone(), names));
        }
    }
    let (mut removed, mut failed) = (0, None);
    while let Some(done) = calls.join_next().await {
        match done.unwrap_or_else(|error| Err(io::Error::other(error))) {
            Ok(count) => removed += count,
            Err(error) => failed = Some(error),
        }
    }
    failed.map_or(Ok(removed), Err)
}

async fn remove(layer: ChannelLayer, endpoint: Endpoint, names: Vec<String>) -> io::Result<usize> {
    let endpoint = endpoint.connect_timeout(LIMIT).timeout(LIMIT);
    let mut worker = SnapshotsClient::new(layer.layer(endpoint.connect_lazy()));
    let mut removed = 0;
    for names in names.chunks(MOST) {
        let names = names.to_vec();
        let reply = worker.remove(RemoveRequest { names }).await;
        let reply = reply.map_err(|status| io::Error::other(status.message().to_owned()))?;
        removed += usize::try_from(reply.into_inner().removed).unwrap_or(usize::MAX);
    }
    Ok(removed)
}

fn by_writer(names: Vec<String>) -> BTreeMap<WorkerId, Vec<String>> {
    let mut all: BTreeMap<WorkerId, Vec<String>> = BTreeMap::new();
    for name in names {
        if let Some(worker) = writer_of(&name) {
            all.entry(WorkerId::from(worker)).or_default().push(name);
        }
    }
    all
}
