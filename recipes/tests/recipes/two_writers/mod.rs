//! Hunts effects of a holder that is over and does not know it: two processes that both
//! believe to lead, stopped and continued at random.
//!
//! A fence that is off is one that sees the same token all the time; the number under which
//! a writer believes to lead is in the id of each entry.

mod soak;
mod writer;

use std::sync::atomic::Ordering::SeqCst;

use crate::resources::{ForeignEtcd, Kind, OwnEtcd, PostgresServer, Served};
use soak::{finds_a_violation, holds};
use writer::Target;

fn served(served: &Served) -> Target {
    match served.kind {
        Kind::File | Kind::MemoryObjects => Target::Served(served.port.load(SeqCst)),
        kind => Target::Folder(kind, served.folder.path().to_str().unwrap().to_owned()),
    }
}

macro_rules! soaks {
    ($($name:ident: $start:expr, $target:expr;)+) => {
        $(mod $name {
            use super::*;

            #[tokio::test(flavor = "multi_thread")]
            async fn no_stale_effect_and_every_acknowledged_write_once() {
                let harness = $start.await;
                holds(stringify!($name), &harness, $target(&harness)).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn with_the_fence_off_the_same_soak_finds_a_violation() {
                let harness = $start.await;
                finds_a_violation(stringify!($name), &harness, $target(&harness)).await;
            }
        })+
    };
}

soaks! {
    sqlite: Served::start(Kind::Sqlite), served;
    file: Served::start(Kind::File), served;
    local_objects: Served::start(Kind::LocalObjects), served;
    memory_objects: Served::start(Kind::MemoryObjects), served;
    postgres: PostgresServer::start(), |server: &PostgresServer| Target::Postgres(server.port());
    etcd_foreign: ForeignEtcd::start(), |server: &ForeignEtcd| Target::Foreign(server.port());
    etcd_own: OwnEtcd::start(), |server: &OwnEtcd| Target::Own(server.port());
}
