//! The service by which a leader has files removed: each call under its token's admission.

use std::path::PathBuf;
use std::sync::Arc;

use fencing::tower::{Server, ServerLayer};
use fencing::{Admission, Fence};
use tonic::{Request, Response, Status};
use tower_layer::Layer;

use crate::store::clean::{remove, writer_of};
use crate::wire::snapshots_server::{Snapshots, SnapshotsServer};
use crate::wire::{RemoveReply, RemoveRequest};

/// The delta files of one worker.
#[derive(Clone, Debug)]
pub(super) struct Files {
    worker: Arc<str>,
    deltas: PathBuf,
}

/// The service, behind the worker's fence.
pub(super) type Fenced = Server<SnapshotsServer<Files>>;

// ===== impl Files =====

impl Files {
    pub(super) fn new(worker: &str, deltas: PathBuf) -> Self {
        Self {
            worker: worker.into(),
            deltas,
        }
    }

    /// Puts `fence` before it: the one that admits the worker's commands too.
    pub(super) fn behind(self, fence: Fence) -> Fenced {
        ServerLayer::new(fence).layer(SnapshotsServer::new(self))
    }
}

#[tonic::async_trait]
impl Snapshots for Files {
    async fn remove(
        &self,
        request: Request<RemoveRequest>,
    ) -> Result<Response<RemoveReply>, Status> {
        let admission = request.extensions().get::<Arc<Admission>>().cloned();
        let names = request.into_inner().names;
        let own = |name: &&String| writer_of(name) == Some(&*self.worker) && !name.contains('/');
        if let Some(other) = names.iter().find(|name| !own(name)) {
            let text = format!("{other:?} is no snapshot of {}", self.worker);
            return Err(Status::invalid_argument(text));
        }
        let deltas = self.deltas.clone();
        let removed = tokio::task::spawn_blocking(move || {
            let removed = remove(&deltas, &names);
            // Held until the files are gone: a dropped call does not stop this thread.
            drop(admission);
            removed
        });
        let removed = removed
            .await
            .map_err(|error| Status::internal(error.to_string()))?;
        let removed = removed.map_err(|error| Status::unavailable(error.to_string()))?;
        let removed = removed as u64;
        Ok(Response::new(RemoveReply { removed }))
    }
}
