//! Reaches workers over gRPC, through any bidirectional method.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ::tonic::metadata::MetadataMap;
use ::tonic::transport::{Channel, Endpoint};
use ::tonic::{Code, Request, Response, Status, Streaming};
use tokio::time::timeout;

use super::dial::Dial;
use super::failure::describe;
use super::goodbye::Goodbye;
use super::inbound::Inbound;
use super::kill::KillSwitch;
use super::pings::{Leave, Pings};
use super::resolver::Resolver;
use super::{KEEPALIVE_TIMEOUT, metadata};
use crate::connector::{Attempt, Connector, OpenClass, OpenError, Opened};
use crate::handshake::{Hello, Refusal, Welcome};
use crate::outbox::Outbox;

/// How long a worker may take to answer the call: longer than an acceptor waits for an
/// older handler to stop, and shorter than the default bound of the whole attempt, so
/// that its text is the one that is told.
pub(super) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(8);

/// Largest message that is sent, by default: what gRPC servers take by default.
const MAX_MESSAGE_BYTES: usize = 4 * 1024 * 1024;

/// What `tonic` shows as the address of a Unix socket.
const UNIX_SOCKET: &str = "http://tonic/";

/// What a server has to do that does not speak the handshake.
const HOW_TO_ANSWER: &str = "a worker must answer the call with the session handshake before it reads, as `Acceptor` does; \
     for other servers there is `Handshake::Off`";

/// What the owner has to do for a server that waits for a message.
const HOW_TO_GREET: &str =
    "a server that reads before it answers needs a first message, see `Tonic::with_greeting`";

/// Reaches workers over gRPC, through any bidirectional method of a generated client.
///
/// Each attempt looks the name up, opens a connection of its own and calls the method
/// once. The session owns that connection and cuts it at its end, so the worker notices
/// at once. Clones share the look-ups.
///
/// The endpoint's own settings hold, but for these: its HTTP/2 keepalive is replaced by
/// 5 s + 5 s while idle, a Unix socket's path, a local address and TCP keepalive are not
/// used. TLS of the endpoint is used, with the TLS features of the `tonic` crate.
///
/// An address that complains of too many pings is pinged every 300 s from then on. gRPC in
/// Go complains when it closes the connection, which cannot be heard over TLS: such a
/// server has to permit pings every 5 s.
pub struct Tonic<Out, In> {
    call: Arc<Call<Out, In>>,
    size: Arc<dyn Fn(&Out) -> usize + Send + Sync>,
    answers: Arc<Answers<In>>,
    greeting: Arc<Greeting<Out>>,
    handshake: Handshake,
    max_message_bytes: usize,
    resolver: Resolver,
    pings: Arc<Pings>,
}

/// What the pool and a worker say to each other before the first message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Handshake {
    /// In the metadata of the call and of its response, as `Acceptor` and the page
    /// `docs/handshake.md` have it.
    #[default]
    Metadata,
    /// Nothing, for servers that do not know this crate. A session begins when the
    /// response's headers arrive. A server that reads a message before it answers needs
    /// a [greeting](Tonic::with_greeting).
    ///
    /// Nobody checks then that the right worker answers, and no worker refuses a lower
    /// term: that is left to the messages. An expected incarnation is refused, since
    /// nobody tells the actual one.
    Off,
}

type Call<Out, In> = dyn Fn(Channel, Request<Outbox<Out>>) -> Calling<In> + Send + Sync;

type Answers<In> = dyn Fn(&In) -> Option<u64> + Send + Sync;

type Greeting<Out> = dyn Fn(&Attempt) -> Vec<Out> + Send + Sync;

type Calling<In> = Pin<Box<dyn Future<Output = Result<Response<Streaming<In>>, Status>> + Send>>;

// ===== impl Tonic =====

