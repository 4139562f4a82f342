//! An etcd that lost everything under a running loop: one step brings the chain back.

use std::collections::BTreeSet;
use std::time::Duration;

use etcd_client::DeleteOptions;
use examples::etcd::Failed;
use examples::requests::RequestKind;
use rustix::process::Signal;

use crate::support::Stage;

/// Starts etcd again with identical flags on an empty folder.
async fn rebuild(stage: &mut Stage) {
    stage.etcd.process().signal(Signal::KILL);
    stage.etcd.process().wait(Duration::from_secs(10)).await;
    std::fs::remove_dir_all(stage.etcd_folder()).unwrap();
    stage.etcd.restart().await.unwrap();
}

#[tokio::test]
async fn after_etcd_lost_everything_one_step_brings_back_all_that_was_committed() {
    let mut stage = Stage::start(2, 2).await;
    let mut lives = BTreeSet::new();
    let pid = |stage: &mut Stage| ["w1", "w2"].map(|w| stage.fleet.member(w).unwrap().id());
    let workers = pid(&mut stage);
    // The second time the chain has begun with a restored one.
    for round in 1..=2 {
        let file = stage.file(&format!("before-{round}"), 100_000);
        stage.add(&file).await.unwrap();
        stage.commits(3).await;
        lives.insert(stage.life().await);
        let (head, before) = (stage.head().await, stage.deltas().await);
        assert!(!before.is_empty());
        rebuild(&mut stage).await;
        stage.says_what_to_do("etcd was rebuilt").await;

        // Without the step nothing is committed, and a user is told why.
        let file = stage.file(&format!("after-{round}"), 50_000);
        let errand = stage.errand(RequestKind::Add(file.clone()));
        let failed = errand.run(Duration::from_secs(1)).await.unwrap_err();
        let is_told = matches!(&failed, Failed::Withdrawn(why) if why.contains("meta restore"));
        assert!(is_told, "{failed}");
        assert_eq!(stage.head().await.id().order(), (0, 0));
        stage
            .until("workers that say the same", || async {
                let says = stage.logs().matches("cannot count yet").count();
                (says >= 2 * round).then_some(())
            })
            .await;

        let (code, text) = stage.restore();
        assert_eq!(code, Some(0), "{text}");
        stage.add(&file).await.unwrap();
        let restored = stage.head().await;
        assert_eq!(restored.replaces.len(), round, "{restored:?}");
        assert!(head.parts.len() < restored.parts.len(), "{restored:?}");
        let after = stage.deltas().await;
        for name in &before {
            let is_kept = after.contains(name) || after.contains(&format!("0-{round}-{name}"));
            assert!(is_kept, "{name} is lost: {after:?}");
        }
        let (code, text) = stage.restore();
        assert_eq!(code, Some(0), "{text}");
        assert!(text.contains("nothing is missing"), "{text}");
    }
    lives.insert(stage.life().await);
    assert_eq!(lives.len(), 3, "each time another scope");
    assert_eq!(pid(&mut stage), workers, "no worker was started again");
    stage.expect_equal().await;
}

/// A leader that knew of the first links only would remove the files of the others.
#[tokio::test]
async fn a_chain_that_lacks_its_last_links_is_restored_and_no_file_of_it_removed() {
    let mut stage = Stage::start(2, 2).await;
    stage.add(&stage.file("one", 50_000)).await.unwrap();
    stage.commits(5).await;
    let (leader, ..) = stage.leader(0).await;
    stage.fleet.member(&leader).unwrap().signal(Signal::STOP);
    let (before, last) = (stage.deltas().await, stage.head().await.id());
    let key = stage.keys.link(last);
    stage.client().await.delete(key, None).await.unwrap();
    stage.fleet.member(&leader).unwrap().kill();
    let is_told = || async {
        stage
            .logs()
            .contains("run `meta restore` once")
            .then_some(())
    };
    stage.until("a leader that sees it", is_told).await;

    let (code, text) = stage.restore();
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("the chain is restored"), "{text}");
    // Who saw it has ended, as by any input that cannot be used.
    for name in ["meta-1", "meta-2"] {
        stage.fleet.member(name).unwrap().restart().unwrap();
    }
    let files = stage.output.deltas();
    assert!(before.iter().all(|name| files.join(name).exists()));
    stage.expect_equal().await;
}

/// The same commands on an etcd that has all: they change nothing.
#[tokio::test]
async fn where_nothing_is_lost_nothing_is_restored() {
    let stage = Stage::start(1, 1).await;
    stage.add(&stage.file("one", 20_000)).await.unwrap();
    let wrong = tempfile::tempdir().unwrap();
    let (code, text) = stage.restore_from(wrong.path());
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("correct --out"), "{text}");
    let (code, text) = stage.restore();
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("nothing is missing"), "{text}");
    let verdict = stage.expect_equal().await;
    assert!(verdict.head.replaces.is_empty());
}

/// Whether it was served before, nobody can tell: it is never called withdrawn.
#[tokio::test]
async fn a_request_that_etcd_has_lost_is_not_called_withdrawn() {
    let stage = Stage::start(0, 0).await;
    let asked = stage.errand(RequestKind::Add(stage.file("one", 10)));
    let lost = async {
        let requests = stage.keys.requests();
        stage
            .until("the request", || async {
                (stage.count(requests.clone()).await == 1).then_some(())
            })
            .await;
        let prefix = Some(DeleteOptions::new().with_prefix());
        let mut client = stage.client().await;
        let deleted = client.delete(requests.clone(), prefix).await;
        deleted.unwrap().deleted()
    };
    let (failed, deleted) = tokio::join!(asked.run(Duration::from_secs(1)), lost);
    assert!(matches!(failed, Err(Failed::Unknown(_))), "{failed:?}");
    assert_eq!(deleted, 1);
}
