//! Hunts a request without a right token that reaches the resource.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use fencing::tower::{HeldBody, Reason, Rejection, Server, ServerLayer};
use fencing::{Admission, Fence};
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use tower::{Service, ServiceExt, service_fn};
use tower_layer::Layer;

use crate::support::wait;

type Body = Full<Bytes>;

/// How often the resource was reached, and how often with an admission.
#[derive(Default)]
struct Counts {
    reached: AtomicUsize,
    admitted: AtomicUsize,
}

/// A resource behind a fence that has seen 7 in the scope `a/meta`.
struct World {
    fence: Fence,
    counts: Arc<Counts>,
}

impl World {
    fn new() -> Self {
        let fence = Fence::new();
        fence.reset("a/meta").unwrap();
        drop(wait(fence.admit(fencing::Token::scoped("a/meta", 7))).unwrap());
        let counts = Arc::default();
        Self { fence, counts }
    }

    fn server(
        &self,
    ) -> Server<
        impl Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future: Send>
        + Clone
        + Send
        + 'static,
    > {
        let counts = Arc::clone(&self.counts);
        let resource = service_fn(move |request: Request<Body>| {
            counts.reached.fetch_add(1, Ordering::SeqCst);
            let admission = request.extensions().get::<Arc<Admission>>();
            let admitted = usize::from(admission.is_some());
            counts.admitted.fetch_add(admitted, Ordering::SeqCst);
            async { Ok::<_, Infallible>(Response::new(Body::from("done"))) }
        });
        ServerLayer::new(self.fence.clone())
            .with_open_route(Method::GET, "/orders")
            .layer(resource)
    }

    fn call(&self, request: Request<Body>) -> Response<HeldBody<Body>> {
        wait(self.server().oneshot(request)).unwrap()
    }

    fn counts(&self) -> (usize, usize) {
        let load = |count: &AtomicUsize| count.load(Ordering::SeqCst);
        (load(&self.counts.reached), load(&self.counts.admitted))
    }
}

fn request(method: Method, path: &str, headers: &[(&str, &[u8])]) -> Request<Body> {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(Body::default()).unwrap()
}

fn text(response: Response<HeldBody<Body>>) -> String {
    let body = wait(response.into_body().collect()).unwrap();
    String::from_utf8(body.to_bytes().to_vec()).unwrap()
}

type Header<'a> = (&'a str, &'a [u8]);

const TOKEN: &str = "fencing-token";
const SCOPE: (&str, &[u8]) = ("fencing-scope", b"a/meta");

