//! Everything that a run needs: networks, etcd, the way to it, candidates and workers.

use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::fault::Limits;
use super::network::{ETCD_HOST, Networks};
use super::proxy::Proxy;
use crate::cluster::{EtcdServer, Fleet, Plan};
use crate::etcd::{Keys, Link, first_candidate};
use crate::store::Output;

/// How often processes that have ended are looked for.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Where etcd is reached through the proxy.
const PROXY_PORT: u16 = 2379;

/// The worker whose name comes late.
pub(super) const LATE: &str = "late";

/// The last number of the addresses of the first candidate, of the first worker, and of the
/// late one.
const FIRST: (u8, u8, u8) = (10, 100, 99);

/// What is started.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Setup {
    /// The folder in which the programs `meta` and `compute` lie.
    pub programs: PathBuf,
    /// Where everything is kept.
    pub folder: PathBuf,
    /// Number of candidates.
    pub metas: u8,
    /// Number of workers.
    pub computes: u8,
    /// The times that the loop is given.
    pub limits: Limits,
    /// More arguments of each process.
    pub args: Vec<String>,
    /// Leaders have their guard: what they do late is a violation.
    pub is_guarded: bool,
}

/// A running loop, and what can be done to it.
///
/// A child ends with the thread that started it: keep it on one that lives as long.
#[derive(Debug)]
#[non_exhaustive]
pub struct Arena {
    // In this order: processes end before what they use.
    pub(super) fleet: Fleet,
    pub(super) proxy: Proxy,
    pub(super) etcd: EtcdServer,
    pub(super) networks: Networks,
    /// The way to etcd that no fault is on.
    pub link: Link,
    /// The loop's keys.
    pub keys: Keys,
    /// The loop's results.
    pub output: Output,
    pub(super) logs: PathBuf,
    pub(super) workers: Vec<Host>,
}

/// A worker's host.
#[derive(Clone, Debug)]
pub(super) struct Host {
    pub(super) name: String,
    pub(super) number: u8,
}

/// Who leads, as etcd says.
#[derive(Clone, Debug)]
pub(super) struct Leader {
    pub(super) name: String,
    pub(super) key: Vec<u8>,
    pub(super) lease: i64,
    pub(super) token: u64,
}

// ===== impl Setup =====

impl Setup {
    /// Two candidates and three workers whose files go to `folder`.
    #[must_use]
    pub fn new(programs: &Path, folder: &Path, limits: Limits) -> Self {
        Self {
            programs: programs.to_owned(),
            folder: folder.to_owned(),
            metas: 2,
            computes: 3,
            limits,
            args: Vec::new(),
            is_guarded: true,
        }
    }

    fn plan(&self, output: &Output, logs: &Path) -> Plan {
        let etcd = format!("http://{ETCD_HOST}:{PROXY_PORT}");
        let mut plan = Plan::new(&self.programs, &etcd, output.folder());
        plan.logs = logs.to_owned();
        plan.ttl = self.limits.ttl;
        let runner = ["nsenter", "--net=/run/netns/{}", "--"];
        plan.runner = runner.map(str::to_owned).to_vec();
        let millis = |time: Duration| format!("{}ms", time.as_millis());
        let flags = [
            ("--interval", "200ms".to_owned()),
            ("--epoch-bytes", "4k".to_owned()),
            ("--patience", millis(self.limits.patience)),
            ("--round-deadline", millis(self.limits.round)),
        ];
        for (flag, value) in flags {
            plan.meta_args.extend([flag.to_owned(), value]);
        }
        plan.meta_args.extend_from_slice(&self.args);
        plan.compute_args.extend_from_slice(&self.args);
        plan
    }
}

// ===== impl Arena =====

