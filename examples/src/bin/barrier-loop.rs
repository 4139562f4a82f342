//! The barrier loop in one process: word counts of real files, exactly once.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use examples::cli::Args;
use examples::embedded::{Outcome, Setup, Totals, finish, run};
use examples::journal::Journal;
use examples::report::{Display, Summary, print};
use examples::status::{Phase, Status};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

const EQUAL: u8 = 0;
const NOT_EQUAL: u8 = 1;
const WRONG_INPUT: u8 = 2;
const NOT_KILLED: u8 = 3;
const INTERRUPTED: u8 = 130;

/// How long the end waits for blocking work that was told to stop.
const LAST_WORK: Duration = Duration::from_secs(2);

/// How long an interrupted run waits for whoever reads its report.
const LAST_WORDS: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) if !error.use_stderr() => {
            let _ = error.print();
            return ExitCode::from(EQUAL);
        }
        Err(error) => return wrong(&first_line(&error.to_string())),
    };
    if args.verbose {
        tracing_subscriber::fmt()
            .with_writer(std::io::stderr)
            .with_max_level(tracing::Level::DEBUG)
            .init();
    }
    let setup = match Setup::new(&args) {
        Ok(setup) => setup,
        Err(error) => return wrong(&error.to_string()),
    };
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return wrong(&format!("the runtime cannot start: {error}")),
    };
    let code = runtime.block_on(count(&args, &setup));
    runtime.shutdown_timeout(LAST_WORK);
    ExitCode::from(code)
}

async fn count(args: &Args, setup: &Setup) -> u8 {
    let stop = CancellationToken::new();
    let listening = tokio::spawn(cancel_on_signal(stop.clone()));
    let mut first = Status::default();
    first.total_bytes = setup.plan.total_bytes();
    let (status, watched) = watch::channel(first);
    let display = (!args.quiet).then(|| Display::start(watched)).flatten();
    let journal = Journal::default();
    let outcome = run(setup, args, &status, &journal, &stop).await;
    if let Outcome::Finished { .. } = outcome {
        status.send_modify(|status| status.phase = Phase::Comparing);
    }
    let totals = match outcome {
        Outcome::Finished { .. } => total(args, setup, &stop).await,
        _ => Ok(None),
    };
    if let Some(display) = display {
        display.finish();
    }
    let (code, says) = judge(&outcome, &totals, || durable(args, setup));
    if code == WRONG_INPUT {
        complain(&says);
    } else {
        let entries = journal.entries();
        let status = status.borrow().clone();
        let summary = Summary {
            status: &status,
            entries: &entries,
            chain_len: setup.store.snapshot().epochs.len(),
            totals: totals.as_ref().ok().and_then(Option::as_ref),
        };
        let report = if args.quiet {
            String::new()
        } else {
            summary.text()
        };
        show(report + &says, &stop).await;
    }
    listening.abort();
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
        return (EQUAL, String::new());
    }
    let who = missing.join(" and of the ");
    let says = format!("the requested kill of the {who} did not happen: the run ended before\n");
    (NOT_KILLED, says)
}

/// Says what an interrupted run leaves.
fn durable(args: &Args, setup: &Setup) -> String {
    let epoch = setup.store.head().id();
    match &args.out {
        Some(out) => format!(
            "interrupted: epoch {epoch} is durable; run again with --out {} to go on\n",
            out.display()
        ),
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

async fn cancel_on_signal(stop: CancellationToken) {
    let (Ok(mut interrupt), Ok(mut terminate)) = (
        signal(SignalKind::interrupt()),
        signal(SignalKind::terminate()),
    ) else {
        return;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    stop.cancel();
}

fn first_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

fn wrong(why: &str) -> ExitCode {
    complain(why);
    ExitCode::from(WRONG_INPUT)
}

fn complain(why: &str) {
    // Fails where nobody reads; the exit code says it all the same.
    let _ = writeln!(std::io::stderr(), "barrier-loop: {why}");
}
