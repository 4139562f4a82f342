//! A pool and a worker that prove to each other who they are, by certificates.
//!
//! One authority signs both ends, made on the spot here and by your own means elsewhere.
//! The worker takes no connection without a certificate of that authority; the pool takes
//! no worker whose certificate is not for the host that it dials.
//!
//! TLS is `tonic`'s: its feature `tls-ring` (or `tls-aws-lc`) is needed.

use std::error::Error;
use std::time::Duration;

use bidi_session::tonic::{
    Acceptor, KEEPALIVE_INTERVAL, KEEPALIVE_TIMEOUT, Session, SessionStream, Tonic,
};
use bidi_session::{Pool, PoolConfig};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity, Server, ServerTlsConfig};
use tonic::{Request, Response, Status, Streaming};

use worker_v1::worker_client::WorkerClient;
use worker_v1::worker_server::{Worker, WorkerServer};
use worker_v1::{Command, Reply};

#[allow(
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    clippy::all,
    clippy::allow_attributes_without_reason,
    clippy::too_many_lines,
    reason = "generated"
)]
mod worker_v1 {
    include!("../tests/gen/worker.v1.rs");
}

const WAIT: Duration = Duration::from_secs(30);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    println!("{}", run().await?);
    Ok(())
}

/// Runs one round over TLS and says what came of it.
pub(crate) async fn run() -> Result<String, Box<dyn Error>> {
    let authority = Authority::new()?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    // A name that the certificate has; an IP address would need one with that address.
    let address = format!("https://localhost:{}", listener.local_addr()?.port());
    let server_tls = ServerTlsConfig::new()
        .identity(authority.issue("localhost")?)
        .client_ca_root(authority.certificate());
    let node = Node(Acceptor::new("w1", 1, 0));
    // Stops the worker when this function ends.
    let mut worker = JoinSet::new();
    worker.spawn(
        Server::builder()
            .tls_config(server_tls)?
            .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
            .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
            .add_service(WorkerServer::new(node))
            .serve_with_incoming(TcpIncoming::from(listener).with_nodelay(Some(true))),
    );

    let client_tls = ClientTlsConfig::new()
        .ca_certificate(authority.certificate())
        .identity(authority.issue("controller")?);
    let endpoint = Endpoint::from_shared(address)?.tls_config(client_tls)?;
    let connect =
        Tonic::new(
            |channel, request| async move { WorkerClient::new(channel).control(request).await },
        )
        .with_answers(|reply: &Reply| reply.epoch);
    let (pool, _events) = Pool::new(connect, PoolConfig::new(1));
    pool.insert("w1", endpoint);
    pool.ready(["w1"], WAIT).await?;
    let round = pool.inject(1, ["w1"], |_| Command {
        epoch: 1,
        body: b"hello".to_vec(),
    })?;
    let replies = round.collect(WAIT).await?;
    pool.close().await;
    let (worker, reply) = replies.first().ok_or("no reply")?;
    let body = String::from_utf8_lossy(&reply.body);
    Ok(format!(
        "{worker} answered over TLS, both ends certified: {body}"
    ))
}

/// Signs the certificates of both ends.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new() -> Result<Self, rcgen::Error> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate()?;
        Ok(Self(CertifiedIssuer::self_signed(params, key)?))
    }

    pub(crate) fn certificate(&self) -> Certificate {
        Certificate::from_pem(self.0.pem())
    }

    /// Issues a certificate for a name.
    pub(crate) fn issue(&self, name: &str) -> Result<Identity, rcgen::Error> {
        self.sign(CertificateParams::new([name.to_owned()])?)
    }

    pub(crate) fn sign(&self, params: CertificateParams) -> Result<Identity, rcgen::Error> {
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.0)?;
        Ok(Identity::from_pem(certificate.pem(), key.serialize_pem()))
    }
}

/// A worker that answers each command with its body.
struct Node(Acceptor);

#[tonic::async_trait]
impl Worker for Node {
    type ControlStream = SessionStream<Reply>;

    async fn control(
        &self,
        request: Request<Streaming<Command>>,
    ) -> Result<Response<Self::ControlStream>, Status> {
        self.0.serve(request, answer).await
    }

    async fn apply(&self, _: Request<Command>) -> Result<Response<Reply>, Status> {
        Err(Status::unimplemented("streams only"))
    }
}

async fn answer(mut session: Session<Command, Reply>) {
    while let Some(Command { epoch, body }) = session.recv().await {
        let epoch = Some(epoch);
        if session.send(Reply { epoch, body }).await.is_err() {
            break;
        }
    }
}
