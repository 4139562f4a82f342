//! Reaches workers of the same process.

use std::any::type_name;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use tokio::sync::oneshot;

use super::line::{Dials, Line};
use super::network::{Network, Tenant};
use super::server::{Answer, Server, read};
use super::wire::{Side, Why, Wire};
use crate::connector::{Attempt, Connector, Direction, Failure, OpenClass, OpenError, Opened};
use crate::handshake::{Hello, Refusal, Welcome};
use crate::outbox::Outbox;

/// Reaches workers of the same process, by their address on a [`Network`].
///
/// Clones share the network.
pub struct Memory<Out, In> {
    network: Network,
    size: Arc<dyn Fn(&Out) -> usize + Send + Sync>,
    answers: Arc<Answers<In>>,
    greeting: Arc<Greeting<Out>>,
}

type Greeting<Out> = dyn Fn(&Attempt) -> Vec<Out> + Send + Sync;

type Answers<In> = dyn Fn(&In) -> Option<u64> + Send + Sync;

/// The pool's end of a connection; dropped, it is over.
struct PoolEnd<Out, In> {
    wire: Arc<Wire<Out, In>>,
    is_done: bool,
}

// ===== impl Memory =====

impl<Out, In> Memory<Out, In>
where
    Out: Send + 'static,
    In: Send + 'static,
{
    pub(super) fn new(network: Network) -> Self {
        Self {
            network,
            size: Arc::new(|_| 1),
            answers: Arc::new(|_| None),
            greeting: Arc::new(|_| Vec::new()),
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

    /// Tells the size of a message, bytes, as it counts against the outbox; 1 by default.
    #[must_use]
    pub fn with_size(mut self, size: impl Fn(&Out) -> usize + Send + Sync + 'static) -> Self {
        self.size = Arc::new(size);
        self
    }

    /// Sets the first messages of each stream, ahead of all others; by default none.
    #[must_use]
    pub fn with_greeting(
        mut self,
        greeting: impl Fn(&Attempt) -> Vec<Out> + Send + Sync + 'static,
    ) -> Self {
        self.greeting = Arc::new(greeting);
        self
    }

    async fn attempt(
        self,
        address: String,
        attempt: Attempt,
        outbox: Outbox<Out>,
    ) -> Result<Opened<In>, OpenError> {
        let line = self.network.line(&address);
        line.count(|counts| counts.dials += 1);
        let mut random = {
            let seed = self.network.seed_of(&address, line.counts().dials);
            fastrand::Rng::with_seed(seed)
        };
        let is_refused = dialed(&line).await;
        for direction in [Direction::ToWorker, Direction::FromWorker] {
            rest(line.way(direction).delay(&mut random)).await;
        }
        let tenant = self.network.tenant(&address).filter(|_| !is_refused);
        let Some(tenant) = tenant else {
            line.count(|counts| counts.dials_refused += 1);
            return unreachable(format!("{address}: connection refused"));
        };
        let server = server_of::<Out, In>(&address, &tenant)?;
        let keepalive = self.network.keepalive();
        let wire = Arc::new(Wire::new(line.clone(), keepalive, random.u64(..), outbox));
        let end = PoolEnd {
            wire: wire.clone(),
            is_done: false,
        };
        let (tell, told) = oneshot::channel();
        server.accept(wire.clone(), Hello::of(&attempt).to_fields(), tell);
        let answer = async {
            match told.await {
                Ok(answer) => answer,
                // The worker is gone; what the connection tells of it comes in time.
                Err(_) => std::future::pending().await,
            }
        };
        let answer = tokio::select! {
            biased;
            why = std::future::poll_fn(|cx| wire.poll_over(cx)) => {
                return unreachable(format!("{address}: {}", why.text(keepalive)));
            }
            answer = async {
                let answer = answer.await;
                arrived(&line, &mut random).await;
                answer
            } => answer,
        };
        let incarnation = admitted(answer, &attempt)?;
        let kill = move || {
            wire.end(Side::Pool, Why::Left);
        };
        Ok(Opened::new(end, Some(incarnation), kill))
    }
}

impl<Out, In> Connector for Memory<Out, In>
where
    Out: Send + 'static,
    In: Send + 'static,
{
    type Target = String;
    type Out = Out;
    type In = In;

    fn is_same(&self, one: &String, other: &String) -> bool {
        one == other
    }

    fn describe(&self, target: &String) -> String {
        target.clone()
    }

    fn size(&self, message: &Out) -> usize {
        (self.size)(message)
    }

    fn greeting(&self, attempt: &Attempt) -> Vec<Out> {
        (self.greeting)(attempt)
    }

    fn answers(&self, message: &In) -> Option<u64> {
        (self.answers)(message)
    }

    fn open(
        &self,
        target: String,
        attempt: Attempt,
        outbox: Outbox<Out>,
    ) -> impl Future<Output = Result<Opened<In>, OpenError>> + Send + 'static {
        self.clone().attempt(target, attempt, outbox)
    }
}

impl<Out, In> Clone for Memory<Out, In> {
    fn clone(&self) -> Self {
        Self {
            network: self.network.clone(),
            size: self.size.clone(),
            answers: self.answers.clone(),
            greeting: self.greeting.clone(),
        }
    }
}

impl<Out, In> fmt::Debug for Memory<Out, In> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory")
            .field("network", &self.network)
            .finish_non_exhaustive()
    }
}

