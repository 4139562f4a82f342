//! One candidate of an election in etcd; start several. Ctrl-C and SIGTERM resign, so that
//! the next one leads at once.
//!
//! `cargo run -p leader-election --features etcd --example elect_etcd -- \
//! http://127.0.0.1:2379 node-1`

use std::{pin::pin, process::ExitCode, time::Duration};

use leader_election::{Election, ElectionConfig, etcd::EtcdElection};
use tokio::{select, task::JoinSet, time::sleep};

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [endpoint, name] = arguments.as_slice() else {
        eprintln!("usage: elect_etcd ENDPOINT NAME, such as http://127.0.0.1:2379 node-1");
        return ExitCode::from(2);
    };
    match run(endpoint.clone(), name).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(endpoint: String, name: &str) -> Result<(), Box<dyn std::error::Error>> {
    let config = ElectionConfig::default();
    let election = EtcdElection::connect([endpoint], "example", config).await?;
    let mut observer = JoinSet::new();
    observer.spawn(watch(election.clone()));
    let mut shutdown = pin!(shutdown());
    loop {
        let leadership = select! {
            won = election.campaign(name.as_bytes()) => won?,
            stop = &mut shutdown => break stop?,
        };
        println!(
            "{name} leads with token {} of {}",
            leadership.token(),
            leadership.scope()
        );
        leadership.follow(|deadline| {
            if !deadline.is_zero() {
                println!("may lead until {deadline:.1?} after boot");
            }
        });
        select! {
            loss = leadership.lost() => println!("{name} leads no longer: {loss}"),
            stop = &mut shutdown => {
                println!("{name} resigned: {}", leadership.resign().await);
                break stop?;
            }
        }
    }
    // A campaign that was dropped is withdrawn in the background.
    sleep(Duration::from_millis(200)).await;
    Ok(())
}

async fn watch(election: EtcdElection) {
    let mut leader = election.observe();
    leader.mark_changed();
    while leader.changed().await.is_ok() {
        let shown = leader.borrow_and_update().clone();
        let name = shown.map(|leader| String::from_utf8_lossy(&leader.value).into_owned());
        println!("  who leads: {}", name.as_deref().unwrap_or("nobody"));
    }
}

async fn shutdown() -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    select! {
        stop = tokio::signal::ctrl_c() => stop,
        _ = terminate.recv() => Ok(()),
    }
}
