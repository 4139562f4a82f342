//! The end of a run: cleans up, merges the totals, and compares them.

use std::io;

use crate::input::InputPlan;
use crate::store::Store;
use crate::totals::{Totals, total};

/// Merges the committed deltas into `counts.tsv` and compares them with a plain count.
///
/// It blocks; call it off the runtime. `go_on` is asked now and then: false ends it.
///
/// # Errors
///
/// Those of the files; [`io::ErrorKind::Interrupted`] after `go_on` said no.
pub fn finish(
    store: &Store,
    plan: &InputPlan,
    top: usize,
    is_compared: bool,
    go_on: impl Fn() -> bool,
) -> io::Result<Totals> {
    store.remove_unreferenced()?;
    let deltas = store.snapshot().deltas;
    total(store.output(), &deltas, plan, top, is_compared, go_on)
}
