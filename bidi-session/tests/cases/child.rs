//! Processes of their own: this program, started again with a part to play.
//!
//! They say what happens to them in lines on their output and obey lines on their input;
//! they end when that closes.

use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::sync::Arc;

use bidi_session::tonic::Acceptor;
use bidi_session::{EventKind, Events, Pool, PoolConfig, SendErrorKind};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines, Stdin};
use tokio::process::{ChildStdin, ChildStdout, Command as Process};
use tokio::sync::Notify;

use super::leaked_socket;
use super::real::{
    self, Connect, Host, LONG, Node, WorkerSession, answer, barrier, command, endpoint, note, soon,
};

const PART: &str = "BIDI_SESSION_CASES_PART";
const PLACES: &str = "BIDI_SESSION_CASES_PLACES";
const LINE: &str = "> ";

static BIG: [u8; 64 * 1024] = [7; 64 * 1024];

/// A process that plays a part; killed when dropped.
pub(crate) struct Child {
    process: tokio::process::Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

/// What a process is to play.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part {
    /// Workers that echo, each at its place; their incarnation is the process's id.
    ///
    /// Says `<name> listens <address>`, `<name> began` and `<name> over`. Obeys `flood`:
    /// the session of `full` sends until it is over.
    Workers,
    /// One pool of workers, each at its place.
    ///
    /// Says `<name> up` and `<name> down <why>`. Obeys `flood`: each session is sent to
    /// until its outbox is full for good, told as `<name> full`; and `round`: told as
    /// `round <answers>`.
    Pool,
    /// A pool whose one session is reset again and again.
    ///
    /// Says `resets <count>`, and what it held first and last.
    Reconnecting,
}

// ===== impl Child =====

impl Child {
    pub(crate) fn start(part: Part, places: &[(&str, SocketAddr)]) -> Self {
        Self::start_in(None, part, places)
    }

    /// Starts a process in a network namespace of this name.
    pub(crate) fn start_in(space: Option<&str>, part: Part, places: &[(&str, SocketAddr)]) -> Self {
        let program = std::env::current_exe().unwrap();
        let mut process = match space {
            Some(space) => {
                let mut process = Process::new("ip");
                process.args(["netns", "exec", space]).arg(program);
                process
            }
            None => Process::new(program),
        };
        let places: Vec<String> = places
            .iter()
            .map(|(name, address)| format!("{name}={address}"))
            .collect();
        let mut process = process
            .args(["--exact", "child::plays_a_part", "--ignored", "--nocapture"])
            .env(PART, format!("{part:?}"))
            .env(PLACES, places.join(","))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("this test starts itself, and `ip` of the package iproute2");
        Self {
            input: process.stdin.take().unwrap(),
            output: BufReader::new(process.stdout.take().unwrap()).lines(),
            process,
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id().expect("it was not waited for")
    }

    /// Returns the next line that it says.
    pub(crate) async fn line(&mut self) -> String {
        loop {
            let line = soon(self.output.next_line()).await.unwrap();
            let line = line.expect("the process has ended");
            if let Some(said) = line.strip_prefix(LINE) {
                return said.to_owned();
            }
        }
    }

    /// Waits until it has said as many lines with this end; returns all up to then.
    pub(crate) async fn lines(&mut self, count: usize, end: &str) -> Vec<String> {
        let mut lines = Vec::new();
        let mut seen = 0;
        while seen < count {
            let line = self.line().await;
            seen += usize::from(line.ends_with(end) || line.contains(&format!("{end} ")));
            lines.push(line);
        }
        lines
    }

    /// Returns where each worker listens, in the order of their places.
    pub(crate) async fn addresses(&mut self, count: usize) -> Vec<SocketAddr> {
        let lines = self.lines(count, " listens").await;
        let address = |line: &String| line.rsplit(' ').next()?.parse().ok();
        lines.iter().map(|line| address(line).unwrap()).collect()
    }

    pub(crate) async fn tell(&mut self, order: &str) {
        let line = format!("{order}\n");
        self.input.write_all(line.as_bytes()).await.unwrap();
    }

    /// Stops the process until it is let go on; the kernel confirms it.
    pub(crate) async fn stop(&self) {
        self.signal("-STOP").await;
        while self.state() != 'T' {
            tokio::task::yield_now().await;
        }
    }

    pub(crate) async fn go_on(&self) {
        self.signal("-CONT").await;
    }

    /// Kills the process and returns the signal that the kernel says it died of.
    pub(crate) async fn kill(mut self) -> i32 {
        self.process.start_kill().unwrap();
        let status = soon(self.process.wait()).await.unwrap();
        status.signal().expect("it ended by itself")
    }

    /// Returns the process's state as the kernel tells it; `T` is stopped.
    pub(crate) fn state(&self) -> char {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.id())).unwrap();
        let (_, after) = stat.rsplit_once(") ").unwrap();
        after.chars().next().unwrap()
    }

    async fn signal(&self, signal: &str) {
        let id = self.id().to_string();
        let status = Process::new("kill").args([signal, &id]).status();
        assert!(status.await.unwrap().success());
    }
}