// ===== Dials =====

fn server_of<Out, In>(address: &str, tenant: &Tenant) -> Result<Arc<Server<Out, In>>, OpenError>
where
    Out: Send + 'static,
    In: Send + 'static,
{
    let server = tenant.server.clone().downcast();
    server.map_err(|_| {
        let [out, back] = tenant.messages;
        let (own, own_back) = (type_name::<Out>(), type_name::<In>());
        let text = format!(
            "{address}: the worker takes {out:.60} and sends {back:.60}, \
             the pool sends {own:.60} and takes {own_back:.60}"
        );
        OpenError::new(OpenClass::Refused, text)
    })
}

/// Waits until a dial gets an answer; says whether it is a refusal.
async fn dialed(line: &Line) -> bool {
    let mut is_held = false;
    loop {
        // Listens before it looks, so that a change in between is seen.
        let changed = line.changed();
        match line.dials() {
            Dials::Refuse => return true,
            Dials::Pass if line.is_whole() => return false,
            Dials::Pass | Dials::Hang => {}
        }
        if !is_held {
            is_held = true;
            line.count(|counts| counts.dials_held += 1);
        }
        changed.await;
    }
}

/// Waits until an answer has come the way from the worker.
async fn arrived(line: &Line, random: &mut fastrand::Rng) {
    loop {
        let changed = line.changed();
        let way = line.way(Direction::FromWorker);
        if !way.is_cut {
            return rest(way.delay(random)).await;
        }
        changed.await;
    }
}

async fn rest(delay: Duration) {
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
}

/// Returns the incarnation of a worker that admits the stream.
fn admitted(answer: Answer, attempt: &Attempt) -> Result<u64, OpenError> {
    let malformed = |why| OpenError::new(OpenClass::Refused, why);
    match answer {
        Answer::Welcome(fields) => {
            let welcome = Welcome::from_fields(read(&fields)).map_err(malformed)?;
            let none = || malformed("no handshake".to_owned());
            welcome.ok_or_else(none)?.check(attempt)
        }
        Answer::Refused(fields, text) => {
            let refusal = Refusal::from_fields(read(&fields), &text);
            let class = refusal.map_or(OpenClass::Refused, |refusal| refusal.class(attempt.term));
            Err(OpenError::new(class, text))
        }
        Answer::Closed => unreachable("the worker's acceptor was closed".to_owned()),
    }
}

fn unreachable<T>(text: String) -> Result<T, OpenError> {
    Err(OpenError::new(OpenClass::Unreachable, text))
}

// ===== impl PoolEnd =====

impl<Out, In> Stream for PoolEnd<Out, In> {
    type Item = Result<In, Failure>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if this.is_done {
            return Poll::Ready(None);
        }
        let Poll::Ready(next) = this.wire.poll_pool(cx) else {
            return Poll::Pending;
        };
        let next = next.transpose();
        this.is_done = !matches!(next, Some(Ok(_)));
        Poll::Ready(next)
    }
}

impl<Out, In> Drop for PoolEnd<Out, In> {
    fn drop(&mut self) {
        self.wire.end(Side::Pool, Why::Left);
    }
}
