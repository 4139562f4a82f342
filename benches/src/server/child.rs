//! The server's process: listens, serves, and does what it is told on its input.

use std::io::{BufRead, Write};
use std::net::TcpListener;
use std::time::Duration;

use bidi_session::tonic::{Acceptor, KEEPALIVE_INTERVAL, KEEPALIVE_TIMEOUT};
use tokio::sync::mpsc;
use tonic::transport::Server as Tonic;
use tonic::transport::server::TcpIncoming;

use super::node::{Node, Plain};
use super::{ASKED, Plan, Server, Service, address};
use crate::fleet::WINDOWS;
use crate::machine::raise_file_limit;
use crate::wire::worker_server::{Worker, WorkerServer};

/// Serves, where this process was started as the server; says whether it was.
///
/// The first thing that a measuring program does; the server ends with its parent.
///
/// # Panics
///
/// Where it cannot listen.
#[must_use = "a server must not go on as the measuring program"]
pub fn serve_if_asked() -> bool {
    let Ok(text) = std::env::var(ASKED) else {
        return false;
    };
    let plan = Plan::from_text(&text).expect("the parent asks for a server");
    raise_file_limit();
    let listeners = listen(plan);
    let port = listeners[0]
        .local_addr()
        .map_or(0, |address| address.port());
    tell(&port.to_string());
    let mut orders = orders();
    loop {
        let runtime = plan.flavor.runtime();
        let order = runtime.block_on(async {
            for (worker, listener) in listeners.iter().enumerate() {
                let listener = listener.try_clone().expect("a listener has copies");
                match plan.service {
                    Service::Plain => serve(listener, Plain),
                    Service::Acceptor => {
                        let acceptor = Acceptor::new(Server::name(worker), 1, 0);
                        serve(listener, Node { acceptor });
                    }
                }
            }
            orders.recv().await
        });
        // Its tasks end, and with them their sockets.
        runtime.shutdown_timeout(Duration::from_secs(5));
        if order.is_none() {
            return true;
        }
    }
}

/// Listens on the address of each worker, all on one port.
fn listen(plan: Plan) -> Vec<TcpListener> {
    let first = TcpListener::bind(address(0, plan.port)).expect("a port is free");
    let port = first.local_addr().map_or(0, |address| address.port());
    let mut listeners = vec![first];
    for worker in 1..plan.workers {
        let listener = TcpListener::bind(address(worker, port));
        listeners.push(listener.expect("an address of its own has each port free"));
    }
    for listener in &listeners {
        let set = listener.set_nonblocking(true);
        set.expect("a listener can be made not to block");
    }
    listeners
}

fn serve(listener: TcpListener, worker: impl Worker) {
    let listener = tokio::net::TcpListener::from_std(listener).expect("a runtime takes a listener");
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    let server = Tonic::builder()
        .initial_stream_window_size(WINDOWS.0)
        .initial_connection_window_size(WINDOWS.1)
        .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
        .add_service(WorkerServer::new(worker))
        .serve_with_incoming(incoming);
    // Ends with the runtime.
    tokio::spawn(server);
}

/// Reads the input on a thread of its own: a line is an order, the end is the end.
fn orders() -> mpsc::Receiver<()> {
    let (sender, orders) = mpsc::channel(1);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            if line.is_err() || sender.blocking_send(()).is_err() {
                return;
            }
        }
    });
    orders
}

fn tell(line: &str) {
    let mut output = std::io::stdout().lock();
    let told = writeln!(output, "{line}").and_then(|()| output.flush());
    told.expect("the parent listens");
}
