//! A candidate in a process of its own: this test program, started again.

use std::{
    io::{self, Read, Write},
    os::unix::process::ExitStatusExt,
    path::Path,
    process::Stdio,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use leader_election::{Election, ElectionConfig, Leadership, etcd::EtcdElection};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{ChildStdin, ChildStdout, Command},
    signal::unix::{SignalKind, signal as on_signal},
    sync::{mpsc, oneshot},
    task::JoinHandle,
};

use crate::{
    boot_time, config,
    record::{self, Entry, nanos},
    server::{signal, stopped_threads},
    soon,
};

/// Where a child finds its orders.
const ENDPOINTS: &str = "CHILD_ENDPOINTS";
const NAME: &str = "CHILD_NAME";
const TTL: &str = "CHILD_TTL";
const VALUE: &str = "CHILD_VALUE";
const RECORD: &str = "CHILD_RECORD";
const PATIENT: &str = "CHILD_PATIENT";
const TELLS: &str = "CHILD_TELLS_RENEWALS";

/// Marks what is said to the test, beside what the test harness itself prints.
const MARK: &str = "@child ";
/// What waits for a test to read it.
const QUEUE: usize = 4096;

/// What a child is to do.
#[derive(Clone, Debug)]
pub(crate) struct Orders<'a> {
    pub(crate) endpoints: &'a [String],
    pub(crate) name: &'a str,
    /// In seconds.
    pub(crate) ttl: u64,
    pub(crate) value: &'a str,
    /// Where it writes its deadlines.
    pub(crate) record: Option<&'a Path>,
    /// Waits for each renewal's answer as long as until the next renewal.
    pub(crate) is_patient: bool,
    /// Says that it leads at each renewal, too.
    pub(crate) tells_renewals: bool,
}

/// What a child says; times are since boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    Started,
    /// Leads until this deadline; said at this time.
    Leads {
        token: u64,
        at: Duration,
        deadline: Duration,
    },
    Over {
        token: u64,
    },
    /// Was asked to end, and has resigned.
    Resigned {
        token: u64,
    },
    /// Was asked to end when it did not lead.
    Left,
    /// Says no more.
    Ended,
}

/// A running child; killed on drop.
pub(crate) struct Child {
    process: tokio::process::Child,
    pid: u32,
    reader: JoinHandle<()>,
    /// Its end tells the child that this program is gone; waiting for the child would end it.
    _stdin: Option<ChildStdin>,
}

/// The words of several children, each with the number that it was given.
pub(crate) struct Words {
    sender: mpsc::Sender<(usize, News)>,
    receiver: mpsc::Receiver<(usize, News)>,
}

// ===== impl Orders =====

impl<'a> Orders<'a> {
    /// To campaign in the election `e`.
    pub(crate) fn new(endpoints: &'a [String], ttl: u64, value: &'a str) -> Self {
        Self {
            endpoints,
            name: "e",
            ttl,
            value,
            record: None,
            is_patient: false,
            tells_renewals: false,
        }
    }
}

// ===== impl News =====

impl News {
    fn parse(line: &str) -> Option<Self> {
        // The test harness may have begun the line.
        let (_, words) = line.split_once(MARK)?;
        let mut words = words.split(' ');
        let what = words.next()?;
        let mut number = || words.next()?.parse::<u64>().ok();
        Some(match what {
            "started" => Self::Started,
            "leads" => Self::Leads {
                token: number()?,
                at: Duration::from_nanos(number()?),
                deadline: Duration::from_nanos(number()?),
            },
            "over" => Self::Over { token: number()? },
            "resigned" => Self::Resigned { token: number()? },
            "left" => Self::Left,
            _ => return None,
        })
    }
}

// ===== impl Words =====

impl Words {
    pub(crate) fn new() -> Self {
        let (sender, receiver) = mpsc::channel(QUEUE);
        Self { sender, receiver }
    }

    pub(crate) fn start(&self, number: usize, orders: &Orders<'_>) -> Child {
        Child::start(orders, number, self.sender.clone())
    }

    pub(crate) async fn next(&mut self) -> (usize, News) {
        soon(self.receiver.recv()).await.expect("a sender is kept")
    }

    /// Waits for a word that is wanted, and returns what was said until then.
    pub(crate) async fn until(
        &mut self,
        mut is_wanted: impl FnMut(usize, News) -> bool,
    ) -> Vec<(usize, News)> {
        let mut all = Vec::new();
        let wanted = async {
            loop {
                let (number, said) = self.next().await;
                all.push((number, said));
                if is_wanted(number, said) {
                    return;
                }
            }
        };
        soon(wanted).await;
        all
    }
}

// ===== impl Child =====

impl Child {
    /// Starts a child, which is called `number` in its news.
    fn start(orders: &Orders<'_>, number: usize, news: mpsc::Sender<(usize, News)>) -> Self {
        let program = std::env::current_exe().expect("this program");
        let mut command = Command::new(program);
        command
            .args(["--exact", "--ignored", "--nocapture", "child::candidate"])
            .env(ENDPOINTS, orders.endpoints.join(","))
            .env(NAME, orders.name)
            .env(TTL, orders.ttl.to_string())
            .env(VALUE, orders.value)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        if let Some(record) = orders.record {
            command.env(RECORD, record);
        }
        for (is_wanted, order) in [(orders.is_patient, PATIENT), (orders.tells_renewals, TELLS)] {
            if is_wanted {
                command.env(order, "1");
            }
        }
        let mut process = command.spawn().expect("starts itself");
        let stdout = process.stdout.take().expect("piped");
        Self {
            pid: process.id().expect("runs"),
            _stdin: process.stdin.take(),
            process,
            reader: tokio::spawn(read(stdout, number, news)),
        }
    }

