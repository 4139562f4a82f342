//! A page about bytes that shows other bytes than the wire.

use std::fmt::Write as _;
use std::path::Path;

use bidi_session::tonic::Acceptor;
use bidi_session::{Attempt, Connector, OpenError, Opened, Outbox, Pool, PoolConfig};
use tonic::transport::Endpoint;

use super::frames::render;
use super::real::{Command, Connect, Host, LONG, Node, Reply, barrier, connect, echo, soon};
use super::tap::{Side, Tap};

const BEGIN: &str = "<!-- trace: written by a test, UPDATE_TRACE=1 -->\n";
const END: &str = "<!-- end of trace -->\n";
const WORKER: &str = "rack 3/w1";
const SCOPE: &str = "life/main";
const POOL: u128 = 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef;

/// A connector whose pool has a known id.
#[derive(Clone)]
struct Known(Connect, u128);

impl Connector for Known {
    type Target = Endpoint;
    type Out = Command;
    type In = Reply;

    fn is_same(&self, one: &Endpoint, other: &Endpoint) -> bool {
        self.0.is_same(one, other)
    }

    fn describe(&self, target: &Endpoint) -> String {
        self.0.describe(target)
    }

    fn size(&self, message: &Command) -> usize {
        self.0.size(message)
    }

    fn answers(&self, message: &Reply) -> Option<u64> {
        self.0.answers(message)
    }

    fn open(
        &self,
        target: Endpoint,
        mut attempt: Attempt,
        outbox: Outbox<Command>,
    ) -> impl Future<Output = Result<Opened<Reply>, OpenError>> + Send + 'static {
        attempt.pool = self.1;
        self.0.open(target, attempt, outbox)
    }
}

/// Makes a pool that finds its worker under a name.
fn pool(term: u64, id: u128, tap: &Tap) -> (Pool<Known>, bidi_session::Events<Known>) {
    let address = tap.address;
    let connect = connect().with_resolver(move |_, _| Ok(vec![address]));
    let config = PoolConfig::new(term).with_scope(SCOPE);
    Pool::new(Known(connect, id), config)
}

fn target() -> Endpoint {
    Endpoint::from_static("http://w1.example:7000")
}

/// Plays a session, its end by a takeover, and a refusal, and renders what passed.
async fn play() -> String {
    let acceptor = Acceptor::new(WORKER, 40, 0).with_scope(SCOPE);
    let host = Host::start(Node::new(acceptor, echo));
    let mut page = String::new();
    let tap = Tap::start(host.address).await;
    let (leader, mut events) = pool(5, POOL, &tap);
    leader.insert_incarnation(WORKER, target(), 40);
    leader.ready([WORKER], LONG).await.expect("it gets up");
    let mut command = barrier(1);
    command.body = b"go".to_vec();
    let round = leader.inject(1, [WORKER], |_| command.clone());
    soon(round.expect("it is up").collect(LONG))
        .await
        .expect("it answers");
    let mut records = tap.take();
    append(
        &mut page,
        "A session of term 5 and one round of it:",
        &render(&records),
    );
    let second = Tap::start(host.address).await;
    let (newer, _events) = pool(6, POOL + 1, &second);
    newer.insert(WORKER, target());
    newer.ready([WORKER], LONG).await.expect("it takes over");
    while !is_lost(soon(events.recv()).await.expect("open")) {}
    let before = render(&records).len();
    records.extend(tap.take());
    let ended: Vec<String> = ended(&render(&records)[before..]);
    append(
        &mut page,
        "Its end, when a controller of term 6 arrives at the worker:",
        &ended,
    );
    let third = Tap::start(host.address).await;
    let (deposed, mut events) = pool(5, POOL + 2, &third);
    deposed.insert(WORKER, target());
    soon(events.recv()).await.expect("open");
    let lines = render(&third.take());
    append(
        &mut page,
        "An attempt of another controller of term 5, after that:",
        &lines,
    );
    page
}

fn is_lost(event: bidi_session::Event<Reply>) -> bool {
    matches!(event.kind, bidi_session::EventKind::Disconnected { .. })
}

/// What the worker says at the end; the controller then closes the connection, and how
/// much it still says is a matter of chance.
fn ended(lines: &[String]) -> Vec<String> {
    let worker = format!("{} ", sign(Side::Worker));
    let is_worker = |line: &&String| line.starts_with(&worker) || line.starts_with("    ");
    lines.iter().filter(is_worker).cloned().collect()
}

fn sign(side: Side) -> char {
    if side == Side::Worker { '<' } else { '>' }
}

fn append(page: &mut String, title: &str, lines: &[String]) {
    let _ = write!(page, "\n{title}\n\n```text\n{}\n```\n", lines.join("\n"));
}

#[tokio::test]
async fn the_page_shows_the_bytes_that_are_sent() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/handshake.md");
    let page = std::fs::read_to_string(&path).expect("the page");
    let (head, rest) = page.split_once(BEGIN).expect("the trace begins");
    let (shown, tail) = rest.split_once(END).expect("the trace ends");
    let traced = play().await + "\n";
    if std::env::var_os("UPDATE_TRACE").is_some() {
        let page = format!("{head}{BEGIN}{traced}{END}{tail}");
        std::fs::write(&path, page).expect("the page is written");
        return;
    }
    assert_eq!(shown, traced, "UPDATE_TRACE=1 writes the page anew");
}

#[tokio::test]
async fn a_trace_repeats_itself() {
    assert_eq!(play().await, play().await);
}
