//! The calls of etcd that the crate makes.

use std::sync::Arc;

use etcd_client::proto::{
    PbCompactionRequest, PbCompactionResponse, PbDeleteRequest, PbDeleteResponse, PbKvService,
    PbLeaseGrantRequest, PbLeaseGrantResponse, PbLeaseKeepAliveRequest, PbLeaseKeepAliveResponse,
    PbLeaseLeasesRequest, PbLeaseLeasesResponse, PbLeaseRevokeRequest, PbLeaseRevokeResponse,
    PbLeaseService, PbLeaseTimeToLiveRequest, PbLeaseTimeToLiveResponse, PbPutRequest,
    PbPutResponse, PbRangeRequest, PbRangeResponse, PbTxnRequest, PbTxnResponse,
};
use tokio::sync::mpsc;
use tonic::{
    Request, Response, Status, Streaming, codegen::tokio_stream::wrappers::ReceiverStream,
};

use super::State;

/// Answers of a stream that its reader has not taken.
pub(super) const QUEUE_LEN: usize = 64;

pub(super) type Answers<T> = ReceiverStream<Result<T, Status>>;

/// The services of one fake.
#[derive(Clone)]
pub(super) struct Serves(pub(super) Arc<State>);

#[tonic::async_trait]
impl PbKvService for Serves {
    async fn range(
        &self,
        request: Request<PbRangeRequest>,
    ) -> Result<Response<PbRangeResponse>, Status> {
        let asked = request.into_inner();
        Ok(Response::new(self.0.model().range(&asked)))
    }

    async fn txn(&self, request: Request<PbTxnRequest>) -> Result<Response<PbTxnResponse>, Status> {
        let asked = request.into_inner();
        let fate = {
            let mut model = self.0.model();
            let answer = model.txn(asked.clone())?;
            self.0.script.fate_of_txn(&mut model, &asked, answer)
        };
        self.0.tell();
        self.0.script.send(fate).await.map(Response::new)
    }

    type RangeStreamStream = Answers<etcd_client::proto::PbRangeStreamResponse>;

    async fn range_stream(
        &self,
        _: Request<PbRangeRequest>,
    ) -> Result<Response<Self::RangeStreamStream>, Status> {
        Err(never())
    }

    async fn put(&self, _: Request<PbPutRequest>) -> Result<Response<PbPutResponse>, Status> {
        Err(never())
    }

    async fn delete_range(
        &self,
        _: Request<PbDeleteRequest>,
    ) -> Result<Response<PbDeleteResponse>, Status> {
        Err(never())
    }

    async fn compact(
        &self,
        _: Request<PbCompactionRequest>,
    ) -> Result<Response<PbCompactionResponse>, Status> {
        Err(never())
    }
}

#[tonic::async_trait]
impl PbLeaseService for Serves {
    type LeaseKeepAliveStream = Answers<PbLeaseKeepAliveResponse>;

    async fn lease_grant(
        &self,
        request: Request<PbLeaseGrantRequest>,
    ) -> Result<Response<PbLeaseGrantResponse>, Status> {
        let asked = request.into_inner();
        let fate = {
            let mut model = self.0.model();
            model.grant(asked.id, asked.ttl)?;
            let answer = PbLeaseGrantResponse {
                header: Some(model.header()),
                id: asked.id,
                ttl: asked.ttl,
                error: String::new(),
            };
            self.0.script.fate(&self.0.script.grant, &mut model, answer)
        };
        fate.single().await.map(Response::new)
    }

    async fn lease_revoke(
        &self,
        request: Request<PbLeaseRevokeRequest>,
    ) -> Result<Response<PbLeaseRevokeResponse>, Status> {
        self.0.model().revoke(request.into_inner().id)?;
        self.0.tell();
        Ok(Response::new(PbLeaseRevokeResponse::default()))
    }

    async fn lease_keep_alive(
        &self,
        request: Request<Streaming<PbLeaseKeepAliveRequest>>,
    ) -> Result<Response<Self::LeaseKeepAliveStream>, Status> {
        let mut asked = request.into_inner();
        let (answers, stream) = mpsc::channel(QUEUE_LEN);
        let state = Arc::clone(&self.0);
        self.0.spawn(async move {
            while let Ok(Some(asked)) = asked.message().await {
                let fate = state.kept_alive(asked.id);
                let (sent, goes_on) = fate.streamed().await;
                for answer in sent {
                    if answers.send(answer).await.is_err() {
                        return;
                    }
                }
                state.tell();
                if !goes_on {
                    return;
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(stream)))
    }

    async fn lease_time_to_live(
        &self,
        request: Request<PbLeaseTimeToLiveRequest>,
    ) -> Result<Response<PbLeaseTimeToLiveResponse>, Status> {
        let id = request.into_inner().id;
        let model = self.0.model();
        let ttl = model.ttl(id);
        Ok(Response::new(PbLeaseTimeToLiveResponse {
            header: Some(model.header()),
            id,
            ttl,
            granted_ttl: ttl,
            keys: Vec::new(),
        }))
    }

    async fn lease_leases(
        &self,
        _: Request<PbLeaseLeasesRequest>,
    ) -> Result<Response<PbLeaseLeasesResponse>, Status> {
        Err(never())
    }
}

fn never() -> Status {
    Status::unimplemented("the crate makes no such call")
}
