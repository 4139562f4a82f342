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
use futures_util::StreamExt;
use tokio::time::timeout;

use super::dial::Dial;
use super::failure::{describe, shorten, status_text};
use super::kill::KillSwitch;
use super::pings::Pings;
use super::resolver::Resolver;
use super::{KEEPALIVE_TIMEOUT, metadata};
use crate::connector::{Attempt, Connector, Failure, OpenClass, OpenError, Opened};
use crate::handshake::{Hello, Refusal, Welcome};
use crate::outbox::Outbox;

/// How long a worker may take to answer the call: longer than an acceptor waits for an
/// older handler to stop, and shorter than the default bound of the whole attempt, so
/// that its text is the one that is told.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(8);

/// What a server has to do that does not speak the handshake.
const HOW_TO_ANSWER: &str =
    "a worker must answer the call with the session handshake before it reads, as `Acceptor` does";

/// Reaches workers over gRPC, through any bidirectional method of a generated client.
///
/// Each attempt looks the name up, opens a connection of its own and calls the method
/// once. The session owns that connection and cuts it at its end, so the worker notices
/// at once. Clones share the look-ups.
///
/// The endpoint's own settings hold, but for these: its HTTP/2 keepalive is replaced by
/// 5 s + 5 s while idle (300 s for an address that answered "too many pings"), a Unix
/// socket's path, a local address and TCP keepalive are not used. TLS of the endpoint is
/// used, with the TLS features of the `tonic` crate.
pub struct Tonic<Out, In> {
    call: Arc<Call<Out, In>>,
    size: Arc<dyn Fn(&Out) -> usize + Send + Sync>,
    answers: Arc<Answers<In>>,
    resolver: Resolver,
    pings: Arc<Pings>,
}

type Call<Out, In> = dyn Fn(Channel, Request<Outbox<Out>>) -> Calling<In> + Send + Sync;

type Answers<In> = dyn Fn(&In) -> Option<u64> + Send + Sync;

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
        let address = target.uri().to_string();
        let endpoint = target
            .http2_keep_alive_interval(self.pings.interval(&address))
            .keep_alive_timeout(KEEPALIVE_TIMEOUT)
            .keep_alive_while_idle(true);
        let switch = KillSwitch::new();
        // Held by this future first and by the session later: whichever ends, so does
        // the connection.
        let guard = switch.kill_on_drop();
        let dial = Dial::new(self.resolver.clone(), switch, endpoint.get_tcp_nodelay());
        let channel = endpoint
            .connect_with_connector(dial)
            .await
            .map_err(|error| unreachable(describe(&error)))?;
        let mut request = Request::new(outbox);
        metadata::write(Hello::of(&attempt).to_fields(), request.metadata_mut());
        let answer = timeout(HANDSHAKE_TIMEOUT, (self.call)(channel, request)).await;
        let answer = answer.map_err(|_| unreachable(silent()))?;
        let answer = answer.map_err(|status| {
            self.pings.note(&address, &status);
            refused(&status, attempt.term)
        })?;
        let (headers, inbound, _) = answer.into_parts();
        let incarnation = welcome(&headers, &attempt)?;
        let pings = self.pings;
        let inbound = inbound.map(move |message| {
            message.map_err(|status| {
                pings.note(&address, &status);
                Failure::new(status_text(&status))
            })
        });
        Ok(Opened::new(inbound, Some(incarnation), move || drop(guard)))
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
    let refuse = |text: String| Err(OpenError::new(OpenClass::Refused, shorten(text)));
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

/// Says what a failed call means for the next attempt.
fn refused(status: &Status, term: u64) -> OpenError {
    let fields = metadata::read(status.metadata());
    let Some(refusal) = Refusal::from_fields(fields, status.message()) else {
        let class = match status.code() {
            Code::Unauthenticated | Code::PermissionDenied | Code::Unimplemented => {
                OpenClass::Refused
            }
            _ => OpenClass::Unreachable,
        };
        return OpenError::new(class, status_text(status));
    };
    let class = refusal.class(term);
    OpenError::new(class, shorten(refusal.to_string()))
}

fn unreachable(text: String) -> OpenError {
    OpenError::new(OpenClass::Unreachable, text)
}

fn silent() -> String {
    format!(
        "no answer within {} s: {HOW_TO_ANSWER}",
        HANDSHAKE_TIMEOUT.as_secs()
    )
}

#[cfg(test)]
mod tests;
