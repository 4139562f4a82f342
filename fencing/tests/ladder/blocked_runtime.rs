//! A runtime whose threads are blocked.

use std::thread;
use std::time::Duration;

use tokio::runtime::Builder;

use crate::{block, child, config, guard};

/// What people do: a task that ends the process when leadership is lost.
async fn lead() {
    let (_watchdog, guard) = guard(config());
    let _ = guard.run(std::future::pending::<()>()).await;
    block()
}

pub(crate) fn block_all_workers() {
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.spawn(lead());
    for _ in 0..4 {
        runtime.spawn(async {
            thread::sleep(Duration::from_millis(50));
            block()
        });
    }
    block()
}

pub(crate) fn block_the_only_thread() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let _task = tokio::spawn(lead());
        tokio::task::yield_now().await;
        block()
    })
}

/// F04: an exit of the runtime would wait for these.
pub(crate) fn block_in_a_blocking_task() {
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let (_watchdog, guard) = guard(config());
        tokio::task::spawn_blocking(|| thread::sleep(Duration::from_secs(600)));
        tokio::spawn(async {
            tokio::task::block_in_place(|| {
                tokio::runtime::Handle::current().block_on(std::future::pending::<()>());
            });
        });
        guard.trip();
        std::future::pending().await
    })
}

#[test]
fn blocked_workers_do_not_delay_the_end() {
    child::run("block_all_workers").assert_fenced();
}

#[test]
fn a_blocked_current_thread_runtime_does_not_delay_the_end() {
    child::run("block_the_only_thread").assert_fenced();
}

#[test]
fn f04_blocking_tasks_do_not_delay_the_end() {
    let ended = child::run("block_in_a_blocking_task");
    ended.assert_fenced();
    println!(
        "CASE F04 fault={}",
        ended.stderr.matches("was lost").count()
    );
    assert!(ended.stderr.contains("was lost"), "{ended:?}");
}