#[test]
fn what_is_no_token_is_refused_with_a_text_and_reaches_nothing() {
    let world = World::new();
    let long = [b'1'; 5_000];
    let scope = [b's'; 129];
    let table: [(&[Header<'_>], &str); 14] = [
        (&[], "no header fencing-token"),
        (&[SCOPE], "no header fencing-token"),
        (&[(TOKEN, b""), SCOPE], "fencing-token is no number"),
        (&[(TOKEN, b"seven"), SCOPE], "fencing-token is no number"),
        (&[(TOKEN, b"-7"), SCOPE], "fencing-token is no number"),
        (&[(TOKEN, b"7.0"), SCOPE], "fencing-token is no number"),
        (&[(TOKEN, b"\xff7"), SCOPE], "fencing-token is no number"),
        (&[(TOKEN, b"0"), SCOPE], "fencing-token is no number"),
        (&[(TOKEN, b"007"), SCOPE], "fencing-token is no number"),
        (
            &[(TOKEN, b"18446744073709551616"), SCOPE],
            "fencing-token is no number",
        ),
        (&[(TOKEN, &long), SCOPE], "fencing-token is no number"),
        (
            &[(TOKEN, b"7"), (TOKEN, b"9"), SCOPE],
            "fencing-token is given more than once",
        ),
        (
            &[(TOKEN, b"7"), ("fencing-scope", &scope)],
            "the scope has 129 bytes",
        ),
        (
            &[(TOKEN, b"7"), ("fencing-scope", b"a%2")],
            "fencing-scope is no percent-encoded text",
        ),
    ];
    for (headers, expected) in table {
        let response = world.call(request(Method::POST, "/orders", headers));
        assert_eq!(response.status(), 400, "{expected}");
        let reason = Rejection::from_headers(response.headers())
            .unwrap()
            .reason();
        let is_missing = expected.starts_with("no header");
        assert_eq!(reason == Reason::MissingToken, is_missing, "{reason:?}");
        let text = text(response);
        assert!(text.contains(expected), "{text}");
    }
    assert_eq!(world.counts(), (0, 0));
    assert_eq!(world.fence.highest(), 7);
}

#[test]
fn a_grpc_call_hears_the_same_in_its_status() {
    let world = World::new();
    let grpc: (&str, &[u8]) = ("content-type", b"application/grpc");
    for (token, status, message) in [
        (
            &b"0"[..],
            "3",
            "the header fencing-token is no number from 1",
        ),
        (b"6", "9", "token 6 is stale: the highest seen is 7"),
    ] {
        let headers = [(TOKEN, token), SCOPE, grpc];
        let response = world.call(request(Method::POST, "/shop.Orders/Put", &headers));
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "application/grpc");
        assert_eq!(response.headers()["grpc-status"], status);
        let said = response.headers()["grpc-message"].to_str().unwrap();
        assert!(said.starts_with(message), "{said}");
        assert!(text(response).is_empty());
    }
    assert_eq!(world.counts(), (0, 0));
}

#[test]
fn a_stale_token_hears_what_was_seen() {
    let world = World::new();
    let response = world.call(request(Method::POST, "/orders", &[(TOKEN, b"6"), SCOPE]));
    assert_eq!(response.status(), 412);
    let rejection = Rejection::from_headers(response.headers()).unwrap();
    assert_eq!(rejection.reason(), Reason::StaleToken);
    assert_eq!(
        (rejection.highest(), rejection.scope()),
        (Some(7), Some("a/meta"))
    );
    assert_eq!(text(response), "token 6 is stale: the highest seen is 7");

    let highest = u64::MAX.to_string();
    let response = world.call(request(
        Method::POST,
        "/orders",
        &[(TOKEN, highest.as_bytes())],
    ));
    assert_eq!(response.status(), 412);
    let rejection = Rejection::from_headers(response.headers()).unwrap();
    assert_eq!(
        (rejection.reason(), rejection.highest()),
        (Reason::WrongScope, None)
    );
    assert_eq!(rejection.scope(), Some("a/meta"));
    assert!(text(response).contains("calls reset(\"\")"));
    assert_eq!((world.counts(), world.fence.highest()), ((0, 0), 7));
}

#[test]
fn an_effect_that_lasts_is_told_as_busy() {
    let world = World::new();
    let low = wait(world.fence.admit(fencing::Token::scoped("a/meta", 7))).unwrap();
    let fence = world
        .fence
        .clone()
        .with_drain_wait(std::time::Duration::ZERO);
    let busy = World {
        fence,
        counts: Arc::default(),
    };
    let response = busy.call(request(Method::POST, "/orders", &[(TOKEN, b"8"), SCOPE]));
    assert_eq!(response.status(), 503);
    let rejection = Rejection::from_headers(response.headers()).unwrap();
    assert_eq!(rejection.reason(), Reason::Busy);
    drop(low);
    let response = busy.call(request(Method::POST, "/orders", &[(TOKEN, b"8"), SCOPE]));
    assert_eq!((response.status().as_u16(), busy.counts()), (200, (1, 1)));
}

#[test]
fn a_mark_that_cannot_be_stored_is_told_as_such() {
    let folder = tempfile::tempdir().unwrap();
    let fence = Fence::open(folder.path().join("orders.mark")).unwrap();
    // In the way of the file that each write begins with.
    let obstacle = folder.path().join("orders.mark.tmp");
    std::fs::create_dir(&obstacle).unwrap();
    let counts = Arc::default();
    let world = World { fence, counts };
    let response = world.call(request(Method::POST, "/orders", &[(TOKEN, b"8")]));
    assert_eq!(response.status(), 503);
    let rejection = Rejection::from_headers(response.headers()).unwrap();
    assert_eq!(rejection.reason(), Reason::NotStored);
    assert_eq!(world.counts(), (0, 0));
    std::fs::remove_dir(&obstacle).unwrap();
    let response = world.call(request(Method::POST, "/orders", &[(TOKEN, b"8")]));
    assert_eq!((response.status().as_u16(), world.counts()), (200, (1, 1)));
}

#[test]
fn only_the_very_route_on_the_list_is_open() {
    let world = World::new();
    assert_eq!(
        world
            .call(request(Method::GET, "/orders?page=2", &[]))
            .status(),
        200
    );
    assert_eq!(world.counts(), (1, 0));
    for (method, path) in [
        (Method::POST, "/orders"),
        (Method::HEAD, "/orders"),
        (Method::GET, "/orders/"),
        (Method::GET, "//orders"),
        (Method::GET, "/Orders"),
        (Method::GET, "/orders/1"),
        (Method::GET, "/%6frders"),
    ] {
        let response = world.call(request(method.clone(), path, &[]));
        assert_eq!(response.status(), 400, "{method} {path}");
    }
    // Who sends a token there is judged by it all the same.
    for (token, status) in [(&b"6"[..], 412), (b"zero", 400), (b"7", 200)] {
        let response = world.call(request(Method::GET, "/orders", &[(TOKEN, token), SCOPE]));
        assert_eq!(response.status(), status);
    }
    assert_eq!(world.counts(), (2, 1));
}
