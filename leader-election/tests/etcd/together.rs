//! Tests that mostly wait, beside each other: one for each core would take minutes.

use std::thread;

/// One of several tests, and its name.
pub(crate) type Test = (&'static str, fn());

/// Makes one test of several, each on a thread and a runtime of its own.
///
/// With the variable `ONLY` set, those alone whose names contain it are run.
macro_rules! together {
    ($name:ident: $($test:path),+ $(,)?) => {
        #[test]
        fn $name() {
            $crate::together::run(&[$((
                stringify!($test),
                || $crate::together::block_on($test()),
            )),+]);
        }
    };
}
pub(crate) use together;

pub(crate) fn run(tests: &[Test]) {
    let only = std::env::var("ONLY").unwrap_or_default();
    let wanted = tests.iter().filter(|(name, _)| name.contains(&only));
    let failed: Vec<_> = thread::scope(|scope| {
        let start = |&(name, test): &Test| {
            let thread = thread::Builder::new().name(name.to_owned());
            let running = thread.spawn_scoped(scope, test);
            (name, running.expect("a thread starts"))
        };
        let running: Vec<_> = wanted.map(start).collect();
        let ended = running.into_iter().map(|(name, test)| (name, test.join()));
        let failed = ended.filter(|(_, ended)| ended.is_err());
        failed.map(|(name, _)| name).collect()
    });
    assert!(failed.is_empty(), "failed: {failed:?}");
}

pub(crate) fn block_on(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.expect("a runtime starts").block_on(test);
}