// ===== The parts =====

/// No test of its own: what the processes run.
#[tokio::test]
#[ignore = "runs in the processes that other tests start"]
async fn plays_a_part() {
    let Ok(part) = std::env::var(PART) else {
        return;
    };
    let places = std::env::var(PLACES).unwrap();
    let places: Vec<(String, SocketAddr)> = places
        .split(',')
        .map(|place| place.split_once('=').unwrap())
        .map(|(name, address)| (name.to_owned(), address.parse().unwrap()))
        .collect();
    // The line that the test program has begun ends here.
    println!();
    let orders = BufReader::new(tokio::io::stdin()).lines();
    match part.as_str() {
        "Workers" => play_workers(&places, orders).await,
        "Pool" => play_pool(&places, orders).await,
        "Reconnecting" => {
            let (resets, held) = leaked_socket::play_reconnecting().await;
            println!("{LINE}resets {resets}\n{LINE}{held}");
        }
        part => panic!("no such part: {part}"),
    }
}

async fn play_workers(places: &[(String, SocketAddr)], mut orders: Lines<BufReader<Stdin>>) {
    let flood = Arc::new(Notify::new());
    let incarnation = std::process::id().into();
    let mut hosts = Vec::new();
    for (name, address) in places {
        let (own, flood) = (name.clone(), flood.clone());
        let handler = move |session| play_session(own.clone(), flood.clone(), session);
        let node = Node::new(Acceptor::new(name.as_str(), incarnation, 0), handler);
        let host = Host::start_at(*address, node);
        println!("{LINE}{name} listens {}", host.address);
        hosts.push(host);
    }
    while orders.next_line().await.unwrap().is_some() {
        flood.notify_waiters();
    }
}

async fn play_session(name: String, flood: Arc<Notify>, mut session: WorkerSession) {
    println!("{LINE}{name} began");
    let mut flood = std::pin::pin!(flood.notified());
    loop {
        tokio::select! {
            biased;
            command = session.recv() => match command {
                Some(command) => drop(session.send(answer(command)).await),
                None => break,
            },
            () = &mut flood, if name == "full" => {
                while session.send(note(&BIG[..])).await.is_ok() {}
                assert!(session.recv().await.is_none());
                break;
            }
        }
    }
    println!("{LINE}{name} over");
}

async fn play_pool(places: &[(String, SocketAddr)], mut orders: Lines<BufReader<Stdin>>) {
    let (pool, events) = Pool::new(real::connect(), PoolConfig::new(1));
    for (name, address) in places {
        pool.insert(name.as_str(), endpoint(*address));
    }
    let telling = tell_events(events);
    let names: Vec<&str> = places.iter().map(|(name, _)| name.as_str()).collect();
    let obeying = async {
        let mut round = 0;
        while let Some(order) = orders.next_line().await.unwrap() {
            if order == "round" {
                round += 1;
                pool.ready(&names, LONG).await.unwrap();
                let injected = pool.inject(round, &names, |_| barrier(round)).unwrap();
                let answers = injected.collect(LONG).await.unwrap();
                println!("{LINE}round {}", answers.len());
            } else {
                fill(&pool, &names).await;
            }
        }
    };
    tokio::select! {
        () = telling => {}
        () = obeying => {}
    }
}

async fn tell_events(mut events: Events<Connect>) {
    while let Some(event) = events.recv().await {
        let worker = &event.worker;
        match event.kind {
            EventKind::Connected { .. } => println!("{LINE}{worker} up"),
            EventKind::Disconnected { reason, .. } => println!("{LINE}{worker} down {reason}"),
            _ => {}
        }
    }
}

/// Sends until nothing moves any more.
async fn fill(pool: &Pool<Connect>, names: &[&str]) {
    for name in names {
        let mut refused = 0;
        while refused < 100 {
            match pool.try_send(name, command(&BIG[..])) {
                Ok(()) => refused = 0,
                Err(error) if error.kind == SendErrorKind::Full => {
                    refused += 1;
                    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
                }
                Err(_) => break,
            }
        }
        println!("{LINE}{name} full");
    }
}
