//! Hunts a request that is sent once the guard allows nothing more.

use std::convert::Infallible;
use std::future::{Future, pending, ready};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;

use bytes::Bytes;
use fencing::tower::{CallError, ClientLayer, GuardedBody};
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Empty};
use tower::{Service, ServiceBuilder, ServiceExt, service_fn};

use crate::holder::{Body, World, call_error, request};
use crate::support::{ms, poll_once, wait};

#[test]
fn a_request_carries_the_token_and_the_scope_of_its_guard() {
    let world = World::new();
    let seen = Arc::new(Mutex::new(HeaderMap::new()));
    let transport = service_fn({
        let seen = Arc::clone(&seen);
        move |request: Request<GuardedBody<Body>>| {
            *seen.lock().unwrap() = request.headers().clone();
            ready(Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new())))
        }
    });
    let call = |layer: ClientLayer, request| {
        let client = ServiceBuilder::new()
            .layer(layer)
            .service(transport.clone());
        wait(client.oneshot(request)).unwrap();
        seen.lock().unwrap().clone()
    };
    // What a caller has set is replaced: only the guard's token counts.
    let mut forged = request();
    for name in ["fencing-token", "fencing-token", "fencing-scope"] {
        forged.headers_mut().append(name, "9".parse().unwrap());
    }
    let headers = call(ClientLayer::new(world.guard.clone()), forged);
    assert_eq!(
        headers.get_all("fencing-token").iter().collect::<Vec<_>>(),
        ["7"]
    );
    assert!(!headers.contains_key("fencing-scope"));
    assert!(!headers.contains_key("grpc-timeout"), "not gRPC");

    let mut grpc = request();
    grpc.headers_mut()
        .insert("content-type", "application/grpc".parse().unwrap());
    grpc.headers_mut()
        .insert("grpc-timeout", "1M".parse().unwrap());
    let layer = ClientLayer::new(world.guard.clone()).with_scope("life 1/é");
    let headers = call(layer, grpc);
    assert_eq!(headers["fencing-scope"], "life%201/%C3%A9");
    assert_eq!(
        headers["grpc-timeout"], "7500000u",
        "capped by what remains"
    );
}

#[test]
fn from_the_cancel_point_on_nothing_is_sent() {
    let world = World::new();
    let layer = ClientLayer::new(world.guard.clone());
    let mut client = ServiceBuilder::new()
        .layer(layer)
        .service(world.transport());
    wait(client.ready()).unwrap();
    wait(client.call(request())).unwrap();
    assert_eq!(world.sent(), (1, 1));
    world.pass_the_cancel_point();
    // Ready before, and refused all the same.
    let error = call_error(wait(client.call(request())));
    assert!(matches!(error, CallError::Refused(_)), "{error}");
    assert!(matches!(
        call_error(wait(client.ready()).map(drop)),
        CallError::Refused(_)
    ));
    assert_eq!(world.sent(), (1, 1));
}

#[test]
fn too_little_time_and_a_token_that_nobody_admits_are_refused() {
    let world = World::new();
    let refuse = |layer: ClientLayer| {
        let client = ServiceBuilder::new()
            .layer(layer)
            .service(world.transport());
        call_error(wait(client.oneshot(request())))
    };
    let layer = ClientLayer::new(world.guard.clone());
    let error = refuse(layer.clone().with_min_remaining(ms(7_501)));
    assert!(matches!(error, CallError::TooLate { remaining, .. } if remaining == ms(7_500)));
    let error = refuse(layer.clone().with_scope("s".repeat(129)));
    assert!(matches!(error, CallError::Invalid(_)), "{error}");
    assert_eq!(world.sent(), (0, 0));
    let client = ServiceBuilder::new().layer(layer.with_min_remaining(ms(7_500)));
    wait(client.service(world.transport()).oneshot(request())).unwrap();
}

#[test]
fn what_is_under_way_at_the_cancel_point_is_unknown() {
    let world = World::new();
    let transport = service_fn(|_: Request<GuardedBody<Body>>| {
        pending::<Result<Response<Empty<Bytes>>, Infallible>>()
    });
    let layer = ClientLayer::new(world.guard.clone());
    let client = ServiceBuilder::new().layer(layer).service(transport);
    let mut call = pin!(client.oneshot(request()));
    assert!(poll_once(call.as_mut()).is_pending());
    world.pass_the_cancel_point();
    let Poll::Ready(outcome) = poll_once(call) else {
        panic!("still waiting");
    };
    assert!(matches!(call_error(outcome), CallError::Interrupted(_)));
}

