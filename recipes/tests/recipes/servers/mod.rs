//! Real servers, started by the test on free ports and in folders of their own.

mod etcd;
mod postgres;

use std::net::TcpListener;

pub(crate) use etcd::Etcd;
pub(crate) use postgres::Postgres;

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("bound").port()
}
