//! All three crates in one file: who leads sends barriers to a worker over gRPC and commits.
//!
//! `cargo run -p examples --bin all-three` leads twice, one term after the other. With a
//! real store put `EtcdElection::connect(..)` in the place of the election in memory, the
//! worker into a process of its own, and your effect where an epoch is committed.

use std::{error::Error, net::SocketAddr, time::Duration};

use bidi_session::tonic::{Acceptor, KEEPALIVE_INTERVAL, KEEPALIVE_TIMEOUT, SessionStream, Tonic};
use bidi_session::{Pool, PoolConfig};
use fencing::{Fence, Guard, Watchdog, WatchdogConfig};
use leader_election::{Election, ElectionConfig, Leadership, MemoryElection};
use tokio::{net::TcpListener, task::JoinSet};
use tonic::transport::{Endpoint, Server, server::TcpIncoming};
use tonic::{Request, Response, Status, Streaming};

use worker_v1::worker_client::WorkerClient;
use worker_v1::worker_server::{Worker, WorkerServer};
use worker_v1::{Command, Reply};

#[allow(
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    clippy::all,
    clippy::allow_attributes_without_reason,
    clippy::too_many_lines,
    reason = "generated"
)]
mod worker_v1 {
    include!("../../../bidi-session/tests/gen/worker.v1.rs");
}

const WAIT: Duration = Duration::from_secs(30);

type Commands = Request<Streaming<Command>>;
type Outcome = Result<(), Box<dyn Error>>;

fn barrier(epoch: u64) -> Command {
    let body = b"barrier".to_vec();
    Command { epoch, body }
}

/// The worker: one session at a time, of the highest term; its fence outlives the session.
struct Node(Acceptor, Fence);

#[tonic::async_trait]
impl Worker for Node {
    type ControlStream = SessionStream<Reply>;

    async fn control(&self, request: Commands) -> Result<Response<SessionStream<Reply>>, Status> {
        let fence = self.1.clone();
        let serve = self.0.serve(request, |mut session| async move {
            while let Some(Command { epoch, body }) = session.recv().await {
                // Held until the effect is in place: nothing of a lower term comes after it.
                let admitted = fence.admit(session.term()).await;
                let reply = Reply {
                    epoch: Some(epoch),
                    body,
                };
                if admitted.is_err() || session.send(reply).await.is_err() {
                    break;
                }
            }
        });
        serve.await
    }

    async fn apply(&self, _: Request<Command>) -> Result<Response<Reply>, Status> {
        Err(Status::unimplemented("streams only"))
    }
}

/// One term: a pool of its own, barriers, and a commit for each under permit and token.
async fn lead(led: &Leadership, guard: &Guard, worker: SocketAddr, journal: &Fence) -> Outcome {
    let term = led.token();
    let call = |channel, request| async move { WorkerClient::new(channel).control(request).await };
    let connect = Tonic::new(call).with_answers(|reply: &Reply| reply.epoch);
    let (pool, _events) = Pool::new(connect, PoolConfig::new(term).with_scope(led.scope()));
    pool.insert("w1", Endpoint::from_shared(format!("http://{worker}"))?); // retried until removed
    pool.ready(["w1"], WAIT).await?;
    for epoch in 1..=3 {
        let round = pool.inject(epoch, ["w1"], |_| barrier(epoch))?; // all queued, or none
        let answers = round.collect(WAIT).await?.len();
        let _permit = guard.permit()?; // refused once the lease may be over
        let _admission = journal.admit(term).await?; // refused once a higher term was here
        println!("term {term} commits epoch {epoch}, answers: {answers}");
    }
    pool.close().await;
    Ok(())
}

/// Leads twice, each time until the work of the term is done.
async fn campaign(worker: SocketAddr) -> Outcome {
    let watchdog = Watchdog::start(WatchdogConfig::default())?; // before anything is led
    let config = ElectionConfig::default().with_reserve(watchdog.reserve());
    let election = MemoryElection::new(config, 1);
    let journal = Fence::new(); // `Fence::open(path)` survives a restart
    for _ in 0..2 {
        let leadership = election.campaign(b"node-1").await?;
        let guard = watchdog.guard(leadership.token(), leadership.deadline())?;
        let renewed = guard.clone();
        leadership.follow(move |deadline| renewed.extend(deadline)); // renewal or loss
        let led = lead(&leadership, &guard, worker, &journal);
        let led = guard.run(led).await; // dropped from the cancel point on
        guard.finish().await; // no permit is held from here on
        leadership.resign().await; // the next one may start at once
        led??;
    }
    Ok(())
}

// So far the pattern; the rest is a worker's server, which has two settings to make.

#[tokio::main]
async fn main() -> Outcome {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let worker = listener.local_addr()?;
    let service = WorkerServer::new(Node(Acceptor::new("w1", 1, 0), Fence::new()));
    let server = Server::builder()
        .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
        .add_service(service)
        .serve_with_incoming(TcpIncoming::from(listener).with_nodelay(Some(true)));
    let mut tasks = JoinSet::new(); // ends the worker with this function
    tasks.spawn(server);
    campaign(worker).await
}
