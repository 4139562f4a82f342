//! Hunts a part of a stream that is taken for the whole, and a stream, a dropped call or a
//! limit that keeps a higher token waiting: with streams of tonic on a real connection.

use std::convert::Infallible;
use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fencing::tonic::{ChannelLayer, FencedChannel, rejection};
use fencing::tower::{ClientLayer, Reason, ServerLayer};
use fencing::{Admission, Fence};
use http::HeaderValue;
use http::uri::PathAndQuery;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::body::Body;
use tonic::client::Grpc;
use tonic::transport::{Channel, Server};
use tonic::{Request, Response, Status, Streaming};
use tower::limit::GlobalConcurrencyLimitLayer;
use tower::util::BoxCloneService;
use tower::{ServiceExt, service_fn};
use tower_layer::Layer;

use crate::holder;
use crate::orders::{Answer, Codec, Orders, Strings, listen};
use crate::support::{LIMIT, poll_once};

/// What became of the calls that reached the service.
#[derive(Clone, Default)]
struct Streams {
    whole: Arc<AtomicUsize>,
    broken: Arc<AtomicUsize>,
    hanging: Arc<AtomicUsize>,
}

struct Hanging(Arc<AtomicUsize>);

impl Drop for Hanging {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Streams {
    /// Counts whether the stream of a request came to its end.
    async fn take(self, mut orders: Streaming<String>) -> Result<Response<String>, Status> {
        loop {
            match orders.message().await {
                Ok(Some(_)) => {}
                Ok(None) => {
                    self.whole.fetch_add(1, Ordering::SeqCst);
                    return Ok(Response::new("all".to_owned()));
                }
                Err(status) => {
                    self.broken.fetch_add(1, Ordering::SeqCst);
                    return Err(status);
                }
            }
        }
    }
}

impl Answer for Streams {
    async fn answer(self, request: http::Request<Body>) -> http::Response<Body> {
        let mut server = tonic::server::Grpc::new(Codec::default());
        match request.uri().path() {
            "/shop.Orders/Take" => {
                let take = service_fn(move |request: Request<Streaming<String>>| {
                    self.clone().take(request.into_inner())
                });
                server.client_streaming(take, request).await
            }
            "/shop.Orders/Echo" => {
                let echo = service_fn(async |request: Request<Streaming<String>>| {
                    let echoed: Strings = Box::pin(request.into_inner());
                    Ok::<_, Status>(Response::new(echoed))
                });
                server.streaming(echo, request).await
            }
            _ => {
                self.hanging.fetch_add(1, Ordering::SeqCst);
                let _hanging = Hanging(self.hanging);
                pending().await
            }
        }
    }
}

struct World {
    fence: Fence,
    orders: Streams,
    holder: holder::World,
    client: Grpc<FencedChannel<FencedChannel<Channel>>>,
    stop: Option<oneshot::Sender<()>>,
    server: JoinHandle<()>,
}

impl Drop for World {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl World {
    /// A server behind two layers of one fence, as where one is before all services and one
    /// before this; and a client behind two of one guard.
    async fn new() -> Self {
        let (fence, orders, holder) = (Fence::new(), Streams::default(), holder::World::new());
        let (incoming, endpoint) = listen().await;
        let fenced = ServerLayer::new(fence.clone());
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = Server::builder()
            .layer(fenced.clone())
            .add_service(fenced.layer(Orders(orders.clone())))
            .serve_with_incoming_shutdown(incoming, async {
                let _ = stopped.await;
            });
        let server = tokio::spawn(async { serving.await.unwrap() });
        let channel = endpoint.connect().await.unwrap();
        let layer = ChannelLayer::new(ClientLayer::new(holder.guard.clone()));
        Self {
            client: Grpc::new(layer.layer(layer.layer(channel))),
            fence,
            orders,
            holder,
            stop: Some(stop),
            server,
        }
    }

    /// Opens a stream both ways, and lets a message go round.
    async fn echo(&mut self) -> (mpsc::Sender<String>, Streaming<String>) {
        let (send, sent) = mpsc::channel(8);
        send.send("one".to_owned()).await.unwrap();
        self.client.ready().await.unwrap();
        let path = PathAndQuery::from_static("/shop.Orders/Echo");
        let request = Request::new(ReceiverStream::new(sent));
        let call = self.client.streaming(request, path, Codec::default());
        let mut echoed = timeout(LIMIT, call).await.unwrap().unwrap().into_inner();
        assert_eq!(echoed.message().await.unwrap().as_deref(), Some("one"));
        (send, echoed)
    }

