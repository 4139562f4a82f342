//! Keeps what this crate logs, apart for each test on a runtime of one thread.

use std::{
    cell::RefCell,
    fmt::{Debug, Write},
    sync::Once,
};

use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

thread_local! {
    /// The lines of the test on this thread, on which all its tasks run.
    static LINES: RefCell<Vec<(Level, String)>> = const { RefCell::new(Vec::new()) };
}

/// Keeps the lines of this crate: level, message, fields.
struct Lines;

#[derive(Default)]
struct Line(String);

/// Begins to keep lines, in every test before anything else: a place that logs for the
/// first time while only some threads listen is never heard again.
pub(crate) fn listen() {
    static BEGIN: Once = Once::new();
    BEGIN.call_once(|| {
        tracing::subscriber::set_global_default(Lines).expect("the first of this program");
    });
    heard();
}

/// Takes what was kept.
pub(crate) fn heard() -> Vec<(Level, String)> {
    LINES.take()
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, "{}={value:?} ", field.name());
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("leader_election")
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        let line = (*event.metadata().level(), line.0);
        LINES.with_borrow_mut(|lines| lines.push(line));
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}
