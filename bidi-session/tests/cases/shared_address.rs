//! Two workers' ids at one address.

use std::time::Duration;

use bidi_session::tonic::FaultProxy;
use bidi_session::{EventKind, OpenClass};

use super::real::{Host, Node, connected, endpoint, pool, soon};
use super::time::{Watch, size};

#[tokio::test]
async fn the_wrong_one_of_two_ids_at_one_address_costs_the_right_one_nothing() {
    let node = Node::echo("right", 1);
    let host = Host::start(node.clone());
    let proxy = FaultProxy::start(host.address).unwrap();
    let (pool, mut events) = pool(1);
    pool.insert("right", endpoint(proxy.address()));
    let (generation, _) = connected(&mut events).await;
    pool.insert("wrong", endpoint(proxy.address()));
    let watch = Watch::start();
    let length = size(Duration::from_secs(2), Duration::from_secs(60));
    while watch.elapsed() < length {
        let event = soon(events.recv()).await.unwrap();
        assert_eq!(event.worker.as_str(), "wrong", "{event:?}");
        let EventKind::AttemptFailed { error, .. } = event.kind else {
            panic!("the wrong one has a session");
        };
        assert_eq!(error.class, OpenClass::Refused);
        assert!(
            error.text.contains("another worker answers: right"),
            "{error}"
        );
    }
    assert_eq!(pool.state("right").unwrap().session(), Some(generation));
    // One connection is the right one's.
    let refused = proxy.counts().connections - 1;
    assert!(refused >= 3);
    println!("CASE two-ids-at-one-address fault={refused}");
}
