//! Workers and controllers that say what they must not: it costs them their own session.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use bidi_session::tonic::{Acceptor, Tonic};
use bidi_session::{
    Direction, DisconnectReason, EventKind, Events, Failure, FailureKind, OpenClass, OpenError,
    Pool, PoolConfig,
};
use tokio_stream::{Stream, StreamExt};
use tokio_util::task::AbortOnDropHandle;
use tonic::body::Body;
use tonic::server::{Grpc, NamedService, StreamingService};
use tonic::transport::{Server, server::TcpIncoming};
use tonic::{Code, Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;

use crate::real::{
    Command, Connect, Host, Node, Reply, WorkerClient, command, connect, connected, echo, endpoint,
    note, soon,
};

/// A message whose first field has another type than that of commands and replies.
#[derive(Clone, PartialEq, prost::Message)]
struct Odd {
    #[prost(string, tag = "1")]
    text: String,
}

type Headers = Vec<(&'static str, String)>;

/// A server that answers each call with these headers and then this, or refuses it.
#[derive(Clone)]
struct Liar {
    headers: Headers,
    says: Says,
}

#[derive(Clone)]
enum Says {
    /// A message of another method, and then nothing.
    Odd,
    /// A message of another method, and the end.
    OddAndBye,
    /// An end with this text.
    Ends(String),
    /// A refusal of the call, with the headers and this text.
    Refuses(String),
}

type Replies = Pin<Box<dyn Stream<Item = Result<Odd, Status>> + Send>>;

impl StreamingService<Command> for Liar {
    type Response = Odd;
    type ResponseStream = Replies;
    type Future = Ready<Result<Response<Replies>, Status>>;

    fn call(&mut self, _: Request<Streaming<Command>>) -> Self::Future {
        let odd = || {
            tokio_stream::once(Ok(Odd {
                text: "odd".to_owned(),
            }))
        };
        let replies: Replies = match &self.says {
            Says::Odd => Box::pin(odd().chain(tokio_stream::pending())),
            Says::OddAndBye => Box::pin(odd()),
            Says::Ends(text) => Box::pin(tokio_stream::once(Err(Status::internal(text)))),
            Says::Refuses(text) => {
                let mut status = Status::failed_precondition(text);
                for (name, value) in &self.headers {
                    status.metadata_mut().insert(*name, value.parse().unwrap());
                }
                return ready(Err(status));
            }
        };
        let mut response = Response::new(replies);
        for (name, value) in &self.headers {
            response
                .metadata_mut()
                .insert(*name, value.parse().unwrap());
        }
        ready(Ok(response))
    }
}

impl NamedService for Liar {
    const NAME: &'static str = "worker.v1.Worker";
}

impl tower_service::Service<http::Request<Body>> for Liar {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let liar = self.clone();
        Box::pin(async move {
            let mut grpc = Grpc::new(ProstCodec::<Odd, Command>::default());
            Ok(grpc.streaming(liar, request).await)
        })
    }
}

fn welcome() -> Headers {
    with(&[])
}

/// The headers of a proper welcome, but for these.
fn with(changed: &[(&'static str, &str)]) -> Headers {
    let mut headers = vec![
        ("bidi-session-version", "1".to_owned()),
        ("bidi-session-worker", "bad".to_owned()),
        ("bidi-session-incarnation", "1".to_owned()),
    ];
    for (name, value) in changed {
        headers.retain(|(known, _)| known != name);
        headers.push((name, (*value).to_owned()));
    }
    headers
}

/// A pool with a good worker, which must not notice what the bad one does.
struct Scene {
    pool: Pool<Connect>,
    events: Events<Connect>,
    generation: u64,
    _host: Host,
    _server: Option<AbortOnDropHandle<()>>,
}

impl Scene {
    async fn new() -> Self {
        let host = Host::start(Node::echo("good", 1));
        let (pool, mut events) = Pool::new(connect(), PoolConfig::new(1).with_seed(7));
        pool.insert("good", host.endpoint());
        let (generation, _) = connected(&mut events).await;
        Self {
            pool,
            events,
            generation,
            _host: host,
            _server: None,
        }
    }

    async fn with_liar(headers: Headers, says: Says) -> Self {
        let mut scene = Self::new().await;
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let incoming = TcpIncoming::bind(address).unwrap().with_nodelay(Some(true));
        scene
            .pool
            .insert("bad", endpoint(incoming.local_addr().unwrap()));
        let server = Server::builder().add_service(Liar { headers, says });
        let serve = async move { server.serve_with_incoming(incoming).await.unwrap() };
        scene._server = Some(AbortOnDropHandle::new(tokio::spawn(serve)));
        scene
    }

    /// Waits for the end of the bad worker's session.
    async fn failure(&mut self) -> Failure {
        loop {
            let event = soon(self.events.recv()).await.unwrap();
            assert_eq!(event.worker.as_str(), "bad", "{event:?}");
            match event.kind {
                EventKind::Connected { .. } => {}
                EventKind::Disconnected {
                    reason: DisconnectReason::Failed(failure),
                } => return failure,
                kind => panic!("{kind:?}"),
            }
        }
    }

    /// Waits for a failed attempt of the bad worker.
    async fn refusal(&mut self) -> OpenError {
        let event = soon(self.events.recv()).await.unwrap();
        assert_eq!(event.worker.as_str(), "bad", "{event:?}");
        match event.kind {
            EventKind::AttemptFailed { error, .. } => error,
            kind => panic!("{kind:?}"),
        }
    }

    /// The good worker has its first session and answers.
    async fn others_untouched(mut self) {
        self.pool.remove("bad");
        self.pool.send("good", command("hello")).await.unwrap();
        loop {
            let event = soon(self.events.recv()).await.unwrap();
            if event.worker.as_str() == "good" {
                assert_eq!(event.generation, self.generation);
                assert_eq!(event.kind, EventKind::Message(note("hello")));
                return;
            }
        }
    }
}

#[tokio::test]
async fn another_method_s_answer_ends_its_session_typed() {
    for says in [Says::Odd, Says::OddAndBye] {
        let mut scene = Scene::with_liar(welcome(), says).await;
        let direction = Direction::FromWorker;
        for _ in 0..2 {
            let failure = scene.failure().await;
            assert_eq!(
                failure.kind,
                FailureKind::Undecodable { direction },
                "{failure}"
            );
        }
        scene.others_untouched().await;
    }
}

#[tokio::test]
async fn another_method_s_command_ends_its_session_typed_and_the_worker_goes_on() {
    let node = Node::new(Acceptor::new("bad", 1, 0), echo);
    let host = Host::start(node);
    let odd = Tonic::<Odd, Reply>::new(|channel, request| async move {
        let mut client = tonic::client::Grpc::new(channel);
        client
            .ready()
            .await
            .map_err(|error| Status::from_error(error.into()))?;
        let path = http::uri::PathAndQuery::from_static("/worker.v1.Worker/Control");
        client.streaming(request, path, ProstCodec::default()).await
    });
    let (pool, mut events) = Pool::new(odd, PoolConfig::new(1));
    pool.insert("bad", host.endpoint());
    pool.ready(["bad"], crate::real::LONG).await.unwrap();
    pool.send(
        "bad",
        Odd {
            text: "odd".to_owned(),
        },
    )
    .await
    .unwrap();
    let failure = loop {
        let event = soon(events.recv()).await.unwrap();
        if let EventKind::Disconnected {
            reason: DisconnectReason::Failed(failure),
        } = event.kind
        {
            break failure;
        }
    };
    let direction = Direction::ToWorker;
    assert_eq!(
        failure.kind,
        FailureKind::Undecodable { direction },
        "{failure}"
    );
    drop(pool);
    let (pool, mut events) = crate::real::pool(2);
    pool.insert("bad", host.endpoint());
    connected(&mut events).await;
}

#[tokio::test]
async fn an_error_text_of_64_kib_is_told_short() {
    let text = || "x".repeat(64 * 1024);
    let mut scene = Scene::with_liar(welcome(), Says::Ends(text())).await;
    let failure = scene.failure().await;
    assert_eq!(failure.kind, FailureKind::Other);
    assert!((1..400).contains(&failure.text.len()), "{failure}");
    let last_error = scene.pool.state("bad").unwrap().last_error.unwrap();
    assert!(last_error.len() < 400, "{last_error}");
    scene.others_untouched().await;
    for headers in [
        Vec::new(),
        vec![("bidi-session-refused", "malformed".to_owned())],
        vec![("bidi-session-refused", "w".repeat(5000))],
    ] {
        let mut scene = Scene::with_liar(headers, Says::Refuses(text())).await;
        let error = scene.refusal().await;
        assert!((1..400).contains(&error.text.len()), "{error}");
        scene.others_untouched().await;
    }
}

#[tokio::test]
async fn broken_handshake_headers_of_a_worker_are_a_refusal_that_names_them() {
    for (header, value) in [
        ("bidi-session-incarnation", "x"),
        ("bidi-session-incarnation", "18446744073709551616"),
        ("bidi-session-worker", "%zz"),
        ("bidi-session-worker", "%ff"),
        ("bidi-session-version", "2"),
    ] {
        let mut scene = Scene::with_liar(with(&[(header, value)]), Says::Odd).await;
        let error = scene.refusal().await;
        assert_eq!(error.class, OpenClass::Refused);
        let name = header.trim_start_matches("bidi-session-");
        assert!(error.text.contains(name), "{value}: {error}");
        scene.others_untouched().await;
    }
}

#[tokio::test]
async fn a_higher_term_that_is_none_does_not_depose_the_leader() {
    for highest in ["", "0", "1", "x", "-5", "99999999999999999999999"] {
        let headers = vec![
            ("bidi-session-refused", "lower-term".to_owned()),
            ("bidi-session-highest", highest.to_owned()),
        ];
        let mut scene = Scene::with_liar(headers, Says::Refuses("no".to_owned())).await;
        // No `HigherTerm`, which `refusal` would not take.
        assert_eq!(scene.refusal().await.class, OpenClass::Refused, "{highest}");
        scene.others_untouched().await;
    }
}

/// Calls as any client could; returns the refusal.
async fn raw_refusal(host: &Host, changed: &[(&'static str, &str)]) -> Status {
    let mut client = WorkerClient::new(host.endpoint().connect().await.unwrap());
    let mut request = Request::new(tokio_stream::pending::<Command>());
    let metadata = request.metadata_mut();
    for (name, value) in [
        ("bidi-session-version", "1"),
        ("bidi-session-term", "99"),
        ("bidi-session-pool", "000000000000000000000000000000ff"),
        ("bidi-session-generation", "1"),
        ("bidi-session-worker", "good"),
    ]
    .iter()
    .chain(changed)
    {
        metadata.insert(*name, value.parse().unwrap());
    }
    soon(client.control(request)).await.unwrap_err()
}

#[tokio::test]
async fn a_broken_hello_is_refused_and_the_session_in_place_goes_on() {
    let scene = Scene::new().await;
    for (header, value) in [
        ("bidi-session-term", "0"),
        ("bidi-session-term", "+7"),
        ("bidi-session-pool", "ff"),
        ("bidi-session-generation", "one"),
        ("bidi-session-version", "0"),
        ("bidi-session-incarnation", "x"),
        ("bidi-session-worker", "%e4"),
    ] {
        let status = raw_refusal(&scene._host, &[(header, value)]).await;
        assert_eq!(status.code(), Code::InvalidArgument, "{header}: {value}");
        let why = status.metadata().get("bidi-session-refused").unwrap();
        assert_eq!(why, "malformed");
        assert!(status.message().len() < 400);
    }
    let long = "7".repeat(8000);
    let status = raw_refusal(&scene._host, &[("bidi-session-term", &long)]).await;
    assert!((1..400).contains(&status.message().len()), "{status}");
    scene.others_untouched().await;
}

#[tokio::test]
async fn a_stranger_s_scope_is_refused_and_its_term_counts_for_nothing() {
    let scene = Scene::new().await;
    let status = raw_refusal(&scene._host, &[("bidi-session-scope", "another")]).await;
    assert_eq!(status.code(), Code::FailedPrecondition);
    let why = status.metadata().get("bidi-session-refused").unwrap();
    assert_eq!(why, "wrong-scope");
    scene.others_untouched().await;
}