    async fn takes_over(&self) {
        let admitted = self.fence.clone().with_drain_wait(LIMIT);
        drop(timeout(LIMIT, admitted.admit(8)).await.unwrap().unwrap());
    }
}

async fn yield_often() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

async fn until(what: &str, is_true: impl Fn() -> bool) {
    let yields = async {
        while !is_true() {
            tokio::task::yield_now().await;
        }
    };
    timeout(LIMIT, yields).await.expect(what);
}

/// The resource must not take what was sent before for an order that is complete.
#[tokio::test]
async fn a_request_stream_that_the_guard_cuts_is_no_whole_request() {
    let mut world = World::new().await;
    let (send, sent) = mpsc::channel(8);
    send.send("one".to_owned()).await.unwrap();
    world.client.ready().await.unwrap();
    let path = PathAndQuery::from_static("/shop.Orders/Take");
    let request = Request::new(ReceiverStream::new(sent));
    let call =
        world
            .client
            .client_streaming::<_, String, String, _>(request, path, Codec::default());
    let mut call = pin!(call);
    let admitted = async { until("the call is admitted", || world.fence.highest() == 7).await };
    tokio::select! {
        outcome = &mut call => panic!("{outcome:?}"),
        () = admitted => {}
    }
    world.holder.pass_the_cancel_point();
    let status = timeout(LIMIT, call).await.unwrap().unwrap_err();
    assert_eq!(status.code(), tonic::Code::Cancelled, "{status:?}");
    let orders = &world.orders;
    let is_held = || poll_once(pin!(world.fence.admit(8))).is_pending();
    until("the resource has heard", || !is_held()).await;
    assert_eq!(
        orders.whole.load(Ordering::SeqCst),
        0,
        "a part was taken for the whole"
    );
    drop(send);
}

#[tokio::test]
async fn a_stream_both_ways_ends_on_both_sides_when_a_higher_token_comes() {
    let mut world = World::new().await;
    let (send, mut echoed) = world.echo().await;
    world.takes_over().await;
    let status = timeout(LIMIT, echoed.message()).await.unwrap().unwrap_err();
    assert_eq!(rejection(&status).unwrap().reason(), Reason::Revoked);
    // Nobody takes what is sent from here on.
    timeout(LIMIT, send.closed())
        .await
        .expect("the way there ends, too");
}

#[tokio::test]
async fn a_stream_both_ways_ends_at_the_cancel_point() {
    let mut world = World::new().await;
    let (send, mut echoed) = world.echo().await;
    world.holder.pass_the_cancel_point();
    timeout(LIMIT, send.closed())
        .await
        .expect("the way there ends");
    assert!(timeout(LIMIT, echoed.message()).await.unwrap().is_err());
    world.takes_over().await;
}

/// The server says that it goes (GOAWAY), and serves what is open to its end.
#[tokio::test]
async fn a_server_that_shuts_down_is_not_held_up_by_a_stream_of_a_lower_token() {
    let mut world = World::new().await;
    let (send, mut echoed) = world.echo().await;
    world.stop.take().unwrap().send(()).unwrap();
    send.send("two".to_owned()).await.unwrap();
    assert_eq!(echoed.message().await.unwrap().as_deref(), Some("two"));
    assert!(!world.server.is_finished());
    world.takes_over().await;
    let status = timeout(LIMIT, echoed.message()).await.unwrap().unwrap_err();
    assert_eq!(rejection(&status).unwrap().reason(), Reason::Revoked);
    drop((send, echoed));
    timeout(LIMIT, &mut world.server)
        .await
        .expect("the end")
        .unwrap();
}

#[tokio::test]
async fn a_call_that_its_caller_drops_holds_nothing_at_the_resource() {
    let mut world = World::new().await;
    world.client.ready().await.unwrap();
    let path = PathAndQuery::from_static("/shop.Orders/Hang");
    let request = Request::new(String::new());
    let mut call = Box::pin(world.client.unary::<String, String, _>(
        request,
        path,
        Codec::default(),
    ));
    let hanging = Arc::clone(&world.orders.hanging);
    tokio::select! {
        outcome = &mut call => panic!("{outcome:?}"),
        () = until("the handler runs", || hanging.load(Ordering::SeqCst) == 1) => {}
    }
    drop(call);
    world.takes_over().await;
    assert_eq!(hanging.load(Ordering::SeqCst), 0);
}

/// A service that says why a call was refused.
type Limited = BoxCloneService<http::Request<()>, Option<HeaderValue>, Infallible>;

fn why<B>(answer: http::Response<B>) -> Option<HeaderValue> {
    answer.headers().get("fencing-reason").cloned()
}

/// Why a limit belongs inside: outside, the higher token waits behind what it would end.
#[tokio::test]
async fn a_limit_outside_keeps_a_higher_token_from_the_fence_and_one_inside_does_not() {
    // A handler that ends when it is told to.
    let waits = service_fn(async |request: http::Request<()>| {
        let admission = request.extensions().get::<Arc<Admission>>().cloned();
        admission.unwrap().revoked().await;
        Ok::<_, Infallible>(http::Response::new(Body::empty()))
    });
    for is_inside in [false, true] {
        let (fence, limit) = (Fence::new(), GlobalConcurrencyLimitLayer::new(1));
        let fenced = ServerLayer::new(fence.clone());
        let limited: Limited = if is_inside {
            let service = fenced.layer(limit.layer(waits));
            BoxCloneService::new(service.map_response(why))
        } else {
            let service = limit.layer(fenced.layer(waits));
            BoxCloneService::new(service.map_response(why))
        };
        let call = |token: u64| {
            let request = http::Request::builder().header("fencing-token", token);
            tokio::spawn(limited.clone().oneshot(request.body(()).unwrap()))
        };
        let low = call(7);
        until("the lower one is admitted", || fence.highest() == 7).await;
        let queued = call(7);
        yield_often().await;
        let high = call(8);
        if is_inside {
            until("the lower one ends", || low.is_finished()).await;
            // What had not begun by then never does.
            let refused = timeout(LIMIT, queued).await.unwrap().unwrap();
            assert_eq!(refused.unwrap().unwrap(), "stale-token");
            assert_eq!(fence.highest(), 8);
        } else {
            yield_often().await;
            assert!(!low.is_finished() && fence.highest() == 7, "it waits");
            queued.abort();
        }
        low.abort();
        high.abort();
    }
}
