//! A worker of a barrier loop as a process of its own.

use std::net::TcpListener;
use std::process::ExitCode;
use std::time::Duration;

use bidi_session::tonic::Acceptor;
use examples::cli::ComputeArgs;
use examples::compute::{Counter, Node, serve};
use examples::etcd::{Ended, EtcdLedger, Keys, Link, Registration};
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
    let keys = Keys::new(&args.place.store.name);
    let endpoints = args.place.store.etcd.iter().cloned();
    let config = ElectionConfig::for_ttl(args.place.ttl);
    let election = EtcdElection::connect(endpoints, &keys.election(), config).await?;
    let place = Place {
        args,
        output,
        fence,
        listener,
        link: Link::new(&args.place.store.etcd),
        keys,
        election,
    };
    // One turn for each life of etcd.
    loop {
        let scope = tokio::select! {
            scope = place.admissible_scope() => scope?,
            () = stop.cancelled() => return Ok(()),
        };
        if let Turn::Stopped = place.count(&scope, stop).await? {
            return Ok(());
        }
        tracing::warn!(scope, "etcd hands out tokens of another scope: begins anew");
    }
}

/// Where a worker counts.
struct Place<'a> {
    args: &'a ComputeArgs,
    output: Output,
    fence: Fence,
    listener: TcpListener,
    link: Link,
    keys: Keys,
    election: EtcdElection,
}

/// How the work ended.
enum Turn {
    Stopped,
    /// etcd was rebuilt.
    OtherScope,
}

impl Place<'_> {
    /// Registers, and counts under tokens of `scope`.
    async fn count(&self, scope: &str, stop: &CancellationToken) -> Result<Turn, Error> {
        let args = self.args;
        let slots = args.slots.map_or(usize::MAX, |slots| slots as usize);
        let (link, address) = (self.link.clone(), self.address()?);
        let begin = Registration::begin(link, &self.keys, &args.id, address, slots, args.place.ttl);
        let mut registration = tokio::select! {
            begun = begin => begun,
            () = stop.cancelled() => return Ok(Turn::Stopped),
        };
        // The fence's mark: a restarted worker still refuses a deposed leader.
        let (incarnation, highest) = (registration.incarnation(), self.fence.highest());
        let acceptor = Acceptor::new(args.id.clone(), incarnation, highest).with_scope(scope);
        let input = Parts::stored(self.output.clone());
        let counter = Counter::new(&args.id, input, self.output.deltas());
        let node = if examples::controls::fences() {
            let fence = self.fence.clone();
            Node::start_fenced(acceptor, counter, fence, scope.to_owned())?
        } else {
            Node::start(acceptor, counter)?
        };
        #[cfg(feature = "controls")]
        let node = if examples::controls::checks_terms() {
            node
        } else {
            node.with_any_term(examples::compute::AnyTerm::new(
                &args.id,
                incarnation,
                scope,
            ))
        };
        let acceptor = node.acceptor().clone();
        let ended = tokio::select! {
            served = serve(node, self.listener.try_clone()?) => {
                served.map(|()| Turn::Stopped)
            }
            Ended::Replaced = registration.keep() => {
                Err(format!("another process has registered as {}", args.id).into())
            }
            () = self.other_scope(scope) => Ok(Turn::OtherScope),
            () = stop.cancelled() => Ok(Turn::Stopped),
        };
        // First, so that nobody waits for this worker to come back.
        registration.withdraw().await;
        acceptor.close();
        ended
    }

    fn address(&self) -> Result<String, Error> {
        let bound = self.listener.local_addr()?;
        Ok(match &self.args.advertise {
            Some(place) if place.contains(':') => place.clone(),
            Some(host) => format!("{host}:{}", bound.port()),
            None => bound.to_string(),
        })
    }

    /// Returns the scope of tokens in this etcd, once the fence may take it: that of
    /// before, or one under which the chain of before was restored.
    async fn admissible_scope(&self) -> Result<String, Error> {
        let mut told = String::new();
        loop {
            let scope = self.scope().await?;
            let why = match self.fence.scope() {
                None => return Ok(scope),
                Some(known) if known == scope => return Ok(scope),
                Some(known) => match EtcdLedger::head(&self.link, &self.keys).await {
                    Ok((head, _)) if head.replaces.contains(&known) => {
                        self.fence.reset(&scope)?;
                        return Ok(scope);
                    }
                    Ok(_) => format!(
                        "etcd was rebuilt, or is another: it hands out tokens of {scope}, the \
                         fence has seen those of {known}: run `meta restore` once, or correct \
                         --etcd"
                    ),
                    Err(error) => error.to_string(),
                },
            };
            if why != told {
                tracing::warn!(why, "cannot count yet");
                told = why;
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    async fn scope(&self) -> Result<String, Error> {
        loop {
            match self.election.scope().await {
                Ok(scope) => return Ok(scope),
                Err(error) if error.kind() == leader_election::ErrorKind::Unavailable => {
                    tracing::warn!(%error, "waits for etcd");
                    tokio::time::sleep(AGAIN).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Waits until etcd hands out tokens of another scope.
    async fn other_scope(&self, scope: &str) {
        loop {
            tokio::time::sleep(self.args.place.ttl / 3).await;
            // One that cannot be reached says nothing.
            if self.election.scope().await.is_ok_and(|now| now != scope) {
                return;
            }
        }
    }
}

fn open_fence(args: &ComputeArgs, output: &Output) -> Result<Fence, Error> {
    let path = output.fence_path(&args.id);
    let path =
        path.ok_or("an id has no slash, begins with no dot, ends with no .tmp, and is not empty")?;
    Fence::open(path).map_err(|error| match error {
        OpenError::Locked { .. } => {
            format!("another process runs as {}: use another --id", args.id).into()
        }
        error => error.into(),
    })
}
