//! A worker's host that vanishes without a word, while its worker stays registered.

use std::net::{SocketAddr, TcpListener};

use tokio::time::Instant;

use crate::proxy::{Mode, Proxy};
use crate::support::Stage;

#[tokio::test]
async fn its_round_fails_by_name_its_shards_move_and_its_state_says_why() {
    let mut stage = Stage::start(0, 2).await;
    // So long that only the detection of a dead connection can end the round.
    let patient = ["--round-deadline", "10m"];
    stage.fleet.add("meta", "meta-1", &patient).unwrap();
    let reserved = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen: SocketAddr = reserved.local_addr().unwrap();
    drop(reserved);
    let wire = Proxy::start(listen).await;
    let (listen, advertise) = (listen.to_string(), wire.address.to_string());
    let at = ["--listen", &*listen, "--advertise", &*advertise];
    stage.fleet.add("compute", "w3", &at).unwrap();
    stage.add(&stage.file("one", 2_000_000)).await.unwrap();
    stage.holds_shards("w3").await;
    wire.set(Mode::Swallow);
    let vanished = Instant::now();
    // The barrier that it holds: nobody else is waited for.
    let held = stage.told(&["\nround ", " s for w3\n"]).await;
    println!("{held}");
    stage.said_of("w3", " 0 shards").await;
    println!("its shards moved after {:?}", vanished.elapsed());
    stage.commits(3).await;
    let state = stage.said_of("w3", ", next in ").await;
    println!("{state}");
    for part in ["waiting to connect for ", " failed attempts, last: "] {
        assert!(state.contains(part), "no {part:?} in {state}");
    }
    assert_eq!(
        stage.count(stage.keys.workers()).await,
        3,
        "it is registered"
    );
    let log = stage.log("meta-1");
    let by_name = "cause=\"workers were lost in the round: w3 (";
    assert!(log.contains(by_name), "{log}");
    stage.expect_equal().await;
    assert!(wire.kept() > 0, "nothing was swallowed");
    println!("bytes swallowed: {}", wire.kept());
}