impl Arena {
    /// Starts everything; call it in the namespaces of [`enter`](super::network::enter).
    ///
    /// # Errors
    ///
    /// With what is missing.
    ///
    /// # Cancel safety
    ///
    /// Dropped, what was started ends.
    pub async fn start(setup: &Setup) -> io::Result<Self> {
        let networks = Networks::new(setup.folder.join("hosts"))?;
        let output = Output::open_shared(&setup.folder.join("out")).map_err(io::Error::other)?;
        #[cfg(feature = "controls")]
        std::fs::write(crate::controls::acts(output.folder()), "")?;
        let logs = setup.folder.join("logs");
        std::fs::create_dir_all(&logs)?;
        let etcd = EtcdServer::start(&setup.folder.join("etcd"), &logs).await?;
        let keys = Keys::new("barrier");
        let address = etcd.endpoint().trim_start_matches("http://").to_owned();
        let here = format!("{ETCD_HOST}:{PROXY_PORT}");
        let proxy = Proxy::start(&here, address, &keys).await?;
        for n in 0..setup.metas {
            networks.add_host(&format!("meta-{}", n + 1), FIRST.0 + n)?;
        }
        networks.add_host(LATE, FIRST.2)?;
        let fleet = Fleet::start(setup.plan(&output, &logs), setup.metas.into(), 0)?;
        let mut arena = Self {
            fleet,
            proxy,
            link: Link::new(&[etcd.endpoint().to_owned()]),
            etcd,
            networks,
            keys,
            output,
            logs,
            workers: Vec::new(),
        };
        for n in 0..setup.computes {
            let host = Host {
                name: format!("w{}", n + 1),
                number: FIRST.1 + n,
            };
            arena.networks.add_host(&host.name, host.number)?;
            arena.start_worker(&host)?;
            arena.workers.push(host);
        }
        Ok(arena)
    }

    /// Starts a worker at the present address of its host.
    pub(super) fn start_worker(&mut self, host: &Host) -> io::Result<()> {
        let listen = format!("10.78.0.{}:0", host.number);
        self.fleet
            .add("compute", &host.name, &["--listen", &listen])
    }

    /// Starts the worker whose name does not resolve yet.
    pub(super) fn start_late_worker(&mut self, name: &str) -> io::Result<()> {
        let listen = format!("10.78.0.{}:0", FIRST.2);
        let args = ["--listen", &listen, "--advertise", name];
        self.fleet.add("compute", LATE, &args)
    }

    /// Makes the late worker's name resolve.
    pub(super) fn add_late_name(&self, name: &str) -> io::Result<()> {
        self.networks.add_name(name, FIRST.2)
    }

    /// Starts again who has ended.
    pub(super) fn tend(&mut self) -> io::Result<()> {
        for news in self.fleet.tend()? {
            tracing::info!(news, "process");
        }
        Ok(())
    }

    /// Starts again who has ended, for so long.
    pub(super) async fn tend_for(&mut self, time: Duration) -> io::Result<()> {
        let deadline = Instant::now() + time;
        while Instant::now() < deadline {
            self.tend()?;
            sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    /// Starts again who has ended, until there is an answer, at most so long.
    pub(super) async fn tend_until<T, F, Fut>(
        &mut self,
        most: Duration,
        mut ask: F,
    ) -> io::Result<Option<T>>
    where
        F: FnMut(Link, Keys) -> Fut,
        Fut: Future<Output = Option<T>>,
    {
        let deadline = Instant::now() + most;
        loop {
            if let Some(answer) = ask(self.link.clone(), self.keys.clone()).await {
                return Ok(Some(answer));
            }
            if Instant::now() >= deadline {
                return Ok(None);
            }
            self.tend()?;
            sleep(LOOK_EVERY).await;
        }
    }

    /// Says whether a process of this name runs.
    pub(super) fn runs(&mut self, name: &str) -> bool {
        let process = self.fleet.member(name);
        process.is_some_and(|process| process.ended().is_none())
    }

    /// Waits for somebody who leads.
    pub(super) async fn leader(&mut self, most: Duration) -> io::Result<Option<Leader>> {
        self.tend_until(most, leader).await
    }

    /// Returns what a process that cannot go on said last.
    pub fn failed(&mut self) -> Option<String> {
        self.fleet.failed()
    }

    /// Ends all processes but etcd.
    ///
    /// # Cancel safety
    ///
    /// Dropped with the arena, the processes are killed.
    pub async fn stop(&mut self) {
        self.fleet.stop().await;
    }

    /// Returns where etcd serves.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        self.etcd.endpoint()
    }
}

/// Returns who leads, as far as etcd can be reached.
pub(super) async fn leader(link: Link, keys: Keys) -> Option<Leader> {
    let first = first_candidate(&link, &keys).await.ok()??;
    Some(Leader {
        name: first.value_str().ok()?.to_owned(),
        key: first.key().to_vec(),
        lease: first.lease(),
        token: u64::try_from(first.create_revision()).ok()?,
    })
}
