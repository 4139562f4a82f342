//! A candidate in a process of its own: this test program, started again.

use std::{
    env,
    io::Write,
    process::Stdio,
    sync::{Arc, Mutex},
    time::Duration,
};

use leader_election::{Election, ElectionConfig, Leadership, etcd::EtcdElection};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    signal::unix::{SignalKind, signal},
    sync::mpsc,
    task::JoinHandle,
    time::timeout,
};

use crate::{boot_time, server};

const ENDPOINTS: &str = "CANDIDATE_ENDPOINTS";
const NAME: &str = "CANDIDATE_NAME";
const TTL: &str = "CANDIDATE_TTL_SECS";
/// Marks what is said to the test, beside what the test program itself prints.
const MARK: &str = "@candidate ";
/// What waits for the test to read it.
const QUEUE: usize = 4096;
const HANG: Duration = Duration::from_secs(60);

/// What a candidate says; times are since boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    Started,
    /// Leads, or was renewed, until this deadline; said at this time.
    Leads {
        token: u64,
        at: Duration,
        deadline: Duration,
    },
    Lost {
        token: u64,
    },
    /// Was asked to end, and has resigned.
    Resigned {
        token: u64,
        at: Duration,
    },
    /// Was asked to end when it did not lead.
    Left,
}

/// A running candidate; killed on drop.
pub(crate) struct Candidate {
    child: Child,
    _reader: JoinHandle<()>,
}

/// The words of several candidates, each with the number that it was given.
pub(crate) struct Words {
    sender: mpsc::Sender<(usize, Said)>,
    receiver: mpsc::Receiver<(usize, Said)>,
}

// ===== impl Words =====

impl Words {
    pub(crate) fn new() -> Self {
        let (sender, receiver) = mpsc::channel(QUEUE);
        Self { sender, receiver }
    }

    pub(crate) fn start(&self, number: usize, endpoints: &[String], ttl: Duration) -> Candidate {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["cases::child::candidate", "--exact", "--ignored"])
            .args(["--nocapture", "--test-threads", "1"])
            .env(ENDPOINTS, endpoints.join(","))
            .env(NAME, format!("n{number}"))
            .env(TTL, ttl.as_secs().to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let sender = self.sender.clone();
        let reader = tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                if let Some(said) = line.split_once(MARK).and_then(|(_, words)| parse(words))
                    && sender.send((number, said)).await.is_err()
                {
                    return;
                }
            }
        });
        Candidate {
            child,
            _reader: reader,
        }
    }

    pub(crate) async fn next(&mut self) -> (usize, Said) {
        let next = timeout(HANG, self.receiver.recv()).await;
        next.expect("a candidate says something").unwrap()
    }

    /// Waits for a word that is wanted, and returns what was said until then.
    pub(crate) async fn until(
        &mut self,
        mut is_wanted: impl FnMut(usize, Said) -> bool,
    ) -> Vec<(usize, Said)> {
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
        let found = timeout(HANG, wanted).await;
        assert!(found.is_ok(), "only {all:?} was said");
        all
    }
}

// ===== impl Candidate =====

impl Candidate {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id().expect("not waited for yet")
    }

    pub(crate) fn signal(&self, name: &str) {
        server::signal(self.pid(), name);
    }

    /// Waits for its end; the number of the signal that ended it, or else its code.
    pub(crate) async fn ended(&mut self) -> (Option<i32>, Option<i32>) {
        use std::os::unix::process::ExitStatusExt as _;
        let status = timeout(HANG, self.child.wait()).await;
        let status = status.expect("it ends").unwrap();
        (status.signal(), status.code())
    }
}

fn parse(words: &str) -> Option<Said> {
    let mut words = words.split(' ');
    let what = words.next()?;
    let mut number = || words.next()?.parse::<u64>().ok();
    Some(match what {
        "started" => Said::Started,
        "leads" => Said::Leads {
            token: number()?,
            at: Duration::from_nanos(number()?),
            deadline: Duration::from_nanos(number()?),
        },
        "lost" => Said::Lost { token: number()? },
        "resigned" => Said::Resigned {
            token: number()?,
            at: Duration::from_nanos(number()?),
        },
        "left" => Said::Left,
        _ => return None,
    })
}

/// One write for each line, so that a kill leaves no half of one.
fn say(words: &str) {
    let line = format!("{MARK}{words}\n");
    std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
}

fn leads(token: u64, deadline: Duration) {
    if !deadline.is_zero() {
        let at = boot_time().as_nanos();
        say(&format!("leads {token} {at} {}", deadline.as_nanos()));
    }
}

/// The documented loop: campaigns, leads until it is lost, campaigns again.
async fn candidate_loop(
    election: &EtcdElection,
    name: &str,
    held: &Mutex<Option<Arc<Leadership>>>,
) {
    loop {
        let leadership = Arc::new(election.campaign(name.as_bytes()).await.unwrap());
        *held.lock().unwrap() = Some(Arc::clone(&leadership));
        let token = leadership.token();
        leadership.follow(move |deadline| leads(token, deadline));
        leadership.lost().await;
        say(&format!("lost {token}"));
        held.lock().unwrap().take();
    }
}

#[tokio::test]
#[ignore = "started by other tests as a process of its own"]
async fn candidate() {
    let Ok(endpoints) = env::var(ENDPOINTS) else {
        return;
    };
    let name = env::var(NAME).unwrap();
    let ttl = Duration::from_secs(env::var(TTL).unwrap().parse().unwrap());
    // Calls of ten seconds would make for exits of twenty.
    let config = ElectionConfig::for_ttl(ttl);
    let limit = config.renew_timeout.min(Duration::from_secs(1));
    let config = config.with_renew_timeout(limit);
    let endpoints = endpoints.split(',').map(ToOwned::to_owned);
    let election = EtcdElection::connect(endpoints, "e", config).await.unwrap();
    let mut terminate = signal(SignalKind::terminate()).unwrap();
    say("started");
    let held = Mutex::new(None);
    // Everything is canceled first, as people do.
    tokio::select! {
        () = candidate_loop(&election, &name, &held) => {}
        _ = terminate.recv() => {}
    }
    let held = held.lock().unwrap().take();
    match held {
        Some(leadership) => {
            let at = boot_time().as_nanos();
            leadership.resign().await;
            say(&format!("resigned {} {at}", leadership.token()));
        }
        None => say("left"),
    }
}
