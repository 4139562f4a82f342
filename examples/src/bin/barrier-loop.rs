//! The barrier loop in one process: word counts of real files, exactly once.

use std::process::ExitCode;
use std::time::Duration;

use examples::cli::Args;
use examples::embedded::{Outcome, Setup, finish, run};
use examples::journal::Journal;
use examples::memory::fix_mmap_threshold;
use examples::process::code::{DONE, INTERRUPTED, NOT_EQUAL, NOT_KILLED, WRONG_INPUT};
use examples::process::{self, cancel_on_signal, exit};
use examples::report::{Display, Summary, print};
use examples::status::Phase;
use examples::totals::Totals;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

const PROGRAM: &str = "barrier-loop";

/// How long the end waits for blocking work that was told to stop.
const LAST_WORK: Duration = Duration::from_secs(2);

/// How long an interrupted run waits for whoever reads its report.
const LAST_WORDS: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    fix_mmap_threshold();
    let args = match process::arguments::<Args>(PROGRAM) {
        Ok(args) => args,
        Err(code) => return exit(code),
    };
    if let Err(why) = check_open_files(args.workers) {
        return wrong(&why);
    }
    if args.verbose {
        process::log_to_stderr(true);
    }
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return wrong(&format!("the runtime cannot start: {error}")),
    };
    let code = runtime.block_on(prepare_and_count(args));
    runtime.shutdown_timeout(LAST_WORK);
    exit(code)
}

/// Listens for signals first: the preparation of a large input takes a while.
async fn prepare_and_count(args: Args) -> u8 {
    let stop = CancellationToken::new();
    let listening = tokio::spawn(cancel_on_signal(stop.clone()));
    let given = args.clone();
    let prepared = tokio::task::spawn_blocking(move || Setup::new(&given));
    let setup = tokio::select! {
        () = stop.cancelled() => None,
        prepared = prepared => Some(prepared),
    };
    let code = match setup {
        None => INTERRUPTED,
        Some(Ok(Ok(setup))) => {
            let code = count(&args, &setup, &stop).await;
            setup.remove_temporary();
            code
        }
        Some(Ok(Err(error))) => complain(&error.to_string()),
        Some(Err(error)) => complain(&error.to_string()),
    };
    listening.abort();
    code
}

async fn count(args: &Args, setup: &Setup, stop: &CancellationToken) -> u8 {
    let (status, watched) = watch::channel(setup.first_status(args.workers));
    let display = (!args.quiet).then(|| Display::start(watched)).flatten();
    let journal = Journal::default();
    let outcome = run(setup, args, &status, &journal, stop).await;
    if let Outcome::Finished { .. } = outcome {
        status.send_modify(|status| status.phase = Phase::Comparing);
    }
    let totals = match outcome {
        Outcome::Finished { .. } => total(args, setup, stop).await,
        _ => Ok(None),
    };
    if let Some(display) = display {
        display.finish();
    }
    let differs = matches!(&totals, Ok(Some(totals)) if totals.difference.is_some());
    let changed = differs.then(|| setup.plan.check_on_disk().err()).flatten();
    let (code, says) = match changed {
        // A file that was changed meanwhile: the two counts saw different texts.
        Some(changed) => (WRONG_INPUT, changed.to_string()),
        None => judge(&outcome, &totals, || durable(args, setup)),
    };
    if code == WRONG_INPUT {
        complain(&says);
    } else {
        let entries = journal.entries();
        let status = status.borrow().clone();
        let summary = Summary {
            status: &status,
            entries: &entries,
            chain: &setup.store.snapshot(),
            totals: totals.as_ref().ok().and_then(Option::as_ref),
        };
        let report = if args.quiet {
            String::new()
        } else {
            summary.text()
        };
        show(report + &says, stop).await;
    }
    code
}

/// Prints; an interruption before or meanwhile ends the waiting for whoever reads.
async fn show(text: String, stop: &CancellationToken) {
    if stop.is_cancelled() {
        let nobody_asks = CancellationToken::new();
        let _ = tokio::time::timeout(LAST_WORDS, print(text, &nobody_asks)).await;
    } else {
        print(text, stop).await;
    }
}

/// Returns the exit code and what is said beside the report.
fn judge(
    outcome: &Outcome,
    totals: &std::io::Result<Option<Totals>>,
    durable: impl FnOnce() -> String,
) -> (u8, String) {
    let (missing, ghost_refused, totals) = match (outcome, totals) {
        (Outcome::Failed(why), _) => return (WRONG_INPUT, why.clone()),
        (_, Err(error)) => return (WRONG_INPUT, error.to_string()),
        (
            Outcome::Finished {
                missing,
                ghost_refused,
            },
            Ok(Some(totals)),
        ) => (missing, ghost_refused, totals),
        _ => return (INTERRUPTED, durable()),
    };
    if totals.difference.is_some() {
        return (NOT_EQUAL, String::new());
    }
    if !ghost_refused {
        let says = "the killed leader's late commit was not refused\n";
        return (NOT_EQUAL, says.to_owned());
    }
    if missing.is_empty() {
        return (DONE, String::new());
    }
    let who = missing.join(" and of the ");
    let says = format!("the requested kill of the {who} did not happen: the run ended before\n");
    (NOT_KILLED, says)
}

/// Says what an interrupted run leaves.
fn durable(args: &Args, setup: &Setup) -> String {
    let epoch = setup.store.head().id();
    match &args.out {
        Some(_) => {
            format!("interrupted: epoch {epoch} is durable; give the same command to go on\n")
        }
        None => format!(
            "interrupted: epoch {epoch} is durable, but was in a temporary folder; \
             use --out to go on later\n"
        ),
    }
}

async fn total(
    args: &Args,
    setup: &Setup,
    stop: &CancellationToken,
) -> std::io::Result<Option<Totals>> {
    let (store, plan, stopped) = (setup.store.clone(), setup.plan.clone(), stop.clone());
    let (top, compare) = (args.top, !args.no_compare);
    let work = tokio::task::spawn_blocking(move || {
        finish(&store, &plan, top, compare, || !stopped.is_cancelled())
    });
    tokio::select! {
        done = work => match done {
            Ok(Ok(totals)) => Ok(Some(totals)),
            Ok(Err(error)) if error.kind() == std::io::ErrorKind::Interrupted => Ok(None),
            Ok(Err(error)) => Err(error),
            Err(error) => Err(std::io::Error::other(error)),
        },
        () = stop.cancelled() => Ok(None),
    }
}

/// Fails where the files and sockets of a run do not fit into the process's limit.
fn check_open_files(workers: u16) -> Result<(), String> {
    // Both ends of each session, listener and runtime of each worker; the merge; the rest.
    let needed = 10 * u64::from(workers) + 100;
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"));
    let limit = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    match limit {
        Some(limit) if limit < needed => Err(format!(
            "{workers} workers need about {needed} open files, the limit is {limit}: \
             raise it (ulimit -n) or use fewer --workers"
        )),
        _ => Ok(()),
    }
}

fn wrong(why: &str) -> ExitCode {
    exit(complain(why))
}

fn complain(why: &str) -> u8 {
    process::complain(PROGRAM, why)
}
