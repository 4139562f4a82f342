//! What serves at an address: an acceptor, and the handler of its sessions.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::wire::{Watch, Wire};
use crate::acceptor::{Acceptor, Break, Session, Unadmitted};
use crate::handshake::{Fields, Hello, Refusal};

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What serves at an address, for messages of these types.
pub(super) struct Server<Out, In> {
    acceptor: Acceptor,
    handler: Box<dyn Fn(Session<Out, In>) -> Work + Send + Sync>,
    runtime: Handle,
    killed: CancellationToken,
}

/// What the controller is answered.
pub(super) enum Answer {
    Welcome(Fields),
    Refused(Fields, String),
    Closed,
}

/// The worker's end of a connection: the messages to it.
struct WorkerEnd<Out, In>(Arc<Wire<Out, In>>);

// ===== impl Server =====

impl<Out: Send + 'static, In: Send + 'static> Server<Out, In> {
    /// Serves on the present runtime.
    pub(super) fn new<F, Fut>(acceptor: Acceptor, handler: F) -> Self
    where
        F: Fn(Session<Out, In>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        Self {
            acceptor,
            handler: Box::new(move |session| Box::pin(handler(session))),
            runtime: Handle::current(),
            killed: CancellationToken::new(),
        }
    }

    pub(super) fn killed(&self) -> &CancellationToken {
        &self.killed
    }

    /// Takes a connection whose controller says `hello`, and answers it.
    pub(super) fn accept(
        self: Arc<Self>,
        wire: Arc<Wire<Out, In>>,
        hello: Fields,
        tell: oneshot::Sender<Answer>,
    ) {
        let (killed, runtime) = (self.killed.clone(), self.runtime.clone());
        let watch = Watch(wire.clone());
        let work = runtime.spawn(async move { self.serve(wire, hello, tell).await });
        runtime.spawn(watch.run(killed, work));
    }

    async fn serve(&self, wire: Arc<Wire<Out, In>>, hello: Fields, tell: oneshot::Sender<Answer>) {
        let hello = match Hello::from_fields(read(&hello)) {
            Ok(hello) => hello,
            Err(why) => {
                let refusal = self.acceptor.refuse_malformed(why);
                return answer(tell, Answer::refused(&refusal));
            }
        };
        let admission = tokio::select! {
            biased;
            () = wire.worker_over().cancelled() => return,
            admission = self.acceptor.admit(&hello) => admission,
        };
        match admission {
            Ok(admission) => {
                wire.start(admission.replies);
                answer(tell, Answer::Welcome(admission.welcome.to_fields()));
                let requests = WorkerEnd(wire.clone());
                admission.tenure.run(requests, &self.handler).await;
                wire.handler_returned();
            }
            Err(Unadmitted::Refused(refusal)) => answer(tell, Answer::refused(&refusal)),
            Err(Unadmitted::Closed) => answer(tell, Answer::Closed),
        }
    }
}

// ===== impl Answer =====

impl Answer {
    fn refused(refusal: &Refusal) -> Self {
        Self::Refused(refusal.to_fields(), refusal.to_string())
    }
}

fn answer(tell: oneshot::Sender<Answer>, answer: Answer) {
    // Who no longer waits for it has given up the attempt.
    let _ = tell.send(answer);
}

/// Returns a reader of fields.
pub(super) fn read<'a>(fields: &'a Fields) -> impl Fn(&'static str) -> Option<&'a str> {
    move |name| {
        let found = fields.iter().find(|(field, _)| *field == name);
        found.map(|(_, value)| value.as_str())
    }
}

// ===== impl WorkerEnd =====

impl<Out, In> Stream for WorkerEnd<Out, In> {
    type Item = Result<Out, Break>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_worker(cx).map(|message| message.map(Ok))
    }
}
