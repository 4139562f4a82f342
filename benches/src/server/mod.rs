//! The workers, in a process of their own: the measuring program runs itself again.

mod child;
mod node;

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use crate::machine::{Flavor, cpu_time_of};

pub use child::serve_if_asked;

/// Tells the program, in its environment, that it is the server, and which.
const ASKED: &str = "BENCHES_SERVER";

/// What the workers serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// A service as one writes it by hand: a task and a queue for each stream.
    Plain,
    /// The crate's acceptor.
    Acceptor,
}

/// Which server is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What its workers serve.
    pub service: Service,
    /// The runtime.
    pub flavor: Flavor,
    /// How many workers, each with an address of its own.
    pub workers: usize,
    /// Their port; zero for any.
    pub port: u16,
}

/// A running server; killed when this is dropped.
#[derive(Debug)]
pub struct Server {
    plan: Plan,
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

// ===== impl Plan =====

impl Plan {
    /// Asks for so many workers on any port.
    #[must_use]
    pub fn new(service: Service, flavor: Flavor, workers: usize) -> Self {
        Self {
            service,
            flavor,
            workers,
            port: 0,
        }
    }

    fn to_text(self) -> String {
        let (service, flavor) = (self.service, self.flavor);
        let is_plain = u8::from(service == Service::Plain);
        let is_current = u8::from(flavor == Flavor::Current);
        format!("{is_plain} {is_current} {} {}", self.workers, self.port)
    }

    fn from_text(text: &str) -> Option<Self> {
        let numbers: Result<Vec<usize>, _> = text.split(' ').map(str::parse).collect();
        let &[is_plain, is_current, workers, port] = numbers.ok()?.as_slice() else {
            return None;
        };
        let service = if is_plain == 1 {
            Service::Plain
        } else {
            Service::Acceptor
        };
        let flavor = if is_current == 1 {
            Flavor::Current
        } else {
            Flavor::Multi
        };
        Some(Self {
            service,
            flavor,
            workers,
            port: port.try_into().ok()?,
        })
    }
}

// ===== impl Server =====

impl Server {
    /// Starts a server and waits until it listens.
    ///
    /// # Panics
    ///
    /// Where it cannot be started.
    #[must_use]
    pub fn start(plan: Plan) -> Self {
        let program = std::env::current_exe().expect("a program knows its file");
        let mut child = Command::new(program)
            .env(ASKED, plan.to_text())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a program can run itself");
        let input = child.stdin.take().expect("the input is piped");
        let output = BufReader::new(child.stdout.take().expect("the output is piped"));
        let mut server = Self {
            plan,
            child,
            input,
            output,
        };
        let port = server.answer();
        server.plan.port = port.parse().expect("the server tells its port");
        server
    }

    /// Ends all its connections at once and goes on to serve on the same addresses.
    ///
    /// # Panics
    ///
    /// Where the server is gone.
    pub fn cut(&mut self) {
        self.input.write_all(b"cut\n").expect("the server runs");
    }

    /// Kills the server and returns what would start it again.
    ///
    /// # Panics
    ///
    /// Where it cannot be killed.
    pub fn kill(mut self) -> Plan {
        self.child.kill().expect("the server runs");
        self.child.wait().expect("a killed child ends");
        self.plan
    }

    /// Returns the CPU time that the server has used.
    ///
    /// # Panics
    ///
    /// Where the server is gone.
    #[must_use]
    pub fn cpu_time(&self) -> Duration {
        cpu_time_of(self.child.id()).expect("the server runs")
    }

    /// Returns how many workers there are.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.plan.workers
    }

    /// Returns where the worker of this number is.
    #[must_use]
    pub fn address(&self, worker: usize) -> SocketAddr {
        address(worker, self.plan.port)
    }

    /// Returns the id of the worker of this number.
    #[must_use]
    pub fn name(worker: usize) -> String {
        format!("w{worker}")
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        let read = self.output.read_line(&mut line);
        read.expect("the server answers");
        line.trim_end().to_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Each worker has an address of its own, as each has a host of its own: no port that is
/// free for a while can be taken by a connection.
fn address(worker: usize, port: u16) -> SocketAddr {
    let (host, net) = (worker % 250 + 1, worker / 250 % 250 + 1);
    let ip = Ipv4Addr::new(127, 77, net as u8, host as u8);
    SocketAddr::from((ip, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_survives_the_environment() {
        let mut plan = Plan::new(Service::Plain, Flavor::Current, 1000);
        assert_eq!(Plan::from_text(&plan.to_text()), Some(plan));
        plan = Plan::new(Service::Acceptor, Flavor::Multi, 1);
        plan.port = 65_535;
        assert_eq!(Plan::from_text(&plan.to_text()), Some(plan));
        assert_eq!(Plan::from_text("1 1 1"), None);
        assert_eq!(Plan::from_text("1 1 1 70000"), None);
    }

    #[test]
    fn ten_thousand_workers_have_different_addresses() {
        let addresses: Vec<_> = (0..10_000).map(|worker| address(worker, 1)).collect();
        let different: std::collections::HashSet<_> = addresses.iter().collect();
        assert_eq!(different.len(), addresses.len());
    }
}
