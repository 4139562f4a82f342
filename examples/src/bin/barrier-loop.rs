//! The barrier loop in one process: word counts of real files, exactly once.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use examples::cli::Args;
use examples::embedded::{Outcome, Setup, Totals, finish, run};
use examples::journal::Journal;
use examples::memory::fix_mmap_threshold;
use examples::report::{Display, Summary, print};
use examples::status::Phase;
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
    fix_mmap_threshold();
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) if !error.use_stderr() => {
            let _ = error.print();
            return ExitCode::from(EQUAL);
        }
        Err(error) => return wrong(&first_paragraph(&error.to_string())),
    };
    if let Err(why) = check_open_files(args.workers) {
        return wrong(&why);
    }
    if args.verbose {
        log_to_stderr();
    }
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return wrong(&format!("the runtime cannot start: {error}")),
    };
    let code = runtime.block_on(prepare_and_count(args));
    runtime.shutdown_timeout(LAST_WORK);
    ExitCode::from(code)
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

async fn cancel_on_signal(stop: CancellationToken) {
    let (Ok(mut interrupt), Ok(mut terminate), Ok(mut hang_up)) = (
        signal(SignalKind::interrupt()),
        signal(SignalKind::terminate()),
        signal(SignalKind::hangup()),
    ) else {
        return;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        _ = hang_up.recv() => {}
    }
    stop.cancel();
}

/// Returns what is wrong with the arguments, without the advice that follows it.
fn first_paragraph(text: &str) -> String {
    let text = text.split("\n\n").next().unwrap_or_default();
    text.strip_prefix("error: ").unwrap_or(text).to_owned()
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

/// Prints the log of this workspace's crates.
fn log_to_stderr() {
    use tracing_subscriber::filter::{LevelFilter, Targets};
    use tracing_subscriber::layer::SubscriberExt;
    use tracing_subscriber::util::SubscriberInitExt;

    let ours = ["examples", "bidi_session", "fencing", "leader_election"];
    let targets = Targets::new().with_targets(ours.map(|crate_| (crate_, LevelFilter::DEBUG)));
    let printer = tracing_subscriber::fmt::layer().with_writer(|| Unheard(std::io::stderr()));
    tracing_subscriber::registry()
        .with(printer)
        .with(targets)
        .init();
}

/// A writer whose reader may go away: what nobody reads is dropped.
struct Unheard<W>(W);

impl<W: Write> Write for Unheard<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        Ok(self.0.write(bytes).unwrap_or(bytes.len()))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        let _ = self.0.flush();
        Ok(())
    }
}

fn wrong(why: &str) -> ExitCode {
    ExitCode::from(complain(why))
}

/// Says what is wrong, in one line whatever names are in it.
fn complain(why: &str) -> u8 {
    let visible = |c: char| {
        let escaped = c.is_control().then(|| c.escape_default().to_string());
        escaped.unwrap_or_else(|| c.to_string())
    };
    let line: String = why.chars().map(visible).collect();
    // Fails where nobody reads; the exit code says it all the same.
    let _ = writeln!(std::io::stderr(), "barrier-loop: {line}");
    WRONG_INPUT
}