impl<Out, In> Tonic<Out, In>
where
    Out: prost::Message + 'static,
    In: Send + 'static,
{
    /// Opens streams by this call of a generated client.
    ///
    /// The call gets a fresh channel and the request, whose metadata carries the
    /// handshake and whose message is the stream of what is sent; it may add metadata.
    pub fn new<F, Fut>(call: F) -> Self
    where
        F: Fn(Channel, Request<Outbox<Out>>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Response<Streaming<In>>, Status>> + Send + 'static,
    {
        Self {
            call: Arc::new(move |channel, request| Box::pin(call(channel, request))),
            size: Arc::new(prost::Message::encoded_len),
            answers: Arc::new(|_| None),
            greeting: Arc::new(|_| Vec::new()),
            handshake: Handshake::Metadata,
            max_message_bytes: MAX_MESSAGE_BYTES,
            resolver: Resolver::system(),
            pings: Arc::default(),
        }
    }

    /// Tells the round that a message answers; by default none does.
    #[must_use]
    pub fn with_answers(
        mut self,
        answers: impl Fn(&In) -> Option<u64> + Send + Sync + 'static,
    ) -> Self {
        self.answers = Arc::new(answers);
        self
    }

    /// Sets the first messages of each stream, ahead of all others; by default none.
    ///
    /// Called once for each stream, before it opens, so a stream that the worker then
    /// refuses has called it too. It must not block. A panic, and messages that do not
    /// fit the outbox, are a failed attempt.
    #[must_use]
    pub fn with_greeting(
        mut self,
        greeting: impl Fn(&Attempt) -> Vec<Out> + Send + Sync + 'static,
    ) -> Self {
        self.greeting = Arc::new(greeting);
        self
    }

    /// Sets the handshake; [`Handshake::Metadata`] by default.
    #[must_use]
    pub fn with_handshake(mut self, handshake: Handshake) -> Self {
        self.handshake = handshake;
        self
    }

    /// Sets the size of the largest message that is sent; default 4 MiB, which is what
    /// gRPC servers take unless told otherwise. The pool's `outbox_bytes`, 1 MiB unless set,
    /// bounds it too: raise both for larger messages.
    ///
    /// A larger one is refused before it is queued, and the session stays up. Where the
    /// worker's own limit is lower, or it sends more than the generated client decodes
    /// (`max_decoding_message_size`, 4 MiB), the session ends with
    /// [`FailureKind::TooLarge`](crate::FailureKind::TooLarge).
    #[must_use]
    pub fn with_max_message_bytes(mut self, bytes: usize) -> Self {
        self.max_message_bytes = bytes;
        self
    }

    /// Replaces the system's look-up of a host and port.
    ///
    /// It is asked at each attempt and may block: it runs on threads of its own, at most
    /// 256, and at most one per name. IP addresses are not looked up.
    #[must_use]
    pub fn with_resolver(
        mut self,
        look_up: impl Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync + 'static,
    ) -> Self {
        self.resolver = Resolver::new(Box::new(look_up));
        self
    }
}

impl<Out, In> Tonic<Out, In>
where
    Out: Send + 'static,
    In: Send + 'static,
{
    async fn attempt(
        self,
        target: Endpoint,
        attempt: Attempt,
        outbox: Outbox<Out>,
    ) -> Result<Opened<In>, OpenError> {
        if self.handshake == Handshake::Off && attempt.incarnation.is_some() {
            let text = "an incarnation is expected, which nobody tells without a handshake";
            return Err(OpenError::new(OpenClass::Refused, text));
        }
        let address = target.uri().to_string();
        if address == UNIX_SOCKET {
            let text = "Unix sockets are not supported: give an address such as http://host:7000";
            return Err(OpenError::new(OpenClass::Refused, text));
        }
        let endpoint = target
            .http2_keep_alive_interval(self.pings.interval(&address))
            .keep_alive_timeout(KEEPALIVE_TIMEOUT)
            .keep_alive_while_idle(true);
        let switch = KillSwitch::new();
        // Held by this future first and by the session later: whichever ends, so does
        // the connection.
        let guard = switch.kill_on_drop();
        let goodbye = Goodbye::default();
        let leave = Leave::new(self.pings, address, goodbye.clone());
        let has_no_delay = endpoint.get_tcp_nodelay();
        let dial = Dial::new(self.resolver.clone(), switch, goodbye, has_no_delay);
        let channel = endpoint
            .connect_with_connector(dial)
            .await
            .map_err(|error| unreachable(describe(&error)))?;
        let mut request = Request::new(outbox);
        if self.handshake == Handshake::Metadata {
            metadata::write(Hello::of(&attempt).to_fields(), request.metadata_mut());
        }
        let answer = timeout(HANDSHAKE_TIMEOUT, (self.call)(channel, request)).await;
        let answer = answer.map_err(|_| unreachable(silent(self.handshake)))?;
        let answer =
            answer.map_err(|status| refused(&status, leave.take(&status), attempt.term))?;
        let (headers, inbound, _) = answer.into_parts();
        let incarnation = match self.handshake {
            Handshake::Metadata => Some(welcome(&headers, &attempt)?),
            Handshake::Off => speaks_grpc(&headers).map(|()| None)?,
        };
        let inbound = Inbound::new(inbound, leave);
        Ok(Opened::new(inbound, incarnation, move || drop(guard)))
    }
}

impl<Out, In> Connector for Tonic<Out, In>
where
    Out: Send + 'static,
    In: Send + 'static,
{
    type Target = Endpoint;
    type Out = Out;
    type In = In;

    fn is_same(&self, one: &Endpoint, other: &Endpoint) -> bool {
        one.uri() == other.uri()
    }

    fn describe(&self, target: &Endpoint) -> String {
        target.uri().to_string()
    }

    fn size(&self, message: &Out) -> usize {
        (self.size)(message)
    }

    fn greeting(&self, attempt: &Attempt) -> Vec<Out> {
        (self.greeting)(attempt)
    }

    fn max_size(&self) -> usize {
        self.max_message_bytes
    }

    fn answers(&self, message: &In) -> Option<u64> {
        (self.answers)(message)
    }

    fn open(
        &self,
        target: Endpoint,
        attempt: Attempt,
        outbox: Outbox<Out>,
    ) -> impl Future<Output = Result<Opened<In>, OpenError>> + Send + 'static {
        self.clone().attempt(target, attempt, outbox)
    }
}

