//! What a worker serves: the same work behind a hand-written stream and an acceptor.

use bidi_session::tonic::{Acceptor, Session, SessionStream};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use crate::fleet::{OUTBOX_LEN, obey};
use crate::wire::worker_server::Worker;
use crate::wire::{Command, Reply};

/// A worker without the crate.
#[derive(Debug)]
pub(super) struct Plain;

/// A worker behind an acceptor.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) acceptor: Acceptor,
}

// ===== impl Plain =====

#[tonic::async_trait]
impl Worker for Plain {
    type ControlStream = ReceiverStream<Result<Reply, Status>>;

    async fn control(
        &self,
        request: Request<Streaming<Command>>,
    ) -> Result<Response<Self::ControlStream>, Status> {
        let mut commands = request.into_inner();
        let (queue, replies) = mpsc::channel(OUTBOX_LEN);
        // Ends with its stream.
        tokio::spawn(async move {
            let mut counted = 0;
            while let Ok(Some(command)) = commands.message().await {
                if let Some(reply) = obey(command, &mut counted)
                    && queue.send(Ok(reply)).await.is_err()
                {
                    return;
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(replies)))
    }

    async fn apply(&self, request: Request<Command>) -> Result<Response<Reply>, Status> {
        let reply = obey(request.into_inner(), &mut 0);
        Ok(Response::new(reply.unwrap_or_default()))
    }
}

// ===== impl Node =====

#[tonic::async_trait]
impl Worker for Node {
    type ControlStream = SessionStream<Reply>;

    async fn control(
        &self,
        request: Request<Streaming<Command>>,
    ) -> Result<Response<Self::ControlStream>, Status> {
        self.acceptor.serve(request, work).await
    }

    async fn apply(&self, _: Request<Command>) -> Result<Response<Reply>, Status> {
        Err(Status::unimplemented("streams only"))
    }
}

async fn work(mut session: Session<Command, Reply>) {
    let mut counted = 0;
    while let Some(command) = session.recv().await {
        if let Some(reply) = obey(command, &mut counted)
            && session.send(reply).await.is_err()
        {
            return;
        }
    }
}
