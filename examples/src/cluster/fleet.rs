//! The processes of one loop: started together, kept running, ended together.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use tokio::time::Instant;

use super::process::{Process, Program};
use crate::process::code;

/// Pause before a process that has ended is started again.
const AGAIN: Duration = Duration::from_secs(1);

/// How long a process may take to end by itself.
const GRACE: Duration = Duration::from_secs(2);

/// What is started, and with which arguments.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Plan {
    /// The folder in which the programs `meta` and `compute` lie.
    pub programs: PathBuf,
    /// Where etcd serves.
    pub etcd: String,
    /// The loop's name.
    pub name: String,
    /// The folder of the results.
    pub out: PathBuf,
    /// Where the processes' logs go.
    pub logs: PathBuf,
    /// Length of each lease.
    pub ttl: Duration,
    /// A program and its arguments that starts each of them, `{}` standing for its name,
    /// say in a network namespace; empty for none.
    pub runner: Vec<String>,
    /// More arguments of each `meta`.
    pub meta_args: Vec<String>,
    /// More arguments of each `compute`.
    pub compute_args: Vec<String>,
}

/// Candidates `meta-1` and up, and workers `w1` and up.
#[derive(Debug)]
pub struct Fleet {
    plan: Plan,
    members: Vec<Process>,
    /// Who has ended, and when it is started again.
    due: Vec<(String, Instant)>,
    /// How each ended last, as far as it was noticed.
    ends: BTreeMap<String, ExitStatus>,
}

// ===== impl Plan =====

impl Plan {
    /// Plans a loop named `barrier` whose results go to `out`, logs too.
    #[must_use]
    pub fn new(programs: &Path, etcd: &str, out: &Path) -> Self {
        Self {
            programs: programs.to_owned(),
            etcd: etcd.to_owned(),
            name: "barrier".to_owned(),
            out: out.to_owned(),
            logs: out.join("logs"),
            ttl: Duration::from_secs(3),
            runner: Vec::new(),
            meta_args: Vec::new(),
            compute_args: Vec::new(),
        }
    }

    fn program(&self, kind: &str, id: &str) -> Program {
        let mut args: Vec<String> = Vec::new();
        if kind == "meta" {
            args.push("run".to_owned());
        }
        let ttl = format!("{}s", self.ttl.as_secs());
        let out = self.out.display().to_string();
        let common = [
            ("--etcd", &self.etcd),
            ("--loop", &self.name),
            ("--out", &out),
            ("--ttl", &ttl),
        ];
        for (flag, value) in common {
            args.extend([flag.to_owned(), value.clone()]);
        }
        args.extend(["--id".to_owned(), id.to_owned()]);
        args.extend_from_slice(if kind == "meta" {
            &self.meta_args
        } else {
            &self.compute_args
        });
        let path = self.programs.join(kind);
        let mut runner = self.runner.iter().map(|word| word.replace("{}", id));
        let Some(first) = runner.next() else {
            return Program::new(id, &path, args, &self.logs);
        };
        let rest = runner.chain([path.display().to_string()]).chain(args);
        Program::new(id, Path::new(&first), rest, &self.logs)
    }
}

// ===== impl Fleet =====

impl Fleet {
    /// Starts so many candidates and workers.
    ///
    /// # Errors
    ///
    /// Those of starting a process; what was started is ended again.
    pub fn start(plan: Plan, metas: u16, computes: u16) -> io::Result<Self> {
        std::fs::create_dir_all(&plan.logs)?;
        let mut fleet = Self {
            plan,
            members: Vec::new(),
            due: Vec::new(),
            ends: BTreeMap::new(),
        };
        for n in 1..=metas {
            fleet.add("meta", &format!("meta-{n}"), &[])?;
        }
        for n in 1..=computes {
            fleet.add("compute", &format!("w{n}"), &[])?;
        }
        Ok(fleet)
    }

    /// Starts one more, a `meta` or a `compute`, with more arguments than the others.
    ///
    /// # Errors
    ///
    /// Those of starting a process.
    pub fn add(&mut self, kind: &str, id: &str, more: &[&str]) -> io::Result<()> {
        let mut plan = self.plan.clone();
        let args = if kind == "meta" {
            &mut plan.meta_args
        } else {
            &mut plan.compute_args
        };
        args.extend(more.iter().map(|arg| (*arg).to_owned()));
        self.members.push(plan.program(kind, id).start()?);
        Ok(())
    }

    /// Kills one and forgets it.
    pub fn remove(&mut self, name: &str) {
        self.members.retain(|process| process.name() != name);
        self.due.retain(|(due, _)| due != name);
    }

    /// Returns one by its name.
    pub fn member(&mut self, name: &str) -> Option<&mut Process> {
        self.members
            .iter_mut()
            .find(|process| process.name() == name)
    }

    /// Returns how one ended last, though it was started again since.
    #[must_use]
    pub fn end_of(&self, name: &str) -> Option<ExitStatus> {
        self.ends.get(name).copied()
    }

    /// Returns each with whether it runs.
    pub fn states(&mut self) -> Vec<(String, bool)> {
        let each = self.members.iter_mut();
        each.map(|process| (process.name().to_owned(), process.ended().is_none()))
            .collect()
    }

    /// Returns what a process said that has ended since something must be corrected first.
    pub fn failed(&mut self) -> Option<String> {
        // The second: the program could not be run.
        let wrong = [i32::from(code::WRONG_INPUT), 127];
        let mut each = self.members.iter_mut();
        let failed = each.find_map(|process| {
            let code = process.ended()?.code()?;
            wrong.contains(&code).then_some(process)
        });
        failed.map(|process| format!("{} gave up: {}", process.name(), process.last_words()))
    }

    /// Starts again who has ended, a second later; says who ended and how.
    ///
    /// # Errors
    ///
    /// Those of starting a process.
    pub fn tend(&mut self) -> io::Result<Vec<String>> {
        let now = Instant::now();
        let mut news = Vec::new();
        for process in &mut self.members {
            let Some(status) = process.ended() else {
                continue;
            };
            match self.due.iter().find(|(name, _)| name == process.name()) {
                None => {
                    let (name, words) = (process.name(), process.last_words());
                    news.push(format!("{name} ended ({status}): {words}"));
                    self.due.push((name.to_owned(), now + AGAIN));
                    self.ends.insert(name.to_owned(), status);
                }
                Some((_, due)) if *due <= now => {
                    process.restart()?;
                    let name = process.name().to_owned();
                    self.due.retain(|(other, _)| *other != name);
                    news.push(format!("{name} starts again"));
                }
                Some(_) => {}
            }
        }
        Ok(news)
    }

    /// Ends all, each within two seconds.
    ///
    /// # Cancel safety
    ///
    /// Dropping the fleet kills who still runs.
    pub async fn stop(&mut self) {
        for process in &mut self.members {
            process.signal(rustix::process::Signal::TERM);
        }
        let deadline = Instant::now() + GRACE;
        for process in &mut self.members {
            let left = deadline.saturating_duration_since(Instant::now());
            process.stop(left).await;
        }
    }
}
