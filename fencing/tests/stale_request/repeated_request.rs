//! Hunts a request that a queue or a retry sends after the guard was asked: which is why
//! both sit outside of the layer.

use std::future::{poll_fn, ready};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use fencing::tower::{BoxError, CallError, ClientLayer, GuardedBody};
use http::{Request, Response};
use http_body_util::Empty;
use tower::buffer::BufferLayer;
use tower::retry::{Policy, RetryLayer};
use tower::{Service, ServiceBuilder, ServiceExt, service_fn};

use crate::holder::{Body, World, call_error, request};
use crate::support::wait;

/// Calls, lets the cancel point pass before the queue's own task runs, and waits.
async fn late<S, R>(world: &World, mut client: S) -> BoxError
where
    S: Service<Request<Body>, Response = R, Error = BoxError>,
{
    poll_fn(|cx| client.poll_ready(cx)).await.unwrap();
    let call = client.call(request());
    world.pass_the_cancel_point();
    let outcome = call.await;
    // Whatever is left in the queue would be sent now.
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    outcome.err().expect("late")
}

#[tokio::test]
async fn a_request_in_a_queue_outside_is_asked_about_when_it_leaves_the_queue() {
    let world = World::new();
    let client = ServiceBuilder::new()
        .layer(BufferLayer::new(8))
        .layer(ClientLayer::new(world.guard.clone()))
        .service(world.transport());
    let error = late(&world, client).await;
    assert_eq!(world.sent(), (0, 0), "{error}");
    assert!(format!("{error:?}").contains("Refused"), "{error:?}");
}

/// The wrong order: the guard was asked before the request went into the queue. The caller
/// is not told that nothing happened, but no frame of it is sent.
#[tokio::test]
async fn a_request_in_a_queue_inside_sends_no_frame() {
    let world = World::new();
    let client = ServiceBuilder::new()
        .layer(ClientLayer::new(world.guard.clone()))
        .layer(BufferLayer::new(8))
        .service(world.transport());
    let error = late(&world, client).await;
    assert_eq!(world.sent().1, 0, "{error}");
    let error = error.downcast::<CallError>().unwrap();
    assert!(
        matches!(*error, CallError::Interrupted(_)),
        "unknown: {error}"
    );
}

/// Repeats a failed request once.
#[derive(Clone)]
struct Again(usize);

impl<E> Policy<Request<Body>, (), E> for Again {
    type Future = std::future::Ready<()>;

    fn retry(
        &mut self,
        _: &mut Request<Body>,
        outcome: &mut Result<(), E>,
    ) -> Option<Self::Future> {
        (outcome.is_err() && self.0 > 0).then(|| {
            self.0 -= 1;
            ready(())
        })
    }

    fn clone_request(&mut self, _: &Request<Body>) -> Option<Request<Body>> {
        Some(request())
    }
}

/// A transport whose first request fails, and takes the guard past its cancel point.
fn failing(world: &Arc<World>) -> impl FnMut() -> Result<(), BoxError> + Clone + Send + use<> {
    let world = Arc::clone(world);
    move || {
        world.heads.fetch_add(1, Ordering::SeqCst);
        world.hand.set(107_500);
        Err("reset by peer".into())
    }
}

#[test]
fn a_retry_outside_asks_the_guard_for_each_attempt() {
    let world = Arc::new(World::new());
    let mut fail = failing(&world);
    let transport = service_fn(move |_: Request<GuardedBody<Body>>| {
        let outcome: Result<Response<Empty<Bytes>>, _> =
            fail().map(|()| Response::new(Empty::new()));
        ready(outcome)
    });
    let client = ServiceBuilder::new()
        .layer(RetryLayer::new(Again(1)))
        .map_response(drop)
        .layer(ClientLayer::new(world.guard.clone()))
        .service(transport);
    let error = wait(client.oneshot(request())).unwrap_err();
    assert!(error.is::<CallError>(), "{error}");
    assert_eq!(world.sent().0, 1, "only the first attempt is sent");
}

/// The wrong order, which is why the order matters: the guard is asked once for both.
#[test]
fn a_retry_inside_sends_an_attempt_that_the_guard_was_not_asked_about() {
    let world = Arc::new(World::new());
    let fail = failing(&world);
    let attempts = service_fn(move |_: Request<GuardedBody<Body>>| {
        let mut fail = fail.clone();
        let once = service_fn(move |_: Request<Body>| ready(fail()));
        let retried = ServiceBuilder::new()
            .layer(RetryLayer::new(Again(1)))
            .service(once);
        async {
            retried
                .oneshot(request())
                .await
                .map(|()| Response::new(Empty::<Bytes>::new()))
        }
    });
    let layer = ClientLayer::new(world.guard.clone());
    let client = ServiceBuilder::new().layer(layer).service(attempts);
    call_error(wait(client.oneshot(request())));
    assert_eq!(world.sent().0, 2);
}
