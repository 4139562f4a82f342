//! One session's time: its handler runs, and leaves nothing behind.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

use futures_core::Stream;
use tokio::time::timeout;

use super::door::{HANDLER_GRACE, Place};
use super::link::{Break, End, Ending, Inbound, Link};
use super::session::Session;

/// One session's time; its end is an abnormal one unless another came first.
pub(crate) struct Tenure<Out> {
    // Ended before the place is free.
    link: Arc<Link<Out>>,
    _place: Place,
}

/// Cuts the request stream when the handler is gone, however it went.
struct Cut<In>(Arc<Inbound<In>>);

// ===== impl Tenure =====

impl<Out> Tenure<Out> {
    pub(super) fn new(link: Arc<Link<Out>>, place: Place) -> Self {
        Self {
            link,
            _place: place,
        }
    }

    /// Runs the handler with the session, at most 5 s beyond its end.
    pub(crate) async fn run<In, F, Fut>(
        self,
        requests: impl Stream<Item = Result<In, Break>> + Send + 'static,
        handler: F,
    ) where
        F: FnOnce(Session<In, Out>) -> Fut,
        Fut: Future<Output = ()>,
    {
        let inbound = Arc::new(Inbound::new(requests));
        let link = &self.link;
        let cut = Cut(inbound.clone());
        // Declared last, so that the handler is dropped before its place is free.
        let mut handler = pin!(handler(Session::new(link.clone(), inbound)));
        let has_returned = tokio::select! {
            biased;
            () = &mut handler => true,
            () = link.over().cancelled() => false,
        };
        if has_returned {
            link.end(Ending::Returned);
            return;
        }
        cut.0.cut();
        if timeout(HANDLER_GRACE, handler).await.is_err() {
            tracing::warn!(
                term = link.term,
                generation = link.generation,
                "handler dropped 5 s after its session"
            );
        }
    }
}

impl<Out> Drop for Tenure<Out> {
    fn drop(&mut self) {
        self.link.end(Ending::HandlerGone);
        if let Some(reason) = self.link.ending() {
            let (term, generation) = (self.link.term, self.link.generation);
            tracing::info!(term, generation, %reason, "session ended");
        }
    }
}

// ===== impl Cut =====

impl<In> Drop for Cut<In> {
    fn drop(&mut self) {
        self.0.cut();
    }
}
