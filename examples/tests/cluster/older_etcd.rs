//! An etcd that holds an older state of itself under a running loop: tokens come again in
//! a scope that has seen them, and one step brings back what was committed since.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use examples::etcd::Failed;
use examples::requests::RequestKind;
use fencing::{AdmitError, Fence, Token};
use rustix::process::Signal;

use crate::support::{LONG, Stage};

fn etcdctl(args: &[&str]) {
    let mut command = Command::new("etcdctl");
    let output = command.env("ETCDCTL_API", "3").args(args).output();
    let output = output.expect("etcdctl cannot be run: install the package etcd-client");
    assert!(output.status.success(), "{args:?}: {output:?}");
}

fn save(stage: &Stage, name: &str) -> PathBuf {
    let path = stage.etcd_folder().with_file_name(name);
    let (endpoint, file) = (stage.etcd.endpoint(), path.to_str().unwrap());
    etcdctl(&["--endpoints", endpoint, "snapshot", "save", file]);
    path
}

async fn revision(stage: &Stage) -> i64 {
    let read = stage.client().await.get("x", None).await.unwrap();
    read.header().unwrap().revision()
}

/// Stops etcd, and starts it at the same address on what the snapshot holds; returns by
/// how many revisions it went back.
async fn go_back(stage: &mut Stage, snapshot: &Path) -> i64 {
    let members = stage.client().await.member_list().await.unwrap();
    let peer = members.members()[0].peer_urls()[0].clone();
    let before = revision(stage).await;
    stage.etcd.process().signal(Signal::KILL);
    stage.etcd.process().wait(Duration::from_secs(10)).await;
    let folder = stage.etcd_folder();
    std::fs::remove_dir_all(&folder).unwrap();
    let (file, folder) = (snapshot.to_str().unwrap(), folder.to_str().unwrap());
    let cluster = format!("m={peer}");
    let member = ["--name", "m", "--initial-cluster", &cluster];
    let urls = ["--initial-advertise-peer-urls", &peer];
    let restore = ["snapshot", "restore", file, "--data-dir", folder];
    etcdctl(&[&restore[..], &member, &urls].concat());
    stage.etcd.restart().await.unwrap();
    before - revision(stage).await
}

/// Writes so much that no token of the time before is above those that come.
async fn raise_revision(stage: &Stage) {
    let mut client = stage.client().await;
    for _ in 0..100 {
        client.put("x", "", None).await.unwrap();
    }
}

/// Takes the leadership away, and waits for the next leader; returns its token.
async fn depose(stage: &mut Stage) -> u64 {
    let (name, key, token) = stage.leader(0).await;
    let mut client = stage.client().await;
    let found = client.get(key, None).await.unwrap();
    let lease = found.kvs().first().unwrap().lease();
    client.lease_revoke(lease).await.unwrap();
    stage.leader(token).await;
    // Back, as the last in the queue, so that its next token is one of its own.
    let process = stage.fleet.member(&name).unwrap();
    process.wait(LONG).await.expect("the end of who has led");
    process.restart().unwrap();
    stage
        .until("both candidates", || async {
            let queue = stage.count(stage.keys.election() + "/").await;
            (queue == 2).then_some(())
        })
        .await;
    stage.leader(token).await.2
}

/// Asks for a file to be added, and starts again who has ended meanwhile.
async fn add(stage: &mut Stage, path: &Path) {
    let asked = stage.errand(RequestKind::Add(path.to_owned())).run(LONG);
    let mut asked = Box::pin(asked);
    loop {
        stage.fleet.tend().unwrap();
        tokio::select! {
            served = &mut asked => {
                served.unwrap_or_else(|error| panic!("{error}\n{}", stage.logs()));
                return;
            }
            () = tokio::time::sleep(Duration::from_millis(100)) => {}
        }
    }
}

/// What a worker's fence says to these tokens, asked by a copy of its mark.
async fn ask_fence(stage: &Stage, tokens: &[Token]) -> Vec<AdmitError> {
    let copy = stage.etcd_folder().with_file_name("copy.mark");
    std::fs::copy(stage.output.fence_path("w1").unwrap(), &copy).unwrap();
    let fence = Fence::open(&copy).unwrap();
    let mut refused = Vec::new();
    for token in tokens {
        refused.push(fence.admit(token.clone()).await.unwrap_err());
    }
    refused
}

