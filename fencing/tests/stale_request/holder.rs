//! The holder of a lease, and a transport that counts what it sends.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use fencing::tower::{BoxError, CallError, GuardedBody};
use fencing::{Guard, Simulation, Watchdog};
use http::{Request, Response};
use http_body_util::{BodyExt, Empty, Full};
use tower::{Service, service_fn};

use crate::support::{Hand, ms, simulated};

pub(crate) type Body = Full<Bytes>;

/// A guard of token 7 with 7.5 s to its cancel point, on a clock that the test moves.
pub(crate) struct World {
    pub(crate) guard: Guard,
    pub(crate) hand: Hand,
    simulation: Simulation,
    _watchdog: Watchdog,
    /// Requests that reached the transport, and frames of them that were sent.
    pub(crate) heads: Arc<AtomicUsize>,
    frames: Arc<AtomicUsize>,
}

impl World {
    pub(crate) fn new() -> Self {
        let (watchdog, simulation, hand) = simulated();
        let guard = watchdog.guard(7, ms(110_000)).unwrap();
        Self {
            guard,
            hand,
            simulation,
            _watchdog: watchdog,
            heads: Arc::default(),
            frames: Arc::default(),
        }
    }

    pub(crate) fn pass_the_cancel_point(&self) {
        self.hand.set(107_500);
        self.simulation.tick();
    }

    /// Sends the body and answers.
    pub(crate) fn transport(
        &self,
    ) -> impl Service<
        Request<GuardedBody<Body>>,
        Response = Response<Empty<Bytes>>,
        Error = BoxError,
        Future = impl Future<Output = Result<Response<Empty<Bytes>>, BoxError>> + Send + use<>,
    > + Clone
    + Send
    + use<> {
        let (heads, frames) = (Arc::clone(&self.heads), Arc::clone(&self.frames));
        service_fn(move |request: Request<GuardedBody<Body>>| {
            heads.fetch_add(1, Ordering::SeqCst);
            let frames = Arc::clone(&frames);
            async move {
                request.into_body().collect().await?;
                frames.fetch_add(1, Ordering::SeqCst);
                Ok(Response::new(Empty::new()))
            }
        })
    }

    pub(crate) fn sent(&self) -> (usize, usize) {
        let load = |count: &AtomicUsize| count.load(Ordering::SeqCst);
        (load(&self.heads), load(&self.frames))
    }
}

pub(crate) fn request() -> Request<Body> {
    Request::new(Body::from("write"))
}

pub(crate) fn call_error<T>(outcome: Result<T, BoxError>) -> CallError {
    let Err(error) = outcome else {
        panic!("it was sent");
    };
    *error.downcast::<CallError>().unwrap()
}
