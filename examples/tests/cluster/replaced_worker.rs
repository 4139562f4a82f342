//! Two lives of one worker: the entry of the younger one stays.

use std::time::Duration;

use etcd_client::KeyValue;
use examples::etcd::{Ended, Registration};

use crate::support::{LONG, Stage, TTL};

async fn entry(stage: &Stage) -> KeyValue {
    let key = stage.keys.worker("w7");
    let found = stage.client().await.get(key, None).await.unwrap();
    found.kvs().first().expect("an entry").clone()
}

async fn begin(stage: &Stage, address: &str) -> Registration {
    let (link, keys) = (stage.link.clone(), &stage.keys);
    Registration::begin(link, keys, "w7", address.to_owned(), 1, TTL).await
}

#[derive(Clone, Copy, Debug)]
enum Late {
    Renewal,
    Withdrawal,
    Expiry,
}

/// The late steps of the older life in each order; the registry decides.
#[tokio::test]
async fn what_an_older_life_does_late_never_touches_the_entry_of_a_younger_one() {
    let stage = Stage::start(0, 0).await;
    let mut replaced = 0;
    for late in [Late::Renewal, Late::Withdrawal, Late::Expiry] {
        let mut older = begin(&stage, "old:1").await;
        let registered = tokio::time::timeout(Duration::from_millis(500), older.keep()).await;
        assert!(registered.is_err(), "it stays registered");
        let mut younger = begin(&stage, "new:1").await;
        assert_ne!(older.incarnation(), younger.incarnation());
        let mine = format!("incarnation {}\n", younger.incarnation());
        let outcome = async {
            stage
                .until("the younger life's entry", || async {
                    let text = entry(&stage).await;
                    text.value_str().unwrap().contains(&mine).then_some(())
                })
                .await;
            match late {
                Late::Renewal => {
                    let ended = tokio::time::timeout(LONG, older.keep()).await;
                    assert_eq!(ended, Ok(Ended::Replaced));
                }
                Late::Withdrawal => older.withdraw().await,
                // Its lease runs out: nobody renews it.
                Late::Expiry => {
                    drop(older);
                    tokio::time::sleep(TTL * 2).await;
                }
            }
            let found = entry(&stage).await;
            assert!(found.value_str().unwrap().contains(&mine), "{late:?}");
            found.version()
        };
        tokio::select! {
            ended = younger.keep() => panic!("{late:?}: {ended:?}"),
            version = outcome => replaced += version,
        }
        younger.withdraw().await;
        assert_eq!(stage.count(stage.keys.workers()).await, 0, "{late:?}");
    }
    println!("CASE L09 fault={replaced}");
}
