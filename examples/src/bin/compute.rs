//! A worker of a barrier loop as a process of its own.

use std::net::TcpListener;
use std::process::ExitCode;
use std::time::Duration;

use bidi_session::tonic::Acceptor;
use examples::cli::ComputeArgs;
use examples::compute::{Counter, Node, serve};
use examples::etcd::{Ended, Keys, Link, Registration};
use examples::input::Parts;
use examples::process::code::DONE;
use examples::process::{self, cancel_on_signal, exit};
use examples::store::Output;
use fencing::{Fence, OpenError};
use leader_election::{ElectionConfig, etcd::EtcdElection};
use tokio_util::sync::CancellationToken;

const PROGRAM: &str = "compute";

/// Pause before etcd is asked again for the scope of tokens.
const AGAIN: Duration = Duration::from_millis(200);

type Error = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> ExitCode {
    let args = match process::arguments::<ComputeArgs>(PROGRAM) {
        Ok(args) => args,
        Err(code) => return exit(code),
    };
    process::log_to_stderr(args.place.verbose);
    args.place.apply_controls();
    let stop = CancellationToken::new();
    let never = async {
        cancel_on_signal(stop.clone()).await;
        std::future::pending().await
    };
    let ended = tokio::select! {
        ended = count(&args, &stop) => ended,
        ended = never => ended,
    };
    match ended {
        Ok(()) => exit(DONE),
        Err(error) => exit(process::complain(PROGRAM, &error.to_string())),
    }
}

/// Counts until it is told to stop.
async fn count(args: &ComputeArgs, stop: &CancellationToken) -> Result<(), Error> {
    let output = Output::open_shared(&args.place.out)?;
    let fence = open_fence(args, &output)?;
    let listener = TcpListener::bind(args.listen)
        .map_err(|error| format!("cannot listen on {}: {error}", args.listen))?;
    listener.set_nonblocking(true)?;
    let bound = listener.local_addr()?;
    let address = match &args.advertise {
        Some(place) if place.contains(':') => place.clone(),
        Some(host) => format!("{host}:{}", bound.port()),
        None => bound.to_string(),
    };
    let (link, keys) = (
        Link::new(&args.place.store.etcd),
        Keys::new(&args.place.store.name),
    );
    let slots = args.slots.map_or(usize::MAX, |slots| slots as usize);
    let begin = async {
        let scope = scope(args, &keys).await?;
        accept_scope(args, &fence, &scope)?;
        let ttl = args.place.ttl;
        let registration = Registration::begin(link, &keys, &args.id, address, slots, ttl).await;
        Ok::<_, Error>((scope, registration))
    };
    let (scope, mut registration) = tokio::select! {
        begun = begin => begun?,
        () = stop.cancelled() => return Ok(()),
    };
    // The fence's mark: a restarted worker still refuses a deposed leader.
    let acceptor = Acceptor::new(args.id.clone(), registration.incarnation(), fence.highest())
        .with_scope(scope.clone());
    let counter = Counter::new(&args.id, Parts::stored(output.clone()), output.deltas());
    let node = if examples::controls::fences() {
        Node::start_fenced(acceptor, counter, fence, scope)?
    } else {
        Node::start(acceptor, counter)?
    };
    let acceptor = node.acceptor().clone();
    let ended = tokio::select! {
        served = serve(node, listener) => served,
        Ended::Replaced = registration.keep() => {
            Err(format!("another process has registered as {}", args.id).into())
        }
        () = stop.cancelled() => Ok(()),
    };
    // First, so that nobody waits for this worker to come back.
    registration.withdraw().await;
    acceptor.close();
    ended
}

fn open_fence(args: &ComputeArgs, output: &Output) -> Result<Fence, Error> {
    let path = output.fence_path(&args.id);
    let path = path.ok_or("an id has no slash, does not begin with a dot, and is not empty")?;
    Fence::open(path).map_err(|error| match error {
        OpenError::Locked { .. } => {
            format!("another process runs as {}: use another --id", args.id).into()
        }
        error => error.into(),
    })
}

/// Returns the scope of tokens in this etcd, which is another after it was rebuilt.
async fn scope(args: &ComputeArgs, keys: &Keys) -> Result<String, Error> {
    let endpoints = args.place.store.etcd.iter().cloned();
    let config = ElectionConfig::for_ttl(args.place.ttl);
    let election = EtcdElection::connect(endpoints, &keys.election(), config).await?;
    loop {
        match election.scope().await {
            Ok(scope) => return Ok(scope),
            Err(error) if error.kind() == leader_election::ErrorKind::Unavailable => {
                tracing::warn!(%error, "waits for etcd");
                tokio::time::sleep(AGAIN).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

fn accept_scope(args: &ComputeArgs, fence: &Fence, scope: &str) -> Result<(), Error> {
    match fence.scope() {
        Some(known) if known != scope && args.reset_fence => Ok(fence.reset(scope)?),
        Some(known) if known != scope => Err(format!(
            "this etcd hands out tokens of {scope}, the fence has seen those of {known}: \
             where etcd was rebuilt on purpose, start once with --reset-fence"
        )
        .into()),
        _ => Ok(()),
    }
}
