//! A candidate in a process of its own: this test program, started again.

use std::{
    fs::File,
    io::{self, Write},
    os::unix::process::ExitStatusExt,
    path::Path,
    process::Stdio,
    time::Duration,
};

use leader_election::{Election, Leadership, etcd::EtcdElection};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader},
    process::{ChildStdout, Command},
    signal::unix::{SignalKind, signal as on_signal},
    sync::mpsc,
    task::JoinHandle,
};

use crate::{boot_time, config, server::signal, soon};

/// Where a child finds its orders.
const ENDPOINT: &str = "CHILD_ENDPOINT";
const NAME: &str = "CHILD_NAME";
const TTL: &str = "CHILD_TTL";
const VALUE: &str = "CHILD_VALUE";
const RECORD: &str = "CHILD_RECORD";
const PATIENT: &str = "CHILD_PATIENT";

/// What a child is to do.
#[derive(Clone, Debug)]
pub(crate) struct Orders<'a> {
    pub(crate) endpoint: &'a str,
    pub(crate) name: &'a str,
    /// In seconds.
    pub(crate) ttl: u64,
    pub(crate) value: &'a str,
    /// Where it writes its deadlines.
    pub(crate) record: Option<&'a Path>,
    /// Waits for each renewal's answer as long as until the next renewal.
    pub(crate) is_patient: bool,
}

/// What a child says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    Leads(u64),
    Over,
    Resigned,
    Ended,
}

/// One entry of a child's record, in nanoseconds since boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) token: u64,
    /// When it was written.
    pub(crate) at: u64,
    /// The deadline of the leadership, zero when it is over.
    pub(crate) deadline: u64,
}

/// A running child; killed on drop.
pub(crate) struct Child {
    process: tokio::process::Child,
    pid: u32,
    reader: JoinHandle<()>,
}

// ===== impl Child =====

impl Child {
    /// Starts a child, which is called `number` in its news.
    pub(crate) fn start(
        orders: &Orders<'_>,
        number: usize,
        news: mpsc::Sender<(usize, News)>,
    ) -> Self {
        let program = std::env::current_exe().expect("this program");
        let mut command = Command::new(program);
        command
            .args(["--exact", "--ignored", "--nocapture", "child::candidate"])
            .env(ENDPOINT, orders.endpoint)
            .env(NAME, orders.name)
            .env(TTL, orders.ttl.to_string())
            .env(VALUE, orders.value)
            // Its end tells the child that this program is gone.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        if let Some(record) = orders.record {
            command.env(RECORD, record);
        }
        if orders.is_patient {
            command.env(PATIENT, "1");
        }
        let mut process = command.spawn().expect("starts itself");
        let stdout = process.stdout.take().expect("piped");
        Self {
            pid: process.id().expect("runs"),
            process,
            reader: tokio::spawn(read(stdout, number, news)),
        }
    }

    /// Kills it as `kill -9` does.
    pub(crate) async fn kill(&mut self) {
        self.process.start_kill().expect("own child");
        let status = self.process.wait().await.expect("own child");
        assert_eq!(status.signal(), Some(9), "{status}");
    }

    /// Stops it, and waits until the kernel says so.
    pub(crate) async fn stop(&self) {
        signal(self.pid, "STOP");
        let stat = format!("/proc/{}/stat", self.pid);
        let stopped = async {
            while !std::fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") T ")) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        soon(stopped).await;
    }

    pub(crate) fn go_on(&self) {
        signal(self.pid, "CONT");
    }

    /// Sends SIGINT: it resigns and ends.
    pub(crate) fn interrupt(&self) {
        signal(self.pid, "INT");
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

async fn read(stdout: ChildStdout, number: usize, news: mpsc::Sender<(usize, News)>) {
    let mut lines = BufReader::new(stdout).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let said = match line.split_once(' ') {
            Some(("leads", token)) => News::Leads(token.parse().expect("a token")),
            Some(("over", _)) => News::Over,
            Some(("resigned", _)) => News::Resigned,
            // Of the test harness.
            _ => continue,
        };
        if news.send((number, said)).await.is_err() {
            return;
        }
    }
    let _ = news.send((number, News::Ended)).await;
}

// ===== impl Entry =====

impl Entry {
    const BYTES: usize = 24;

    /// Reads a record; an entry that is being written is left out.
    pub(crate) fn read_all(record: &Path) -> Vec<Self> {
        let bytes = match std::fs::read(record) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
            Err(error) => panic!("{}: {error}", record.display()),
        };
        let entry = |bytes: &[u8]| {
            let number = |at: usize| {
                let bytes = bytes[at..at + 8].try_into().expect("eight bytes");
                u64::from_le_bytes(bytes)
            };
            Self {
                token: number(0),
                at: number(8),
                deadline: number(16),
            }
        };
        bytes.chunks_exact(Self::BYTES).map(entry).collect()
    }

    /// In one write: whoever is killed leaves whole entries.
    fn write(self, record: &mut File) {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.token.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.at.to_le_bytes());
        bytes[16..].copy_from_slice(&self.deadline.to_le_bytes());
        record.write_all(&bytes).expect("the record is writable");
    }
}

/// Of the clock that all processes of the machine share.
pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).expect("the machine booted lately")
}

fn follow(leadership: &Leadership, record: &Path) {
    let mut file = File::options()
        .append(true)
        .create(true)
        .open(record)
        .expect("the record opens");
    let token = leadership.token();
    leadership.follow(move |deadline| {
        let entry = Entry {
            token,
            at: nanos(boot_time()),
            deadline: nanos(deadline),
        };
        entry.write(&mut file);
    });
}

fn order(name: &str) -> String {
    std::env::var(name).expect("children have orders")
}

#[tokio::test]
#[ignore = "the process of a candidate, started by other tests"]
async fn candidate() {
    let Ok(endpoint) = std::env::var(ENDPOINT) else {
        return;
    };
    let record = std::env::var_os(RECORD);
    let mut config = config(order(TTL).parse().expect("seconds"));
    if std::env::var_os(PATIENT).is_some() {
        let ttl = config.ttl;
        config = config
            .with_renew_every(ttl * 33 / 100)
            .with_renew_timeout(ttl * 32 / 100)
            .with_reserve(ttl / 100);
    }
    let mut interrupts = on_signal(SignalKind::interrupt()).expect("signals are heard");
    let mut stdin = tokio::io::stdin();
    let mut byte = [0];
    let campaigns = async {
        let election = EtcdElection::connect([endpoint], &order(NAME), config).await;
        let election = election.expect("the orders are right");
        let value = order(VALUE);
        loop {
            let leadership = tokio::select! {
                won = election.campaign(value.as_bytes()) => won.expect("no final error"),
                _ = interrupts.recv() => return,
            };
            if let Some(record) = &record {
                follow(&leadership, Path::new(record));
            }
            println!("leads {}", leadership.token());
            tokio::select! {
                why = leadership.lost() => println!("over {why}"),
                _ = interrupts.recv() => {
                    println!("resigned {}", leadership.resign().await);
                    return;
                }
            }
        }
    };
    tokio::select! {
        () = campaigns => {}
        _ = stdin.read(&mut byte) => {}
    }
}