impl<Out, In> Clone for Tonic<Out, In> {
    fn clone(&self) -> Self {
        Self {
            call: self.call.clone(),
            size: self.size.clone(),
            answers: self.answers.clone(),
            greeting: self.greeting.clone(),
            handshake: self.handshake,
            max_message_bytes: self.max_message_bytes,
            resolver: self.resolver.clone(),
            pings: self.pings.clone(),
        }
    }
}

impl<Out, In> fmt::Debug for Tonic<Out, In> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tonic")
            .field("resolver", &self.resolver)
            .finish_non_exhaustive()
    }
}

// ===== Handshake =====

/// Checks that the worker that is meant answered, and returns its incarnation.
fn welcome(headers: &MetadataMap, attempt: &Attempt) -> Result<u64, OpenError> {
    let refuse = |text: String| Err(OpenError::new(OpenClass::Refused, text));
    let welcome = match Welcome::from_fields(metadata::read(headers)) {
        Ok(Some(welcome)) => welcome,
        Ok(None) => {
            return refuse(format!(
                "the server answered without a handshake: {HOW_TO_ANSWER}"
            ));
        }
        Err(why) => return refuse(format!("the worker's handshake cannot be read: {why}")),
    };
    welcome.check(attempt)
}

/// Checks that what answered is no web server, whose answer the client takes for a stream.
fn speaks_grpc(headers: &MetadataMap) -> Result<(), OpenError> {
    let kind = headers.get("content-type").map(|kind| kind.as_bytes());
    if kind.is_some_and(|kind| kind.starts_with(b"application/grpc")) {
        return Ok(());
    }
    let kind = String::from_utf8_lossy(kind.unwrap_or(b"none"));
    let text = format!("the server answers without gRPC: its content type is {kind:.64}");
    Err(OpenError::new(OpenClass::Refused, text))
}

/// Says what a failed call means for the next attempt; `text` says how it ended.
fn refused(status: &Status, text: String, term: u64) -> OpenError {
    let fields = metadata::read(status.metadata());
    let Some(refusal) = Refusal::from_fields(fields, status.message()) else {
        let class = match status.code() {
            Code::Unauthenticated | Code::PermissionDenied | Code::Unimplemented => {
                OpenClass::Refused
            }
            _ => OpenClass::Unreachable,
        };
        return OpenError::new(class, text);
    };
    let class = refusal.class(term);
    OpenError::new(class, refusal.to_string())
}

fn unreachable(text: String) -> OpenError {
    OpenError::new(OpenClass::Unreachable, text)
}

fn silent(handshake: Handshake) -> String {
    let hint = match handshake {
        Handshake::Metadata => HOW_TO_ANSWER,
        Handshake::Off => HOW_TO_GREET,
    };
    format!("no answer within {} s: {hint}", HANDSHAKE_TIMEOUT.as_secs())
}

#[cfg(test)]
mod tests;
