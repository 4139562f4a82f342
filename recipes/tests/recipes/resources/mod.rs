//! The recipes as resources of the suite, and what starts each of them.

mod clients;
mod etcd;
mod postgres;
mod served;

use fencing::Token;
use recipes::conformance::Harness;

pub(crate) use clients::{EtcdForeign, EtcdOwn, Keys, PostgresClient};
pub(crate) use etcd::{ForeignEtcd, OwnEtcd};
pub(crate) use postgres::PostgresServer;
pub(crate) use served::{Kind, Served, open_in};

/// A harness whose tokens may have a key, which a writer needs as well.
pub(crate) trait Keyed: Harness {
    fn key_of(&self, _: &Token) -> Option<Vec<u8>> {
        None
    }
}

impl Keyed for Served {}
impl Keyed for PostgresServer {}
impl Keyed for ForeignEtcd {}
