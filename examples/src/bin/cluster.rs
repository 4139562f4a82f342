//! A whole barrier loop of processes on one machine: etcd, candidates, workers.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use examples::cli::ClusterArgs;
use examples::cluster::{EtcdServer, Fleet, Plan, Verdict, View};
use examples::etcd::{Errand, EtcdLedger, Keys, Link, told};
use examples::input::default_input;
use examples::process::code::{DONE, INTERRUPTED, NOT_EQUAL};
use examples::process::{self, cancel_on_signal, exit};
use examples::report::print;
use examples::requests::RequestKind;
use examples::store::{Backup, Output};
use examples::wire::Manifest;
use tokio_util::sync::CancellationToken;

const PROGRAM: &str = "cluster";

/// How often it looks at its processes and at the loop.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// How long the loop may take to begin with an input.
const ADD_WITHIN: Duration = Duration::from_secs(60);

type Error = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> ExitCode {
    let args = match process::arguments::<ClusterArgs>(PROGRAM) {
        Ok(args) => args,
        Err(code) => return exit(code),
    };
    let stop = CancellationToken::new();
    let never = async {
        cancel_on_signal(stop.clone()).await;
        std::future::pending().await
    };
    // On the main thread: with it the children end.
    let ended = tokio::select! {
        ended = run(&args, &stop) => ended,
        ended = never => ended,
    };
    exit(ended.unwrap_or_else(|error| process::complain(PROGRAM, &error.to_string())))
}

async fn run(args: &ClusterArgs, stop: &CancellationToken) -> Result<u8, Error> {
    let temporary;
    let mut kept = "";
    let folder = match &args.out {
        Some(out) => out.clone(),
        None => {
            temporary = tempfile::tempdir()?;
            kept = " (removed at the end: --out keeps them)";
            temporary.path().to_owned()
        }
    };
    let output = Output::open_shared(&folder)?;
    let logs = output.folder().join("logs");
    std::fs::create_dir_all(&logs)?;
    let mut own = None;
    let endpoint = match &args.etcd {
        Some(endpoint) => endpoint.clone(),
        None => {
            let etcd = EtcdServer::start(&output.folder().join("etcd"), &logs).await?;
            own.insert(etcd).endpoint().to_owned()
        }
    };
    let mut fleet = Fleet::start(plan(args, &endpoint, &output)?, args.metas, args.computes)?;
    let cluster = Cluster {
        args,
        link: Link::new(std::slice::from_ref(&endpoint)),
        keys: Keys::new(&args.name),
        endpoint,
        output,
    };
    let mut view = View::new(args.quiet);
    view.news(&format!(
        "etcd {}, results and logs in {}{kept}",
        cluster.endpoint,
        cluster.output.folder().display()
    ));
    let outcome = tokio::select! {
        outcome = cluster.count(own.as_mut(), &mut fleet, &mut view) => outcome.map(|()| true),
        () = stop.cancelled() => Ok(false),
    };
    view.finish();
    fleet.stop().await;
    let has_ended = outcome?;
    let verdict = cluster.verdict().await?;
    let code = match has_ended {
        true if verdict.holds() => DONE,
        true => NOT_EQUAL,
        false if !verdict.history.violations.is_empty() => NOT_EQUAL,
        false => INTERRUPTED,
    };
    print(verdict.to_string(), &CancellationToken::new()).await;
    if let Some(mut etcd) = own {
        etcd.process().stop(Duration::from_secs(2)).await;
    }
    Ok(code)
}

fn plan(args: &ClusterArgs, endpoint: &str, output: &Output) -> Result<Plan, Error> {
    let own = std::env::current_exe()?;
    let mut plan = Plan::new(
        own.parent().unwrap_or(Path::new(".")),
        endpoint,
        output.folder(),
    );
    plan.name.clone_from(&args.name);
    plan.ttl = args.ttl;
    let interval = format!("{}ms", args.interval.as_millis());
    let patience = format!("{}ms", args.patience.as_millis());
    let epoch_bytes = args.epoch_bytes.to_string();
    let flags = [
        ("--interval", interval),
        ("--patience", patience),
        ("--epoch-bytes", epoch_bytes),
    ];
    for (flag, value) in flags {
        plan.meta_args.extend([flag.to_owned(), value]);
    }
    if args.verbose {
        plan.meta_args.push("--verbose".to_owned());
        plan.compute_args.push("--verbose".to_owned());
    }
    Ok(plan)
}

/// A running cluster, as its user sees it.
struct Cluster<'a> {
    args: &'a ClusterArgs,
    link: Link,
    keys: Keys,
    endpoint: String,
    output: Output,
}

impl Cluster<'_> {
    /// Adds the input, and returns when the chain has ended.
    async fn count(
        &self,
        mut etcd: Option<&mut EtcdServer>,
        fleet: &mut Fleet,
        view: &mut View,
    ) -> Result<(), Error> {
        let adding = self.add_all();
        tokio::pin!(adding);
        let mut is_added = false;
        loop {
            tokio::select! {
                added = &mut adding, if !is_added => {
                    added?;
                    is_added = true;
                }
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
            if let Some(etcd) = &mut etcd
                && let Some(how) = etcd.process().ended()
            {
                view.news(&format!("etcd ended ({how}), it starts again"));
                etcd.restart().await?;
            }
            if self.head().await.last {
                return Ok(());
            }
            if let Some(why) = fleet.failed() {
                return Err(why.into());
            }
            for news in fleet.tend()? {
                view.news(&news);
            }
            view.show(&self.status().await, &fleet.states());
        }
    }

    async fn add_all(&self) -> Result<(), Error> {
        let inputs = match &self.args.inputs[..] {
            // It goes on with what an earlier run has added.
            _ if self.has_input().await? => Vec::new(),
            [] => vec![
                default_input().join("examples"),
                default_input().join("bidi-session"),
            ],
            inputs => inputs.to_vec(),
        };
        for path in inputs {
            let path = std::path::absolute(&path).unwrap_or(path);
            self.ask(RequestKind::Add(path)).await?;
        }
        if !self.args.stay {
            self.ask(RequestKind::Finish).await?;
        }
        Ok(())
    }

    /// Says whether an earlier run on this folder has added its input: to the chain in etcd, or
    /// to the one in the folder, which `meta restore` puts back where etcd was rebuilt.
    async fn has_input(&self) -> Result<bool, Error> {
        let (head, _) = EtcdLedger::head(&self.link, &self.keys).await?;
        if !head.parts.is_empty() {
            return Ok(true);
        }
        let output = self.output.clone();
        let saved = tokio::task::spawn_blocking(move || Backup::of(&output).read()).await??;
        Ok(saved.iter().any(|saved| !saved.head.parts.is_empty()))
    }

    /// The default one where etcd is out of reach, say while it starts again.
    async fn head(&self) -> Manifest {
        let head = EtcdLedger::head(&self.link, &self.keys).await;
        head.map(|(head, _)| head).unwrap_or_default()
    }

    async fn ask(&self, kind: RequestKind) -> Result<String, Error> {
        let errand = Errand::new(self.link.clone(), self.keys.clone(), kind);
        Ok(errand.run(ADD_WITHIN).await?)
    }

    async fn status(&self) -> String {
        let told = told(&self.link, &self.keys).await;
        told.unwrap_or_else(|error| error.to_string())
    }

    async fn verdict(&self) -> Result<Verdict, Error> {
        let (top, is_compared) = (self.args.top, !self.args.no_compare);
        Verdict::reach(&self.endpoint, &self.keys, &self.output, top, is_compared).await
    }
}
