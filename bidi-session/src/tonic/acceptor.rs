//! The handshake of a worker, and its session over a gRPC stream.

use std::future::Future;

use ::tonic::{Request, Response, Status, Streaming};
use futures_util::StreamExt;

use super::metadata;
use super::stream::{Fault, SessionStream};
use crate::acceptor::{Acceptor, Session, Unadmitted};
use crate::handshake::Hello;

// ===== impl Acceptor =====

impl Acceptor {
    /// Answers a call: refuses it, or runs `handler` with its session.
    ///
    /// Call it first in the service's method and return what it returns: the response
    /// goes out before a message is read, which the controller waits for. The handler
    /// runs on a task of its own. When the session is over it has 5 s to return, then it
    /// is dropped. A handler that returns ends the stream cleanly after its queued
    /// messages; any other end reaches the controller as an error.
    ///
    /// A controller that vanished without a word is noticed by the server's keepalive only:
    ///
    /// ```
    /// use bidi_session::tonic::{KEEPALIVE_INTERVAL, KEEPALIVE_TIMEOUT};
    /// let server = tonic::transport::Server::builder()
    ///     .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
    ///     .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT));
    /// ```
    ///
    /// # Errors
    ///
    /// A status that says why the stream is refused, which the pool understands.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a dropped call gives its place back. The end of the older session,
    /// and a higher term, stay.
    pub async fn serve<In, Out, F, Fut>(
        &self,
        request: Request<Streaming<In>>,
        handler: F,
    ) -> Result<Response<SessionStream<Out>>, Status>
    where
        In: Send + 'static,
        Out: Send + 'static,
        F: FnOnce(Session<In, Out>) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let hello = Hello::from_fields(metadata::read(request.metadata()))
            .map_err(|why| metadata::refused(&self.refuse_malformed(why)))?;
        let admission = self.admit(&hello).await.map_err(|why| status(&why))?;
        // The stream comes before the task: dropped with the response, it ends the session.
        let fault = Fault::default();
        let mut response = Response::new(SessionStream::new(admission.replies, fault.clone()));
        metadata::write(admission.welcome.to_fields(), response.metadata_mut());
        let requests = request.into_inner();
        let requests = requests.map(move |message| message.map_err(|status| fault.note(status)));
        tokio::spawn(admission.tenure.run(requests, handler));
        Ok(response)
    }
}

fn status(why: &Unadmitted) -> Status {
    match why {
        Unadmitted::Refused(refusal) => metadata::refused(refusal),
        Unadmitted::Closed => Status::unavailable("the worker's acceptor was closed"),
    }
}