/// A stream of requests that has nothing to say is ended too.
#[test]
fn the_stream_of_a_request_ends_at_the_cancel_point() {
    let world = World::new();
    let body = Arc::new(Mutex::new(None));
    let transport = service_fn({
        let body = Arc::clone(&body);
        move |request: Request<GuardedBody<Idle>>| {
            *body.lock().unwrap() = Some(request.into_body());
            ready(Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new())))
        }
    });
    let layer = ClientLayer::new(world.guard.clone());
    let client = ServiceBuilder::new().layer(layer).service(transport);
    wait(client.oneshot(Request::new(Idle))).unwrap();
    let mut body = body.lock().unwrap().take().unwrap();
    let wakes = Arc::<crate::support::Wakes>::default();
    let waker = Arc::clone(&wakes).into();
    let waiting = pin!(body.frame()).poll(&mut std::task::Context::from_waker(&waker));
    assert!(waiting.is_pending());
    // Nobody polls, and the watchdog wakes who would send.
    assert_eq!(wakes.count(), 0);
    world.pass_the_cancel_point();
    assert_eq!(wakes.count(), 1);
    let frame = poll_once(pin!(body.frame()));
    assert!(matches!(frame, Poll::Ready(Some(Err(_)))));
}

/// Never has a frame.
struct Idle;

impl http_body::Body for Idle {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Infallible>>> {
        Poll::Pending
    }
}

/// An answer with these headers, and what it has made of the guard and the callback.
fn answered(headers: &[(&'static str, &'static str)], trips: bool) -> (bool, u64) {
    let world = World::new();
    let headers = headers.to_vec();
    let transport = service_fn(move |_: Request<GuardedBody<Body>>| {
        let mut response = Response::new(Empty::<Bytes>::new());
        for (name, value) in &headers {
            response.headers_mut().insert(*name, value.parse().unwrap());
        }
        ready(Ok::<_, Infallible>(response))
    });
    let told = Arc::new(AtomicU64::new(0));
    let on_higher = {
        let told = Arc::clone(&told);
        move |highest| told.store(highest, Ordering::SeqCst)
    };
    let mut layer = ClientLayer::new(world.guard.clone())
        .with_scope("a")
        .with_on_higher(on_higher);
    if trips {
        layer = layer.with_trip_on_higher();
    }
    let client = ServiceBuilder::new().layer(layer).service(transport);
    wait(client.oneshot(request())).unwrap();
    // Before the caller has the answer.
    (world.guard.check().is_ok(), told.load(Ordering::SeqCst))
}

#[test]
fn only_a_higher_token_of_the_same_scope_counts_as_a_loss() {
    let stale = ("fencing-reason", "stale-token");
    let ours = ("fencing-scope", "a");
    for (headers, is_live, told) in [
        (&[stale, ours, ("fencing-highest", "8")][..], false, 8),
        (
            &[
                ("fencing-reason", "revoked"),
                ours,
                ("fencing-highest", "9"),
            ],
            false,
            9,
        ),
        // A fence that is behind, lies or speaks of something else ends nobody.
        (&[stale, ours, ("fencing-highest", "7")], true, 0),
        (&[stale, ours, ("fencing-highest", "6")], true, 0),
        (
            &[stale, ("fencing-scope", "b"), ("fencing-highest", "8")],
            true,
            0,
        ),
        (&[stale, ("fencing-highest", "8")], true, 0),
        (&[stale, ours], true, 0),
        (&[stale, ours, ("fencing-highest", "8x")], true, 0),
        (
            &[
                ("fencing-reason", "wrong-scope"),
                ours,
                ("fencing-highest", "8"),
            ],
            true,
            0,
        ),
        (&[ours, ("fencing-highest", "8")], true, 0),
        (&[], true, 0),
    ] {
        assert_eq!(answered(headers, true), (is_live, told), "{headers:?}");
        // Tripping is opt-in.
        assert_eq!(answered(headers, false), (true, told), "{headers:?}");
    }
}
