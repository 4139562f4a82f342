//! Workers on loopback, each with a runtime of its own: one that is dropped is dead as
//! a process would be, with its sockets.

use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bidi_session::tonic::{
    Acceptor, KEEPALIVE_INTERVAL, KEEPALIVE_TIMEOUT, Session, SessionStream,
};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;
use tonic::transport::server::{Connected, TcpConnectInfo};
use tonic::{Request, Response, Status, Streaming};

use super::worker_v1::worker_server::{Worker, WorkerServer};
use super::{Command, Gauge, Inside, Reply};

/// A server and its runtime; dropping it kills both.
pub(crate) struct Host {
    pub(crate) address: SocketAddr,
    runtime: Option<Runtime>,
    /// Open connections.
    pub(crate) connections: Gauge,
}

/// A worker behind an acceptor.
pub(crate) struct Accepting {
    pub(crate) acceptor: Acceptor,
    script: Arc<Script>,
}

type Script = dyn Fn(Session<Command, Reply>) -> BoxFuture<'static, ()> + Send + Sync;

/// A server that does what it likes with a stream.
pub(crate) struct Raw(pub(crate) Box<RawScript>);

type RawScript = dyn Fn(Request<Streaming<Command>>) -> BoxFuture<'static, RawAnswer> + Send + Sync;

pub(crate) type Replies = BoxStream<'static, Result<Reply, Status>>;

type RawAnswer = Result<Response<Replies>, Status>;

/// A socket that is counted while it is open.
struct Counted {
    io: TcpStream,
    _open: Inside,
}

// ===== impl Host =====

impl Host {
    pub(crate) fn start(service: impl Worker) -> Self {
        Self::start_on(StdListener::bind("127.0.0.1:0").unwrap(), service)
    }

    pub(crate) fn start_on(listener: StdListener, service: impl Worker) -> Self {
        let server = Server::builder()
            .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
            .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT));
        Self::run(listener, server, service)
    }

    /// Starts a server that does not ping.
    pub(crate) fn start_silent(listener: StdListener, service: impl Worker) -> Self {
        Self::run(listener, Server::builder(), service)
    }

    fn run(listener: StdListener, mut server: Server, service: impl Worker) -> Self {
        let address = listener.local_addr().unwrap();
        listener.set_nonblocking(true).unwrap();
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let connections = Gauge::new();
        let open = connections.clone();
        runtime.spawn(async move {
            let listener = TcpListener::from_std(listener).unwrap();
            let incoming = TcpListenerStream::new(listener).map(move |accepted| {
                let io = accepted?;
                io.set_nodelay(true)?;
                let _open = open.enter();
                io::Result::Ok(Counted { io, _open })
            });
            server
                .add_service(WorkerServer::new(service))
                .serve_with_incoming(incoming)
                .await
        });
        Self {
            address,
            runtime: Some(runtime),
            connections,
        }
    }

    /// Starts a worker that answers each command.
    pub(crate) fn echo(worker: &str, incarnation: u64) -> Self {
        Self::start(Accepting::new(Acceptor::new(worker, incarnation, 0), echo))
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let runtime = self.runtime.take();
        // On a thread of its own, so that the port is free afterwards.
        let dying = std::thread::spawn(move || drop(runtime));
        dying.join().unwrap();
    }
}

/// Returns a port on which nobody listens yet, and nobody else can.
pub(crate) fn reserve() -> (SocketAddr, tokio::net::TcpSocket) {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    (socket.local_addr().unwrap(), socket)
}

// ===== impl Accepting =====

impl Accepting {
    pub(crate) fn new<F, Fut>(acceptor: Acceptor, script: F) -> Self
    where
        F: Fn(Session<Command, Reply>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        Self {
            acceptor,
            script: Arc::new(move |session| Box::pin(script(session))),
        }
    }
}

/// Answers each command with its epoch and body.
pub(crate) async fn echo(mut session: Session<Command, Reply>) {
    while let Some(command) = session.recv().await {
        let reply = Reply {
            epoch: (command.epoch > 0).then_some(command.epoch),
            body: command.body,
        };
        if session.send(reply).await.is_err() {
            break;
        }
    }
}

#[tonic::async_trait]
impl Worker for Accepting {
    type ControlStream = SessionStream<Reply>;

    async fn control(
        &self,
        request: Request<Streaming<Command>>,
    ) -> Result<Response<Self::ControlStream>, Status> {
        let script = self.script.clone();
        self.acceptor
            .serve(request, move |session| script(session))
            .await
    }

    async fn apply(&self, _: Request<Command>) -> Result<Response<Reply>, Status> {
        Err(Status::unimplemented("not tested here"))
    }
}

// ===== impl Raw =====

impl Raw {
    pub(crate) fn new<F, Fut>(script: F) -> Self
    where
        F: Fn(Request<Streaming<Command>>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = RawAnswer> + Send + 'static,
    {
        Self(Box::new(move |request| Box::pin(script(request))))
    }
}

#[tonic::async_trait]
impl Worker for Raw {
    type ControlStream = Replies;

    async fn control(&self, request: Request<Streaming<Command>>) -> RawAnswer {
        (self.0)(request).await
    }

    async fn apply(&self, _: Request<Command>) -> Result<Response<Reply>, Status> {
        Err(Status::unimplemented("not tested here"))
    }
}

// ===== impl Counted =====

impl Connected for Counted {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        self.io.connect_info()
    }
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
