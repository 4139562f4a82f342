//! Layers that carry a token with each request: [`ClientLayer`] where the holder of a lease
//! calls, [`ServerLayer`] at what it calls.
//!
//! They work on `http` types, so under tonic, axum and hyper alike. With a gRPC client of
//! tonic use [`tonic::ChannelLayer`](crate::tonic::ChannelLayer), which speaks its types.
//!
//! # On the wire
//!
//! | header | in | holds |
//! |---|---|---|
//! | `fencing-token` | request | the number in decimal digits: no sign, no leading zero, not zero, exactly once |
//! | `fencing-scope` | request, answer | the scope, at most 128 bytes, each byte that is no visible ASCII character or is `%` written as `%` and two hexadecimal digits; missing for the empty scope |
//! | `fencing-reason` | answer | why nothing was admitted: the [`Reason`] |
//! | `fencing-highest` | answer | the highest number that the fence has seen, in digits |
//!
//! An answer to a call with `content-type: application/grpc` has HTTP status 200 and the
//! gRPC status in its headers ("trailers only"); any other has the HTTP status and the
//! message as text.
//!
//! | [`Reason`] | gRPC status | HTTP | what the caller should do |
//! |---|---|---|---|
//! | `stale-token` | `FAILED_PRECONDITION` | 412 | stop: a higher token was seen; a retry cannot help |
//! | `wrong-scope` | `FAILED_PRECONDITION` | 412 | stop; an operator resets the fence after its store was rebuilt |
//! | `revoked` | `FAILED_PRECONDITION` in the trailers | the body ends with an error | stop: a higher token came during the answer |
//! | `busy` | `UNAVAILABLE` | 503 | try again: effects of lower tokens are still under way |
//! | `not-stored` | `UNAVAILABLE` | 503 | try again: the mark could not be stored |
//! | `missing-token` | `INVALID_ARGUMENT` | 400 | fix the caller |
//! | `invalid-token` | `INVALID_ARGUMENT` | 400 | fix the caller |
//!
//! # Retries and queues sit outside
//!
//! A layer that repeats, hedges or queues requests must be *outside* of [`ClientLayer`]
//! (before it in a `ServiceBuilder`), so that each attempt asks the guard when it is really
//! sent. Inside, a queue may hold a request beyond the guard's cancel point, and a retry
//! repeats one that was allowed once. Even there nothing is sent after the cancel point
//! but the head of a request: its body asks the guard again.
//!
//! # Examples
//!
//! ```
//! use fencing::tower::{ClientLayer, ServerLayer};
//! use fencing::{Admission, Fence, Guard};
//! use http::{Method, Request, Response};
//! use tower::{ServiceBuilder, service_fn};
//!
//! # type Body = http_body_util::Full<bytes::Bytes>;
//! # async fn write(_: &Admission) {}
//! # fn layered(guard: Guard) -> Result<(), Box<dyn std::error::Error>> {
//! # let transport = service_fn(async |_: Request<fencing::tower::GuardedBody<Body>>| Ok::<_, std::io::Error>(Response::new(Body::default())));
//! // Where the lease is held: refused by the guard, or sent with its token.
//! let client = ServiceBuilder::new()
//!     .layer(ClientLayer::new(guard).with_scope("a3f0/meta"))
//!     .service(transport);
//!
//! // At the resource: refused by the fence, or admitted until the answer is complete.
//! let server = ServiceBuilder::new()
//!     .layer(ServerLayer::new(Fence::open("orders.mark")?).with_open_route(Method::GET, "/orders"))
//!     .service(service_fn(async |request: Request<Body>| {
//!         let admission = request.extensions().get::<std::sync::Arc<Admission>>();
//!         write(admission.expect("every route that writes is fenced")).await;
//!         Ok::<_, std::io::Error>(Response::new(Body::default()))
//!     }));
//! # drop((client, server));
//! # Ok(())
//! # }
//! ```

mod body;
mod client;
mod held;
mod rejection;
mod server;
mod timeout;
mod wire;

pub use body::{GuardedBody, HeardBody};
pub use client::{CallError, Client, ClientLayer};
pub use held::HeldBody;
pub use rejection::{Reason, Rejection};
pub use server::{Server, ServerLayer};

/// Any error, as the bodies and services of this module return it.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Name of the header that holds the number of a request's token.
pub const TOKEN_HEADER: &str = "fencing-token";
/// Name of the header that holds the scope of a request's token.
pub const SCOPE_HEADER: &str = "fencing-scope";
/// Name of the header that says why a request was not admitted.
pub const REASON_HEADER: &str = "fencing-reason";
/// Name of the header that says the highest number that was seen.
pub const HIGHEST_HEADER: &str = "fencing-highest";
