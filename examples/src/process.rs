//! What the programs have in common: exit codes, signals, the log.

use std::io::Write;
use std::process::ExitCode;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Exit codes of all programs.
pub mod code {
    /// It did what was asked for.
    pub const DONE: u8 = 0;
    /// The result is not what it must be.
    pub const NOT_EQUAL: u8 = 1;
    /// Wrong input, or something that cannot be used; a line says what to do.
    pub const WRONG_INPUT: u8 = 2;
    /// A requested fault did not happen.
    pub const NOT_KILLED: u8 = 3;
    /// A request was not served in time; it is withdrawn.
    pub const NOT_SERVED: u8 = 4;
    /// Interrupted by a signal.
    pub const INTERRUPTED: u8 = 130;
}

/// Turns a code into what `main` returns.
#[must_use]
pub fn exit(code: u8) -> ExitCode {
    ExitCode::from(code)
}

/// Cancels `stop` at the first SIGINT, SIGTERM or SIGHUP.
///
/// # Cancel safety
///
/// Cancel safe; the signals have no effect then.
pub async fn cancel_on_signal(stop: CancellationToken) {
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

/// Reads the command line; an error is one line, and help ends the program too.
///
/// # Errors
///
/// With what the program must exit.
pub fn arguments<A: clap::Parser>(program: &str) -> Result<A, u8> {
    match A::try_parse() {
        Ok(args) => Ok(args),
        Err(error) if !error.use_stderr() => {
            let _ = error.print();
            Err(code::DONE)
        }
        Err(error) => Err(complain(program, &first_paragraph(&error.to_string()))),
    }
}

/// Returns what is wrong with the arguments, without the advice that follows it.
fn first_paragraph(text: &str) -> String {
    let text = text.split("\n\n").next().unwrap_or_default();
    text.strip_prefix("error: ").unwrap_or(text).to_owned()
}

/// Says what is wrong, in one line whatever names are in it.
pub fn complain(program: &str, why: &str) -> u8 {
    let visible = |c: char| {
        let escaped = c.is_control().then(|| c.escape_default().to_string());
        escaped.unwrap_or_else(|| c.to_string())
    };
    let line: String = why.chars().map(visible).collect();
    // Fails where nobody reads; the exit code says it all the same.
    let _ = writeln!(std::io::stderr(), "{program}: {line}");
    code::WRONG_INPUT
}

/// Prints a line, or lines that end with one; where nobody reads, nothing is lost but them.
pub fn say(text: impl std::fmt::Display) {
    let text = text.to_string();
    let end = if text.ends_with('\n') { "" } else { "\n" };
    // `println` would panic, and the exit code would say so of what was done.
    let _ = write!(std::io::stdout(), "{text}{end}");
}

/// Prints the log of this workspace's crates to standard error: what degrades a run or
/// changes leadership, or with `is_verbose` everything.
pub fn log_to_stderr(is_verbose: bool) {
    use tracing_subscriber::filter::{LevelFilter, Targets};
    use tracing_subscriber::layer::SubscriberExt;
    use tracing_subscriber::util::SubscriberInitExt;

    let level = if is_verbose {
        LevelFilter::DEBUG
    } else {
        LevelFilter::INFO
    };
    let crates = ["examples", "bidi_session", "fencing", "leader_election"];
    let programs = ["barrier_loop", "meta", "compute", "cluster"];
    let ours = crates.into_iter().chain(programs);
    let targets = Targets::new().with_targets(ours.map(|target| (target, level)));
    let printer = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .with_writer(|| Unheard(std::io::stderr()));
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
