//! Three candidates in one process. Each leads for a while; the first one stops making
//! progress, so that it loses its lease. Ctrl-C ends it earlier.
//!
//! `cargo run -p leader-election --example elect`

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use leader_election::{Election, ElectionConfig, Error, MemoryElection};
use tokio::{task::JoinSet, time::sleep};

const TTL: Duration = Duration::from_secs(1);
const TURN: Duration = Duration::from_secs(2);

static IS_STUCK: AtomicBool = AtomicBool::new(false);

#[tokio::main]
async fn main() -> Result<(), Error> {
    let election = MemoryElection::new(ElectionConfig::for_ttl(TTL), 1);
    let mut candidates = JoinSet::new();
    for number in 1..=3 {
        candidates.spawn(candidate(election.clone(), number));
        // So that they queue up in this order.
        sleep(Duration::from_millis(10)).await;
    }
    candidates.spawn(watch(election));
    tokio::select! {
        () = async { while candidates.len() > 1 { candidates.join_next().await; } } => {}
        _ = tokio::signal::ctrl_c() => println!("stops: every candidate leaves"),
    }
    // Dropped leaderships are resigned in the background.
    candidates.shutdown().await;
    sleep(Duration::from_millis(50)).await;
    Ok(())
}

async fn candidate(election: MemoryElection, number: u64) {
    let config = ElectionConfig::for_ttl(TTL);
    let progress = move || number != 1 || !IS_STUCK.load(Ordering::Relaxed);
    let election = election.with_config(config.with_renew_while(progress));
    let leadership = match election.campaign(format!("node-{number}").as_bytes()).await {
        Ok(leadership) => leadership,
        Err(error) => return eprintln!("node-{number} cannot campaign: {error}"),
    };
    println!("node-{number} leads with token {}", leadership.token());
    let mut renewals = 0;
    leadership.follow(move |deadline| {
        if !deadline.is_zero() && renewals > 0 {
            println!("node-{number} renewed: may lead until {deadline:.1?} after boot");
        }
        renewals += 1;
    });
    tokio::select! {
        () = sleep(TURN) => {}
        loss = leadership.lost() => return println!("node-{number} leads no longer: {loss}"),
    }
    if number == 1 {
        println!("node-{number} is stuck: it renews no more");
        IS_STUCK.store(true, Ordering::Relaxed);
        return println!("node-{number} leads no longer: {}", leadership.lost().await);
    }
    println!("node-{number} resigned: {}", leadership.resign().await);
}

async fn watch(election: MemoryElection) {
    let mut leader = election.observe();
    leader.mark_changed();
    while leader.changed().await.is_ok() {
        let shown = leader.borrow_and_update().clone();
        let name = shown.map(|leader| String::from_utf8_lossy(&leader.value).into_owned());
        println!("  observers see: {}", name.as_deref().unwrap_or("nobody"));
    }
}