    /// Kills it as `kill -9` does, and counts it as the kernel tells.
    pub(crate) async fn kill(&mut self) -> u64 {
        self.process.start_kill().expect("own child");
        let status = self.process.wait().await.expect("own child");
        assert_eq!(status.signal(), Some(9), "{status}");
        1
    }

    /// Stops it, and waits until the kernel says so.
    pub(crate) fn stop(&self) {
        signal(self.pid, "STOP");
        while stopped_threads(self.pid) == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    pub(crate) fn go_on(&self) {
        signal(self.pid, "CONT");
    }

    /// Asks it to end, by SIGINT or SIGTERM: it resigns first.
    pub(crate) fn ask(&self, name: &str) {
        signal(self.pid, name);
    }

    /// Waits for its end, and returns its exit code.
    pub(crate) async fn ended(&mut self) -> Option<i32> {
        let status = soon(self.process.wait()).await.expect("own child");
        status.code()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
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
        if let Some(said) = News::parse(&line)
            && news.send((number, said)).await.is_err()
        {
            return;
        }
    }
    let _ = news.send((number, News::Ended)).await;
}

/// One write for each line, so that a kill leaves no half of one.
fn say(words: &str) {
    let line = format!("{MARK}{words}\n");
    let mut out = io::stdout().lock();
    out.write_all(line.as_bytes()).expect("the test reads");
}

/// Says that it leads, and writes its deadlines down.
fn follow(leadership: &Leadership) {
    let mut record = std::env::var_os(RECORD).map(|record| record::open(Path::new(&record)));
    let tells_renewals = std::env::var_os(TELLS).is_some();
    let (token, mut has_told) = (leadership.token(), false);
    leadership.follow(move |deadline| {
        let entry = Entry {
            token,
            at: nanos(boot_time()),
            deadline: nanos(deadline),
        };
        if let Some(file) = &mut record {
            entry.write(file);
        }
        if entry.deadline > 0 && (tells_renewals || !has_told) {
            has_told = true;
            say(&format!("leads {token} {} {}", entry.at, entry.deadline));
        }
    });
}

fn order(name: &str) -> String {
    std::env::var(name).expect("children have orders")
}

fn ordered_config() -> ElectionConfig {
    let config = config(order(TTL).parse().expect("seconds"));
    let ttl = config.ttl;
    if std::env::var_os(PATIENT).is_some() {
        return config
            .with_renew_every(ttl * 33 / 100)
            .with_renew_timeout(ttl * 32 / 100)
            .with_reserve(ttl / 100);
    }
    // Calls of ten seconds would make for exits of twenty.
    let limit = config.renew_timeout.min(Duration::from_secs(1));
    config.with_renew_timeout(limit)
}

/// The documented loop: campaigns, leads until it is lost, campaigns again.
async fn campaigns(election: &EtcdElection, held: &Mutex<Option<Arc<Leadership>>>) {
    let hold = |leadership| {
        *held.lock().unwrap_or_else(PoisonError::into_inner) = leadership;
    };
    let value = order(VALUE);
    loop {
        let won = election.campaign(value.as_bytes()).await;
        let leadership = Arc::new(won.expect("no final error"));
        hold(Some(Arc::clone(&leadership)));
        follow(&leadership);
        leadership.lost().await;
        say(&format!("over {}", leadership.token()));
        hold(None);
    }
}

#[tokio::test]
#[ignore = "the process of a candidate, started by other tests"]
async fn candidate() {
    if std::env::var_os(ENDPOINTS).is_none() {
        return;
    }
    let endpoints = order(ENDPOINTS);
    let endpoints = endpoints.split(',');
    let election = EtcdElection::connect(endpoints, &order(NAME), ordered_config()).await;
    let election = election.expect("the orders are right");
    let mut interrupts = on_signal(SignalKind::interrupt()).expect("signals are heard");
    let mut terminate = on_signal(SignalKind::terminate()).expect("signals are heard");
    let (tell, is_gone) = oneshot::channel::<()>();
    // No task of the runtime, which would wait for it in the end.
    std::thread::spawn(move || {
        let _ = io::stdin().read(&mut [0]);
        drop(tell);
    });
    say("started");
    let held = Mutex::new(None);
    // Everything is canceled first, as people do.
    tokio::select! {
        () = campaigns(&election, &held) => {}
        _ = interrupts.recv() => {}
        _ = terminate.recv() => {}
        _ = is_gone => return,
    }
    let held = held.lock().unwrap_or_else(PoisonError::into_inner).take();
    match held {
        Some(leadership) => {
            leadership.resign().await;
            say(&format!("resigned {}", leadership.token()));
        }
        None => say("left"),
    }
}
