//! Prints to standard output without ever holding up the end of the process.

use std::io::Write;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// Prints `text`, and returns when it is written or `stop` says so.
///
/// A thread of its own writes: it may hang on a pipe that nobody reads, and the
/// process ends all the same. A closed output is no error.
///
/// # Cancel safety
///
/// Dropping the future stops the waiting, not the writing.
pub async fn print(text: String, stop: &CancellationToken) {
    let (done, written) = oneshot::channel();
    let thread = std::thread::Builder::new().name("printer".to_owned());
    let started = thread.spawn(move || {
        let mut out = std::io::stdout().lock();
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        let _ = done.send(());
    });
    if started.is_ok() {
        tokio::select! {
            _ = written => {}
            () = stop.cancelled() => {}
        }
    }
}
