//! A service of tonic by hand, without generated code, and a way to it.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::net::TcpListener;
use tokio_stream::Stream;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::Status;
use tonic::body::Body;
use tonic::server::NamedService;
use tonic::transport::Endpoint;
use tonic_prost::ProstCodec;

pub(crate) type Codec = ProstCodec<String, String>;
pub(crate) type Strings = Pin<Box<dyn Stream<Item = Result<String, Status>> + Send>>;

/// What a service does with a request.
pub(crate) trait Answer: Clone + Send + 'static {
    fn answer(
        self,
        request: http::Request<Body>,
    ) -> impl Future<Output = http::Response<Body>> + Send;
}

/// The service `shop.Orders`, which answers so.
#[derive(Clone)]
pub(crate) struct Orders<A>(pub(crate) A);

impl<A> NamedService for Orders<A> {
    const NAME: &'static str = "shop.Orders";
}

impl<A: Answer> tower::Service<http::Request<Body>> for Orders<A> {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let answer = self.0.clone().answer(request);
        Box::pin(async { Ok(answer.await) })
    }
}

/// Listens on a free port; returns what comes, and the way there.
pub(crate) async fn listen() -> (TcpListenerStream, Endpoint) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    (TcpListenerStream::new(listener), endpoint)
}
