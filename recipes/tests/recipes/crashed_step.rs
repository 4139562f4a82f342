//! Hunts a write that is there twice or in half, or a token that is forgotten, because the
//! process that writes was killed at one of its system calls: at the n-th, for every n.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::sync::Arc;

use fencing::Token;
use recipes::WriteError;
use recipes::conformance::Resource;
use tempfile::TempDir;

use crate::child::{Process, say};
use crate::resources::{Kind, open_in};

const KIND: &str = "STEP_KIND";
const FOLDER: &str = "STEP_FOLDER";
const NUMBER: &str = "STEP_NUMBER";
const RAISES: &str = "STEP_RAISES";
/// More calls than any of them makes in one thread.
const MOST: u64 = 64;
/// What changes a disk. The tracer counts each of them apart, and in each thread.
const CALLS: [&str; 8] = [
    "pwrite64",
    "fsync",
    "fdatasync",
    "/^rename",
    "/^unlink",
    "/^link",
    "ftruncate",
    "/^mkdir",
];

/// Raises and writes in a process that is killed at the n-th of these calls; returns
/// whether it was, and what it had said.
fn killed_at(
    (call, nth): (&str, u64),
    step: u64,
    raises: bool,
    kind: Kind,
    folder: &Path,
) -> (bool, Vec<String>) {
    let (number, folder) = (step.to_string(), folder.to_str().unwrap());
    let raises = if raises { "yes" } else { "no" };
    let variables = [
        (KIND, kind.name()),
        (FOLDER, folder),
        (NUMBER, &number),
        (RAISES, raises),
    ];
    let inject = format!("inject={call}:signal=KILL:when={nth}");
    let tracer = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", &inject];
    let mut process = Process::start("crashed_step::process", &variables, &tracer);
    let mut words = Vec::new();
    while let Some(word) = process.hear() {
        words.push(word);
    }
    let status = process.child.wait().unwrap();
    assert!(status.success() || status.signal() == Some(9), "{status}");
    (status.signal() == Some(9), words)
}

async fn every_step(kind: Kind, least: u64) {
    let folder = TempDir::new().unwrap();
    let mut ids = Vec::new();
    let mut kills = 0;
    // With the raise in the same process, and with one of before: a thread of its own may
    // raise, whose calls would come first each time.
    for (call, raises) in CALLS
        .into_iter()
        .flat_map(|call| [(call, true), (call, false)])
    {
        for nth in 1.. {
            assert!(nth <= MOST, "{call} never survives");
            let step = ids.len() as u64 + 1;
            if !raises {
                let raised = open(kind, folder.path())
                    .raise(&Token::from(step + 1))
                    .await;
                assert!(raised.is_ok(), "{raised:?}");
            }
            let (was_killed, words) = killed_at((call, nth), step, raises, kind, folder.path());
            let id = format!("n{step}");
            ids.push(id.clone());
            recovers(kind, folder.path(), step, &id, &words, &ids).await;
            if !was_killed {
                assert!(
                    words.iter().any(|word| word == "wrote"),
                    "{call}: {words:?}"
                );
                break;
            }
            kills += 1;
        }
    }
    assert!(kills >= least, "only {kills} kills");
    println!("CASE crashed-step-{} fault={kills}", kind.name());
}

/// What was said holds, and the retry is one success.
async fn recovers(
    kind: Kind,
    folder: &Path,
    step: u64,
    id: &str,
    words: &[String],
    ids: &[String],
) {
    let resource = open(kind, folder);
    if words.iter().any(|word| word == "raised") {
        let late = resource.append(&Token::from(step), "late", b"").await;
        let is_stale = matches!(late, Err(WriteError::Stale { .. }));
        assert!(is_stale, "{step}: {late:?}");
    }
    let entries = resource.entries().await;
    let wrote = words.iter().any(|word| word == "wrote");
    assert!(
        !wrote || entries.iter().any(|entry| entry.id == id),
        "{step}: lost"
    );
    let token = Token::from(step + 1);
    let retry = resource.append(&token, id, id.as_bytes()).await;
    assert!(retry.is_ok(), "{step}: {retry:?}");
    let entries = resource.entries().await;
    let there: Vec<_> = entries.iter().map(|entry| &entry.id).collect();
    assert_eq!(there, ids.iter().collect::<Vec<_>>(), "{step}");
}

fn open(kind: Kind, folder: &Path) -> Arc<dyn Resource> {
    open_in(kind, folder)("steps")
}

#[tokio::test]
async fn sqlite_has_each_write_once() {
    every_step(Kind::Sqlite, 20).await;
}

#[tokio::test]
async fn a_file_has_each_write_once() {
    every_step(Kind::File, 7).await;
}

#[tokio::test]
async fn local_objects_have_each_write_once() {
    every_step(Kind::LocalObjects, 3).await;
}

#[tokio::test]
#[ignore = "started by other tests as a process of its own"]
async fn process() {
    let Ok(kind) = std::env::var(KIND) else {
        return;
    };
    let folder = std::env::var_os(FOLDER).unwrap();
    let number: u64 = std::env::var(NUMBER).unwrap().parse().unwrap();
    let resource = open(Kind::named(&kind), folder.as_ref());
    // One above, so that there is a lower one from the first on.
    let (token, id) = (Token::from(number + 1), format!("n{number}"));
    if std::env::var(RAISES).unwrap() == "yes" {
        resource.raise(&token).await.unwrap();
    }
    say("raised");
    resource.append(&token, &id, id.as_bytes()).await.unwrap();
    say("wrote");
}
