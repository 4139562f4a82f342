//! Certificates that are wrong, missing or late, and the kill switch under TLS.

use std::net::SocketAddr;

use bidi_session::tonic::Acceptor;
use bidi_session::{Events, Pool};
use rcgen::{CertificateParams, date_time_ymd};
use tokio::runtime::{Builder, Runtime};
use tonic::transport::server::TcpIncoming;
use tonic::transport::{ClientTlsConfig, Endpoint, Identity, Server, ServerTlsConfig};

use super::mtls::{self, Authority};
use super::real::wire::worker_server::WorkerServer;
use super::real::{
    AT_ONCE, Connect, Host, Node, command, connected, disconnected, failed_attempt, listen, next,
    note, pool, soon, within,
};

/// A worker's server that asks for certificates; all its sockets close on drop.
struct Secret {
    port: u16,
    runtime: Option<Runtime>,
}

impl Secret {
    fn start(port: u16, node: Node, identity: Identity, clients: &Authority) -> Self {
        let tls = ServerTlsConfig::new()
            .identity(identity)
            .client_ca_root(clients.certificate());
        let mut builder = Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let inside = runtime.enter();
        let listener = listen(SocketAddr::from(([127, 0, 0, 1], port)));
        let port = listener.local_addr().expect("an address").port();
        let server = Server::builder()
            .tls_config(tls)
            .expect("a certificate and its key")
            .add_service(WorkerServer::new(node))
            .serve_with_incoming(TcpIncoming::from(listener).with_nodelay(Some(true)));
        runtime.spawn(server);
        drop(inside);
        Self {
            port,
            runtime: Some(runtime),
        }
    }

    /// A worker `w1` with this certificate.
    fn echo(identity: Identity, clients: &Authority) -> Self {
        Self::start(0, Node::echo("w1", 1), identity, clients)
    }

