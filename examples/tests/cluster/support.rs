//! A stage: an etcd, candidates and workers of the test's own, and what etcd says of them.

use std::collections::BTreeSet;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use etcd_client::{Client, GetOptions};
use examples::cluster::{EtcdServer, Fleet, Plan, Verdict};
use examples::etcd::{Errand, EtcdLedger, Failed, History, Keys, Link, first_candidate};
use examples::requests::RequestKind;
use examples::store::Output;
use examples::wire::Manifest;
use tokio::time::{sleep, timeout};

/// Longer than anything takes on a machine that is busy with other things.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// Length of every lease.
pub(crate) const TTL: Duration = Duration::from_secs(2);

pub(crate) struct Stage {
    // In this order: the processes end before their folder goes.
    pub(crate) fleet: Fleet,
    pub(crate) etcd: EtcdServer,
    pub(crate) link: Link,
    pub(crate) keys: Keys,
    pub(crate) output: Output,
    folder: tempfile::TempDir,
}

impl Stage {
    /// Starts so many candidates and workers.
    pub(crate) async fn start(metas: u16, computes: u16) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let output = Output::open_shared(&folder.path().join("out")).unwrap();
        let logs = folder.path().join("logs");
        std::fs::create_dir(&logs).unwrap();
        let etcd = EtcdServer::start(&folder.path().join("etcd"), &logs)
            .await
            .unwrap();
        let meta = Path::new(env!("CARGO_BIN_EXE_meta"));
        let mut plan = Plan::new(meta.parent().unwrap(), etcd.endpoint(), output.folder());
        plan.logs = logs;
        plan.ttl = TTL;
        let flags = [
            "--interval",
            "50ms",
            "--epoch-bytes",
            "4k",
            "--patience",
            "500ms",
        ];
        plan.meta_args = flags.map(str::to_owned).to_vec();
        Self {
            fleet: Fleet::start(plan, metas, computes).unwrap(),
            link: Link::new(&[etcd.endpoint().to_owned()]),
            keys: Keys::new("barrier"),
            etcd,
            output,
            folder,
        }
    }

    /// A file of this many bytes of text, unlike the others.
    pub(crate) fn file(&self, name: &str, bytes: usize) -> PathBuf {
        let path = self.folder.path().join(name);
        let words = (0..).map(|n: u32| format!("{name} w{} ", n % 997));
        let mut text = String::with_capacity(bytes + 32);
        for word in words {
            if text.len() >= bytes {
                break;
            }
            text += &word;
        }
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Where etcd keeps its data.
    pub(crate) fn etcd_folder(&self) -> PathBuf {
        self.folder.path().join("etcd")
    }

    pub(crate) async fn client(&self) -> Client {
        Client::connect([self.etcd.endpoint()], None).await.unwrap()
    }

    pub(crate) fn errand(&self, kind: RequestKind) -> Errand {
        Errand::new(self.link.clone(), self.keys.clone(), kind)
    }

    /// Adds a file, and returns what the loop says.
    pub(crate) async fn add(&self, path: &Path) -> Result<String, Failed> {
        self.errand(RequestKind::Add(path.to_owned()))
            .run(LONG)
            .await
    }

    pub(crate) async fn head(&self) -> Manifest {
        let head = EtcdLedger::head(&self.link, &self.keys).await;
        head.unwrap().0
    }

    /// Waits until `ask` has an answer; another process changes something, and there is
    /// nothing to be woken by.
    pub(crate) async fn until<T, F, Fut>(&self, what: &str, mut ask: F) -> T
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Option<T>>,
    {
        let asked = async {
            loop {
                if let Some(answer) = ask().await {
                    return answer;
                }
                sleep(Duration::from_millis(20)).await;
            }
        };
        match timeout(LONG, asked).await {
            Ok(answer) => answer,
            Err(_) => panic!("never: {what}\n{}\n{}", self.status().await, self.logs()),
        }
    }

    /// Waits until what was prepared in vain is removed.
    pub(crate) async fn one_part_stays(&self) {
        let parts = self.output.parts();
        self.until("the end of the prepared part", || async {
            (std::fs::read_dir(&parts).unwrap().count() == 1).then_some(())
        })
        .await;
    }

    /// Waits for the next commits, so many, and returns the head then.
    pub(crate) async fn commits(&self, more: usize) -> Manifest {
        let mut last = self.head().await;
        for _ in 0..more {
            let before = last.id();
            last = self
                .until("a commit", || async {
                    let head = self.head().await;
                    (head.id() != before).then_some(head)
                })
                .await;
        }
        last
    }

    /// Waits for a leader of a token above this one; returns its name, key and token.
    pub(crate) async fn leader(&self, above: u64) -> (String, Vec<u8>, u64) {
        self.until("a leader", || async {
            let first = first_candidate(&self.link, &self.keys).await.ok()??;
            let token = u64::try_from(first.create_revision()).unwrap();
            let name = first.value_str().unwrap().to_owned();
            (token > above).then(|| (name, first.key().to_vec(), token))
        })
        .await
    }

    /// The leader that has told its status last, and the status.
    pub(crate) async fn status(&self) -> String {
        let mut client = self.client().await;
        let found = client.get(self.keys.status(), None).await.unwrap();
        let told = found.kvs().first().map(|kv| kv.value_str().unwrap());
        told.unwrap_or_default().to_owned()
    }

    /// Waits for a status that says all of this.
    pub(crate) async fn told(&self, parts: &[&str]) -> String {
        let what = format!("a status with {parts:?}");
        self.until(&what, || async {
            let status = self.status().await;
            parts
                .iter()
                .all(|part| status.contains(part))
                .then_some(status)
        })
        .await
    }

    /// Waits until the leader says this of a worker; returns the line.
    pub(crate) async fn said_of(&self, worker: &str, part: &str) -> String {
        let start = format!("worker {worker} ");
        let what = format!("{part:?} of {worker}");
        self.until(&what, || async {
            let status = self.status().await;
            let mut lines = status.lines();
            let line = lines.find(|line| line.starts_with(&start))?;
            line.contains(part).then(|| line.to_owned())
        })
        .await
    }

    /// Waits until a worker holds shards.
    pub(crate) async fn holds_shards(&self, worker: &str) {
        let start = format!("worker {worker} ");
        let what = format!("shards of {worker}");
        self.until(&what, || async {
            let status = self.status().await;
            let mut lines = status.lines();
            let line = lines.find(|line| line.starts_with(&start))?;
            (line.contains("up for") && !line.contains(" 0 shards")).then_some(())
        })
        .await;
    }

    /// How many keys lie below this prefix.
    pub(crate) async fn count(&self, prefix: String) -> i64 {
        let options = GetOptions::new().with_prefix().with_count_only();
        let mut client = self.client().await;
        client.get(prefix, Some(options)).await.unwrap().count()
    }

    /// The random name of this life of etcd.
    pub(crate) async fn life(&self) -> String {
        let read = self.client().await.get(self.keys.life(), None).await;
        let read = read.unwrap();
        let kv = read.kvs().first().expect("a life");
        kv.value_str().unwrap().to_owned()
    }

    /// The names of all committed deltas.
    pub(crate) async fn deltas(&self) -> BTreeSet<String> {
        let head = self.head().await;
        let deltas = EtcdLedger::deltas(&self.link, &self.keys, &head)
            .await
            .unwrap();
        deltas.into_iter().map(|delta| delta.name).collect()
    }

    /// Runs `meta restore`; returns its exit code and what it says.
    pub(crate) fn restore(&self) -> (Option<i32>, String) {
        self.restore_from(self.output.folder())
    }

    /// Runs `meta restore` with this output folder.
    pub(crate) fn restore_from(&self, out: &Path) -> (Option<i32>, String) {
        let output = Command::new(env!("CARGO_BIN_EXE_meta"))
            .args(["restore", "--etcd", self.etcd.endpoint(), "--out"])
            .arg(out)
            .output()
            .unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    }

    /// Waits until a leader says this, and that one step is missing; who has ended starts
    /// again meanwhile.
    pub(crate) async fn says_what_to_do(&mut self, why: &str) -> String {
        for _ in 0..600 {
            self.fleet.tend().unwrap();
            let status = self.status().await;
            if status.contains(why) && status.contains("run `meta restore` once") {
                return status;
            }
            sleep(Duration::from_millis(100)).await;
        }
        panic!("never told: {}\n{}", self.status().await, self.logs());
    }

    pub(crate) async fn history(&self) -> History {
        History::read(&mut self.client().await, &self.keys)
            .await
            .unwrap()
    }

    /// Lets the chain end; fails unless it is unbroken, each epoch was committed by who
    /// led then, and the totals are those of a plain count.
    pub(crate) async fn expect_equal(&self) -> Verdict {
        self.errand(RequestKind::Finish).run(LONG).await.unwrap();
        self.until("the end of the chain", || async {
            self.head().await.last.then_some(())
        })
        .await;
        let verdict = Verdict::reach(self.etcd.endpoint(), &self.keys, &self.output, 3, true).await;
        let verdict = verdict.unwrap();
        assert!(verdict.holds(), "{verdict}\n{}", self.logs());
        println!("{verdict}");
        verdict
    }

    /// What a process has logged.
    pub(crate) fn log(&self, process: &str) -> String {
        let logs = self.folder.path().join("logs");
        std::fs::read_to_string(logs.join(format!("{process}.log"))).unwrap()
    }

    /// The end of each log, for the report of a failure.
    pub(crate) fn logs(&self) -> String {
        let mut text = String::new();
        for entry in std::fs::read_dir(self.folder.path().join("logs")).unwrap() {
            let path = entry.unwrap().path();
            let log = std::fs::read_to_string(&path).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let from = lines.len().saturating_sub(25);
            text += &format!("== {}\n{}\n", path.display(), lines[from..].join("\n"));
        }
        text
    }
}

/// Reads from the kernel how many threads of a process are stopped.
pub(crate) fn stopped_threads(pid: u32) -> usize {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let states = tasks.filter_map(|task| {
        let stat = std::fs::read_to_string(task.ok()?.path().join("stat")).ok()?;
        // The name, which may hold anything, ends with the last parenthesis.
        Some(stat.rsplit(") ").next()?.starts_with('T'))
    });
    states.filter(|is_stopped| *is_stopped).count()
}
