//! One candidate for the leadership of a barrier loop, and requests to the loop.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use examples::cli::{AskArgs, MetaArgs, MetaCommand, RestoreArgs, RunArgs, StoreArgs};
use examples::etcd::{Board, Errand, EtcdLedger, Failed, Keys, Link, publish, restore, told};
use examples::input::Parts;
use examples::journal::Journal;
use examples::meta::{Candidate, Ended, NoHooks, Settings};
use examples::process::code::{DONE, INTERRUPTED, NOT_SERVED};
use examples::process::{self, cancel_on_signal, exit, say};
use examples::requests::RequestKind;
use examples::status::Status;
use examples::store::Output;
use fencing::{Policy, Watchdog, WatchdogConfig};
use leader_election::{ElectionConfig, etcd::EtcdElection};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

const PROGRAM: &str = "meta";

#[tokio::main]
async fn main() -> ExitCode {
    let args = match process::arguments::<MetaArgs>(PROGRAM) {
        Ok(args) => args,
        Err(code) => return exit(code),
    };
    let stop = CancellationToken::new();
    let work = async {
        match args.command {
            MetaCommand::Run(args) => run(&args, &stop).await,
            MetaCommand::Add { paths, ask } => {
                for path in paths {
                    // The leader may run in another folder.
                    let path = std::path::absolute(&path).unwrap_or(path);
                    let code = errand(&ask, RequestKind::Add(path), &stop).await;
                    if code != DONE {
                        return code;
                    }
                }
                DONE
            }
            MetaCommand::Finish(ask) => errand(&ask, RequestKind::Finish, &stop).await,
            MetaCommand::Status(store) => status(&store).await,
            MetaCommand::Restore(args) => bring_back(&args).await,
            other => complain(&format!("unknown: {other:?}")),
        }
    };
    let never = async {
        cancel_on_signal(stop.clone()).await;
        std::future::pending().await
    };
    let code = tokio::select! {
        code = work => code,
        code = never => code,
    };
    exit(code)
}

async fn run(args: &RunArgs, stop: &CancellationToken) -> u8 {
    process::log_to_stderr(args.place.verbose);
    args.place.apply_controls();
    match lead(args, stop).await {
        Ok(Ended::Finished | Ended::Stopped) => DONE,
        Ok(Ended::Failed(why)) => complain(&why),
        Ok(Ended::Election(error)) => complain(&error.to_string()),
        Ok(other) => complain(&format!("{other:?}")),
        Err(error) => complain(&error.to_string()),
    }
}

async fn lead(
    args: &RunArgs,
    stop: &CancellationToken,
) -> Result<Ended, Box<dyn std::error::Error>> {
    // First, so that nothing is led without it; its policy is to end the process.
    let watchdog = Watchdog::start(watchdog_config(args.place.ttl))?;
    let config = ElectionConfig::for_ttl(args.place.ttl).with_reserve(watchdog.reserve());
    let output = Output::open_shared(&args.place.out)?;
    let (link, keys) = store(&args.place.store);
    let endpoints = args.place.store.etcd.iter().cloned();
    let election = EtcdElection::connect(endpoints, &keys.election(), config).await?;
    let ledger = EtcdLedger::new(link.clone(), keys.clone(), election.clone(), output.clone());
    let board = Board::new(link, keys.clone());
    let (status, told) = watch::channel(Status::default());
    let candidate = Candidate {
        name: args.id.clone(),
        election: Arc::new(election),
        watchdog,
        ledger: Arc::new(ledger.clone()),
        input: Parts::stored(output),
        roster: board.roster(),
        requests: Arc::new(board.clone()),
        settings: Settings::default()
            .with_interval(args.interval)
            .with_epoch_bytes(args.epoch_bytes)
            .with_patience(args.patience)
            .with_round_deadline(args.round_deadline),
        status,
        journal: Journal::default(),
        hooks: Arc::new(NoHooks),
    };
    tokio::select! {
        ended = candidate.run(stop) => Ok(ended),
        () = board.look() => Ok(Ended::Stopped),
        () = publish(&ledger, &keys, told) => Ok(Ended::Stopped),
    }
}

fn watchdog_config(ttl: Duration) -> WatchdogConfig {
    let config = WatchdogConfig::for_ttl(ttl);
    if examples::controls::guards() {
        config
    } else {
        config.with_policy(Policy::CancelOnly)
    }
}

async fn errand(args: &AskArgs, kind: RequestKind, stop: &CancellationToken) -> u8 {
    if let RequestKind::Add(path) = &kind
        && path.to_str().is_none()
    {
        return complain(&format!(
            "{path:?} is not UTF-8, as it is kept: rename it, or link to it"
        ));
    }
    let (link, keys) = store(&args.store);
    let served = tokio::select! {
        served = Errand::new(link, keys, kind).run(args.wait) => served,
        () = stop.cancelled() => return INTERRUPTED,
    };
    match served {
        Ok(says) => {
            say(says);
            DONE
        }
        Err(error @ Failed::Refused(_)) => complain(&error.to_string()),
        Err(error) => {
            let _ = complain(&error.to_string());
            NOT_SERVED
        }
    }
}

async fn status(args: &StoreArgs) -> u8 {
    let (link, keys) = store(args);
    match told(&link, &keys).await {
        Ok(told) => {
            say(told);
            DONE
        }
        Err(error) => complain(&error.to_string()),
    }
}

async fn bring_back(args: &RestoreArgs) -> u8 {
    let restored = async {
        let output = Output::open_shared(&args.out)?;
        let (link, keys) = store(&args.store);
        let endpoints = args.store.etcd.iter().cloned();
        let config = ElectionConfig::default();
        let election = EtcdElection::connect(endpoints, &keys.election(), config).await?;
        let restored = restore(&link, &keys, &election, &output).await?;
        Ok::<_, Box<dyn std::error::Error>>(restored)
    };
    match restored.await {
        Ok(says) => {
            say(says);
            DONE
        }
        Err(error) => complain(&error.to_string()),
    }
}

fn store(args: &StoreArgs) -> (Link, Keys) {
    (Link::new(&args.etcd), Keys::new(&args.name))
}

fn complain(why: &str) -> u8 {
    process::complain(PROGRAM, why)
}