/// Without the step nothing is committed, and a user is told why.
async fn refuses_requests(stage: &Stage) {
    let errand = stage.errand(RequestKind::Add(stage.file("early", 10_000)));
    let failed = errand.run(Duration::from_secs(1)).await.unwrap_err();
    let is_told = matches!(&failed, Failed::Withdrawn(why) if why.contains("meta restore"));
    assert!(is_told, "{failed}");
}

/// Puts in a request as a snapshot holds it that was taken before it was served.
async fn ask_again(stage: &Stage) {
    let request = format!("add {}", stage.file("open", 10).display());
    let mut client = stage.client().await;
    let put = client.put(stage.keys.request("open"), request, None);
    put.await.unwrap();
}

/// Runs the one step, and checks that nothing is lost by it.
async fn one_step(stage: &mut Stage, round: usize, told: usize) {
    let (code, text) = stage.restore();
    assert_eq!(code, Some(0), "{text}");
    let file = stage.file(&format!("after-{round}"), 20_000);
    add(stage, &file).await;
    let head = stage.head().await;
    assert_eq!(head.replaces.len(), round, "{head:?}");
    assert_eq!(head.parts.len(), told + 1, "{head:?}");
    let (code, text) = stage.restore();
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("nothing is missing"), "{text}");
}

#[tokio::test]
async fn after_etcd_went_back_to_a_snapshot_one_step_brings_back_all_that_was_committed() {
    let mut stage = Stage::start(2, 2).await;
    let file = stage.file("before", 100_000);
    stage.add(&file).await.unwrap();
    stage.commits(3).await;
    let (first, life) = (save(&stage, "first"), stage.life().await);
    // All of this is lost: two reigns, a life of a worker, commits, and an answer to a user.
    let worker = stage.fleet.member("w2").unwrap();
    worker.restart().unwrap();
    raise_revision(&stage).await;
    depose(&mut stage).await;
    let lost = depose(&mut stage).await;
    let file = stage.file("lost", 100_000);
    stage.add(&file).await.unwrap();
    let head = stage.commits(3).await;
    let before = stage.deltas().await;
    let pid = |stage: &mut Stage| ["w1", "w2"].map(|w| stage.fleet.member(w).unwrap().id());
    let workers = pid(&mut stage);

    let mut fault = go_back(&mut stage, &first).await;
    assert_eq!(stage.life().await, life, "its life is the old one");
    let status = stage.says_what_to_do("older state of itself").await;
    let (_, _, token) = stage.leader(0).await;
    assert!(token < lost, "tokens come again: {token}, {lost}: {status}");
    refuses_requests(&stage).await;
    assert!(stage.head().await.id().order() < head.id().order());
    // Nor could it be: in the old scope the token is stale, in another one it is foreign.
    let scope = |life: &str| format!("{life}/{}", stage.keys.election());
    let tokens = [
        Token::scoped(scope(&life), token),
        Token::scoped(scope("another"), u64::MAX),
    ];
    let refused = ask_fence(&stage, &tokens).await;
    let is_stale = matches!(&refused[0], AdmitError::Stale(stale) if stale.highest == lost);
    assert!(is_stale, "{refused:?}");
    let is_foreign = matches!(&refused[1], AdmitError::WrongScope { .. });
    assert!(
        is_foreign && refused[1].to_string().contains("reset"),
        "{refused:?}"
    );

    one_step(&mut stage, 1, 2).await;
    assert_ne!(stage.life().await, life, "a new scope");
    let after = stage.deltas().await;
    for name in &before {
        assert!(after.contains(&format!("0-1-{name}")), "{name}: {after:?}");
    }

    // Few commits are lost, under the same leader: one of them has told a user.
    let second = save(&stage, "second");
    let file = stage.file("few", 0);
    stage.add(&file).await.unwrap();
    fault += go_back(&mut stage, &second).await;
    stage.says_what_to_do("older state of itself").await;
    // A request of that state may have been served since: it is not served again.
    ask_again(&stage).await;
    one_step(&mut stage, 2, 4).await;

    // Back to where its tokens were those of a chain that has been replaced since.
    fault += go_back(&mut stage, &first).await;
    assert_eq!(stage.life().await, life);
    stage
        .says_what_to_do("etcd was rebuilt, or is another")
        .await;
    one_step(&mut stage, 3, 5).await;
    assert_eq!(pid(&mut stage), workers, "no worker was started again");
    stage.expect_equal().await;
    println!("CASE older-snapshot fault={fault}");
}
