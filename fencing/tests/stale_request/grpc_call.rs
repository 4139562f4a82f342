//! Hunts a gRPC call that slips past the fence, with a client and a server of tonic on a
//! real connection.

use std::future::{self, Ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use fencing::tonic::{ChannelLayer, FencedChannel, rejection};
use fencing::tower::{CallError, ClientLayer, Reason, ServerLayer};
use fencing::{Admission, Fence, Guard, Policy, Watchdog, WatchdogConfig, boot_time};
use http::uri::PathAndQuery;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_stream::{StreamExt, pending};
use tonic::body::Body;
use tonic::client::Grpc;
use tonic::transport::{Channel, Server};
use tonic::{Code, Request, Response, Status, Streaming};
use tower::service_fn;
use tower_layer::Layer;

use crate::orders::{Answer, Codec, Orders, Strings, listen};
use crate::support::LIMIT;

/// A service with one call and two streams, which counts what reaches it.
#[derive(Clone, Default)]
struct Counted {
    reached: Arc<AtomicUsize>,
}

impl Answer for Counted {
    async fn answer(self, request: http::Request<Body>) -> http::Response<Body> {
        self.reached.fetch_add(1, Ordering::SeqCst);
        let stream: Strings = match request.uri().path() {
            "/shop.Orders/Put" => return put(request).await,
            // First one message, then none.
            "/shop.Orders/Watch" => Box::pin(tokio_stream::once(Ok("one".into())).chain(pending())),
            // More than any window holds.
            _ => Box::pin(tokio_stream::iter(std::iter::repeat_with(|| {
                Ok("x".repeat(10_000))
            }))),
        };
        let mut stream = Some(stream);
        let watch = service_fn(move |_: Request<String>| {
            future::ready(Ok::<_, Status>(Response::new(stream.take().unwrap())))
        });
        let mut server = tonic::server::Grpc::new(Codec::default());
        server.server_streaming(watch, request).await
    }
}

async fn put(request: http::Request<Body>) -> http::Response<Body> {
    let put = service_fn(|request: Request<String>| -> Ready<Result<_, Status>> {
        let admission = request.extensions().get::<Arc<Admission>>();
        let token = admission.map_or(0, |admission| admission.token().number());
        future::ready(Ok(Response::new(format!(
            "{} under {token}",
            request.get_ref()
        ))))
    });
    tonic::server::Grpc::new(Codec::default())
        .unary(put, request)
        .await
}

/// A server on a free port, stopped with the test.
struct World {
    fence: Fence,
    reached: Arc<AtomicUsize>,
    channel: Channel,
    server: JoinHandle<()>,
}

impl Drop for World {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl World {
    async fn new() -> Self {
        let (fence, orders) = (Fence::new(), Counted::default());
        let reached = Arc::clone(&orders.reached);
        let (incoming, endpoint) = listen().await;
        let fenced = ServerLayer::new(fence.clone()).layer(Orders(orders));
        let serving = Server::builder()
            .add_service(fenced)
            .serve_with_incoming(incoming);
        let server = tokio::spawn(async { serving.await.unwrap() });
        let channel = endpoint.connect().await.unwrap();
        Self {
            fence,
            reached,
            channel,
            server,
        }
    }

    fn client(&self, layer: ClientLayer) -> Grpc<FencedChannel<Channel>> {
        Grpc::new(ChannelLayer::new(layer).layer(self.channel.clone()))
    }
}

/// A guard that lives for long, with the watchdog that it needs.
fn guard(token: u64) -> (Watchdog, Guard) {
    let config = WatchdogConfig::default().with_policy(Policy::CancelOnly);
    let watchdog = Watchdog::start(config).unwrap();
    let guard = watchdog.guard(token, boot_time() + LIMIT * 100).unwrap();
    (watchdog, guard)
}

/// Waits as generated clients do, which keep the text of an error only.
async fn ready(client: &mut Grpc<FencedChannel<Channel>>) -> Result<(), Status> {
    let ready = client.ready().await;
    ready.map_err(|error| Status::unknown(format!("Service was not ready: {error}")))
}

async fn put_by(client: &mut Grpc<FencedChannel<Channel>>, text: &str) -> Result<String, Status> {
    ready(client).await?;
    let path = PathAndQuery::from_static("/shop.Orders/Put");
    let call = client.unary(Request::new(text.to_owned()), path, Codec::default());
    let answer = timeout(LIMIT, call).await.expect("an answer")?;
    Ok(answer.into_inner())
}

async fn stream_by(
    client: &mut Grpc<FencedChannel<Channel>>,
    path: &'static str,
) -> Result<Streaming<String>, Status> {
    ready(client).await?;
    let path = PathAndQuery::from_static(path);
    let call = client.server_streaming(Request::new(String::new()), path, Codec::default());
    let answer = timeout(LIMIT, call).await.expect("an answer")?;
    Ok(answer.into_inner())
}

#[tokio::test]
async fn a_stale_call_is_refused_with_what_was_seen_and_trips_its_guard() {
    let world = World::new().await;
    let ((_old, old), (_new, new)) = (guard(1), guard(2));
    let mut old_client = world.client(ClientLayer::new(old.clone()).with_trip_on_higher());
    assert_eq!(put_by(&mut old_client, "a").await.unwrap(), "a under 1");
    let mut new_client = world.client(ClientLayer::new(new.clone()));
    assert_eq!(put_by(&mut new_client, "b").await.unwrap(), "b under 2");

    let status = put_by(&mut old_client, "c").await.unwrap_err();
    // Tripped before its caller had the answer.
    assert!(old.check().is_err());
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert_eq!(status.message(), "token 1 is stale: the highest seen is 2");
    let rejection = rejection(&status).unwrap();
    assert_eq!(
        (rejection.reason(), rejection.highest()),
        (Reason::StaleToken, Some(2))
    );
    assert_eq!(world.reached.load(Ordering::SeqCst), 2);

    // From here on its own guard refuses, and nothing is sent.
    let status = put_by(&mut old_client, "d").await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
    let source = std::error::Error::source(&status).unwrap();
    assert!(
        matches!(source.downcast_ref(), Some(CallError::Refused(_))),
        "{source}"
    );
    assert!(fencing::tonic::rejection(&status).is_none());
    assert!(new.check().is_ok());
}

#[tokio::test]
async fn a_token_that_no_fence_admits_is_a_failed_precondition_of_each_call() {
    let world = World::new().await;
    let (_watchdog, guard) = guard(1);
    let layer = ClientLayer::new(guard).with_scope("x".repeat(129));
    let mut client = world.client(layer);
    for _ in 0..2 {
        let status = put_by(&mut client, "a").await.unwrap_err();
        assert_eq!(status.code(), Code::FailedPrecondition, "{status:?}");
        let source = std::error::Error::source(&status).unwrap();
        assert!(
            matches!(source.downcast_ref(), Some(CallError::Invalid(_))),
            "{source}"
        );
    }
    assert_eq!(world.reached.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_call_without_a_token_is_refused() {
    let world = World::new().await;
    let mut client = Grpc::new(world.channel.clone());
    client.ready().await.unwrap();
    let path = PathAndQuery::from_static("/shop.Orders/Put");
    let call = client.unary(Request::new(String::new()), path, Codec::default());
    let status = timeout(LIMIT, call).await.unwrap().unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert_eq!(rejection(&status).unwrap().reason(), Reason::MissingToken);
    assert_eq!(world.reached.load(Ordering::SeqCst), 0);
}

/// A handler that asks a fence itself says what the layer would.
#[tokio::test]
async fn a_handlers_own_refusal_reads_like_that_of_the_layer() {
    let world = World::new().await;
    drop(world.fence.admit(2).await.unwrap());
    let error = world.fence.admit(1).await.unwrap_err();
    let own = fencing::tonic::refusal(&1.into(), &error);
    let (_watchdog, guard) = guard(1);
    let mut client = world.client(ClientLayer::new(guard));
    let layers = put_by(&mut client, "a").await.unwrap_err();
    assert_eq!(own.code(), layers.code());
    assert_eq!(own.message(), layers.message());
    assert_eq!(rejection(&own), rejection(&layers));
}

#[tokio::test]
async fn a_stream_ends_when_a_higher_token_comes() {
    let world = World::new().await;
    let (_watchdog, guard) = guard(1);
    let told = Arc::new(AtomicU64::new(0));
    let on_higher = {
        let told = Arc::clone(&told);
        move |highest| told.store(highest, Ordering::SeqCst)
    };
    let mut client = world.client(ClientLayer::new(guard.clone()).with_on_higher(on_higher));
    let mut stream = stream_by(&mut client, "/shop.Orders/Watch").await.unwrap();
    assert_eq!(stream.message().await.unwrap().as_deref(), Some("one"));
    drop(world.fence.admit(2).await.unwrap());
    let status = timeout(LIMIT, stream.message()).await.unwrap().unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert_eq!(rejection(&status).unwrap().reason(), Reason::Revoked);
    assert_eq!(told.load(Ordering::SeqCst), 2);
    assert!(guard.check().is_ok(), "tripping is opt-in");
}

/// The window of the connection is full, so that the server sends nothing and does not
/// even look at the body.
#[tokio::test]
async fn a_client_that_does_not_read_holds_no_takeover_up() {
    let world = World::new().await;
    let (_watchdog, guard) = guard(1);
    let mut client = world.client(ClientLayer::new(guard));
    let mut stream = stream_by(&mut client, "/shop.Orders/Flood").await.unwrap();
    stream.message().await.unwrap();
    let impatient = world.fence.clone().with_drain_wait(LIMIT);
    let admission = timeout(LIMIT, impatient.admit(2)).await.unwrap().unwrap();
    drop(admission);
    // It reads what was on its way, then the end.
    let end = timeout(LIMIT, async {
        loop {
            match stream.message().await {
                Ok(Some(_)) => {}
                end => return end,
            }
        }
    });
    let status = end.await.unwrap().unwrap_err();
    assert_eq!(rejection(&status).unwrap().reason(), Reason::Revoked);
}

/// The call waits at the fence for an effect of before, and its holder's time is over.
#[cfg(feature = "test-util")]
#[tokio::test]
async fn a_call_that_outlasts_the_guard_is_cancelled_as_unknown() {
    let world = World::new().await;
    let holder = crate::holder::World::new();
    let held = world.fence.admit(7).await.unwrap();
    world.fence.reset("").unwrap();
    let mut client = world.client(ClientLayer::new(holder.guard.clone()));
    let mut call = std::pin::pin!(put_by(&mut client, "late"));
    let arrives = async {
        while world.fence.highest() != 7 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        outcome = &mut call => panic!("{outcome:?}"),
        arrived = timeout(LIMIT, arrives) => arrived.unwrap(),
    }
    holder.pass_the_cancel_point();
    let status = call.await.unwrap_err();
    assert_eq!(status.code(), Code::Cancelled, "{status:?}");
    let source = std::error::Error::source(&status).unwrap();
    assert!(matches!(
        source.downcast_ref(),
        Some(CallError::Interrupted(_))
    ));
    assert_eq!(world.reached.load(Ordering::SeqCst), 0);
    drop(held);
}