    fn uri(&self) -> String {
        format!("https://localhost:{}", self.port)
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn authority() -> Authority {
    Authority::new().expect("an authority")
}

fn issue(authority: &Authority, name: &str) -> Identity {
    authority.issue(name).expect("a certificate")
}

fn target(uri: String, tls: ClientTlsConfig) -> Endpoint {
    let endpoint = Endpoint::from_shared(uri).expect("an address");
    endpoint.tls_config(tls).expect("certificates")
}

/// What a controller of this authority brings.
fn certified(authority: &Authority) -> ClientTlsConfig {
    let identity = issue(authority, "controller");
    let tls = ClientTlsConfig::new().ca_certificate(authority.certificate());
    tls.identity(identity)
}

/// Inserts a target that fails, sees the attempt repeated, and returns its reason.
async fn reason(target: Endpoint) -> (String, Pool<Connect>, Events<Connect>) {
    let (pool, mut events) = pool(1);
    pool.insert("w1", target);
    let text = failed_attempt(&mut events).await;
    let again = failed_attempt(&mut events).await;
    // An expired certificate's text counts the seconds.
    assert_eq!(again.get(..30), text.get(..30));
    assert!(text.len() <= 320, "{text}");
    println!("{text}");
    (text, pool, events)
}

fn says(text: &str, what: &[&str]) {
    let lower = text.to_lowercase();
    let is_said = what.iter().any(|what| lower.contains(what));
    assert!(is_said, "none of {what:?} in: {text}");
}

#[tokio::test]
async fn the_example_serves_a_round_between_certified_ends() {
    let said = soon(mtls::run()).await.expect("it runs");
    assert!(said.contains("w1 answered over TLS"), "{said}");
}

#[tokio::test]
async fn a_worker_of_another_authority_is_a_failed_attempt_that_says_so() {
    let (own, other) = (authority(), authority());
    let host = Secret::echo(issue(&other, "localhost"), &own);
    let (text, ..) = reason(target(host.uri(), certified(&own))).await;
    says(&text, &["unknownissuer", "badsignature"]);
}

#[tokio::test]
async fn a_worker_of_another_name_is_a_failed_attempt_that_says_so() {
    let own = authority();
    let host = Secret::echo(issue(&own, "w2.example"), &own);
    let (text, ..) = reason(target(host.uri(), certified(&own))).await;
    says(&text, &["not valid for name"]);
    // The owner can say which name it means, whatever it dials.
    let tls = certified(&own).domain_name("w2.example");
    let (pool, mut events) = pool(1);
    pool.insert("w1", target(host.uri(), tls));
    connected(&mut events).await;
}

#[tokio::test]
async fn a_controller_without_a_certificate_is_a_failed_attempt_that_says_so() {
    let own = authority();
    let host = Secret::echo(issue(&own, "localhost"), &own);
    let tls = ClientTlsConfig::new().ca_certificate(own.certificate());
    let (text, ..) = reason(target(host.uri(), tls)).await;
    says(&text, &["certificaterequired", "certificate required"]);
}

#[tokio::test]
async fn a_controller_of_another_authority_is_a_failed_attempt_that_says_so() {
    let (own, other) = (authority(), authority());
    let host = Secret::echo(issue(&own, "localhost"), &own);
    let identity = issue(&other, "controller");
    let tls = ClientTlsConfig::new().ca_certificate(own.certificate());
    let (text, ..) = reason(target(host.uri(), tls.identity(identity))).await;
    says(
        &text,
        &["decrypterror", "unknownca", "badcertificate", "unknown ca"],
    );
}

#[tokio::test]
async fn plain_text_to_a_tls_port_is_a_failed_attempt() {
    let own = authority();
    let host = Secret::echo(issue(&own, "localhost"), &own);
    let plain = host.uri().replace("https", "http");
    let endpoint = Endpoint::from_shared(plain).expect("an address");
    let (text, ..) = reason(endpoint).await;
    says(&text, &["tls"]);
}

#[tokio::test]
async fn tls_to_a_plain_port_is_a_failed_attempt_that_says_so() {
    let own = authority();
    let node = Node::echo("w1", 1);
    let host = Host::start(node.clone());
    let uri = format!("https://localhost:{}", host.address.port());
    let (text, ..) = reason(target(uri.clone(), certified(&own))).await;
    says(&text, &["corrupt message", "invalidcontenttype"]);
    // Without any configuration there are no roots, and still no plain text.
    let endpoint = Endpoint::from_shared(uri).expect("an address");
    let (text, ..) = reason(endpoint).await;
    says(&text, &["tls", "corrupt message"]);
    assert_eq!(node.calls(), 0);
}

#[tokio::test]
async fn a_certificate_that_is_replaced_lets_the_worker_in_without_another_insert() {
    let own = authority();
    let mut expired = CertificateParams::new(["localhost".to_owned()]).expect("a name");
    expired.not_after = date_time_ymd(2020, 1, 1);
    let expired = own.sign(expired).expect("a certificate");
    let host = Secret::echo(expired, &own);
    let (text, pool, mut events) = reason(target(host.uri(), certified(&own))).await;
    says(&text, &["expired"]);
    let port = host.port;
    drop(host);
    let node = Node::echo("w1", 2);
    let _host = Secret::start(port, node, issue(&own, "localhost"), &own);
    assert_eq!(connected(&mut events).await.1, Some(2));
    pool.try_send("w1", command("secret")).expect("it is up");
    let message = next(&mut events).await.kind;
    assert_eq!(message, bidi_session::EventKind::Message(note("secret")));
}

#[tokio::test]
async fn both_ends_hear_of_a_session_s_end_at_once_under_tls() {
    let own = authority();
    let (node, mut sessions) = Node::played(Acceptor::new("w1", 1, 0));
    let identity = || issue(&own, "localhost");
    let host = Secret::start(0, node.clone(), identity(), &own);
    let (pool, mut events) = pool(1);
    pool.insert("w1", target(host.uri(), certified(&own)));
    connected(&mut events).await;
    let session = soon(sessions.recv()).await.expect("a session");
    // The worker does not read, so that the end must get past a full window.
    let mut sent = 0;
    while pool.try_send("w1", command(vec![0; 64 * 1024])).is_ok() {
        sent += 1;
        tokio::task::yield_now().await;
    }
    assert!(sent > 1);
    pool.remove("w1");
    within(AT_ONCE, session.sender().over()).await;
    disconnected(&mut events).await;
    pool.insert("w1", target(host.uri(), certified(&own)));
    next(&mut events).await;
    connected(&mut events).await;
    drop(host);
    within(AT_ONCE, disconnected(&mut events)).await;
}
