//! The progress, drawn to standard error by a thread of its own.

use std::io::{IsTerminal, Write};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::sync::watch;

use crate::status::Status;

/// How often it looks at the status.
const EVERY: Duration = Duration::from_millis(100);

/// How often a line is printed where standard error is no terminal.
const LINE_EVERY: u32 = 50;

/// How long the end waits for the last picture.
const LAST_PICTURE: Duration = Duration::from_millis(500);

/// A running display; dropping it leaves the thread to end by itself.
#[derive(Debug)]
pub struct Display {
    stop: mpsc::Sender<()>,
    stopped: mpsc::Receiver<()>,
}

impl Display {
    /// Starts the thread; `None` where the system gives none, and then nothing is shown.
    #[must_use]
    pub fn start(status: watch::Receiver<Status>) -> Option<Self> {
        let (stop, asked) = mpsc::channel();
        let (done, stopped) = mpsc::channel();
        let thread = std::thread::Builder::new().name("display".to_owned());
        let started = thread.spawn(move || {
            if std::io::stderr().is_terminal() {
                bar(&status, &asked);
            } else {
                lines(&status, &asked);
            }
            let _ = done.send(());
        });
        started.ok().map(|_| Self { stop, stopped })
    }

    /// Ends the display; a terminal that takes nothing is not waited for long.
    pub fn finish(self) {
        let _ = self.stop.send(());
        let _ = self.stopped.recv_timeout(LAST_PICTURE);
    }
}

fn bar(status: &watch::Receiver<Status>, asked: &mpsc::Receiver<()>) {
    let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
    let template = "{bar:30} {bytes}/{total_bytes} {msg}";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    loop {
        let now = status.borrow().clone();
        bar.set_length(now.total_bytes);
        bar.set_position(now.read_bytes.min(now.total_bytes));
        bar.set_message(describe(&now, bar.elapsed()));
        if is_over(asked, EVERY) {
            break;
        }
    }
    bar.finish();
}

fn lines(status: &watch::Receiver<Status>, asked: &mpsc::Receiver<()>) {
    let mut elapsed = Duration::ZERO;
    loop {
        if is_over(asked, EVERY * LINE_EVERY) {
            return;
        }
        elapsed += EVERY * LINE_EVERY;
        let now = status.borrow().clone();
        let share = (now.read_bytes * 100 / now.total_bytes.max(1)).min(100);
        // Fails where nobody reads; then there is nobody to tell.
        let _ = writeln!(std::io::stderr(), "{share}% {}", describe(&now, elapsed));
    }
}

fn is_over(asked: &mpsc::Receiver<()>, wait: Duration) -> bool {
    !matches!(asked.recv_timeout(wait), Err(RecvTimeoutError::Timeout))
}

fn describe(status: &Status, elapsed: Duration) -> String {
    let rate = status.rows as f64 / elapsed.as_secs_f64().max(0.001);
    let trouble = if status.trouble.is_empty() {
        String::new()
    } else {
        format!(": {}", status.trouble.escape_debug())
    };
    format!(
        "{rate:.0} rows/s, epoch {}, barrier {:.1} ms, {} (token {}), {}/{} workers, {}{trouble}",
        status.epoch,
        status.latency.as_secs_f64() * 1000.0,
        if status.leader.is_empty() {
            "nobody"
        } else {
            &status.leader
        },
        status.token,
        status.workers_up,
        status.workers,
        status.phase,
    )
}
