//! Whether the result is right: from etcd's history and the files, never from the
//! word of a process.

use std::fmt;

use etcd_client::Client;

use crate::etcd::{EtcdLedger, History, Keys, Link};
use crate::input::Parts;
use crate::store::Output;
use crate::totals::{Totals, total};
use crate::wire::Manifest;

/// What was found.
#[derive(Debug)]
#[non_exhaustive]
pub struct Verdict {
    /// Every commit, and what should never have happened.
    pub history: History,
    /// The last committed manifest.
    pub head: Manifest,
    /// The totals; `None` before the chain has ended.
    pub totals: Option<Totals>,
}

type Error = Box<dyn std::error::Error + Send + Sync>;

// ===== impl Verdict =====

impl Verdict {
    /// Reads the history, merges the committed deltas, and compares them with a plain
    /// count of the same files, where the chain has ended.
    ///
    /// # Errors
    ///
    /// Those of etcd and of the files.
    ///
    /// # Cancel safety
    ///
    /// A merge that has begun goes on in the background.
    pub async fn reach(
        endpoint: &str,
        keys: &Keys,
        output: &Output,
        top: usize,
        is_compared: bool,
    ) -> Result<Self, Error> {
        let link = Link::new(&[endpoint.to_owned()]);
        let (head, _) = EtcdLedger::head(&link, keys).await?;
        let mut client = Client::connect([endpoint], None).await?;
        let mut history = Box::pin(History::read(&mut client, keys)).await?;
        let newest = history.commits.last().map(|commit| commit.manifest.id());
        if newest.unwrap_or_default() != head.id() {
            let text = format!("the head is {}, the history ends elsewhere", head.id());
            history.violations.push(text);
        }
        if !head.last {
            return Ok(Self {
                history,
                head,
                totals: None,
            });
        }
        let deltas = EtcdLedger::deltas(&link, keys, &head).await?;
        let plan = Parts::stored(output.clone()).plan(&head.parts)?;
        let output = output.clone();
        let totals = tokio::task::spawn_blocking(move || {
            total(&output, &deltas, &plan, top, is_compared, || true)
        });
        Ok(Self {
            history,
            head,
            totals: Some(totals.await??),
        })
    }

    /// Says whether everything is as it must be.
    #[must_use]
    pub fn holds(&self) -> bool {
        let is_equal = |totals: &Totals| totals.difference.is_none();
        self.history.violations.is_empty() && self.totals.as_ref().is_some_and(is_equal)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "chain       {}", self.history)?;
        for violation in &self.history.violations {
            writeln!(f, "VIOLATION   {violation}")?;
        }
        let Some(totals) = &self.totals else {
            return writeln!(f, "result      epoch {} is durable", self.head.id());
        };
        for (word, count) in &totals.top {
            writeln!(
                f,
                "{count:>11} {}",
                String::from_utf8_lossy(word).escape_debug()
            )?;
        }
        writeln!(
            f,
            "words       {}, {} different",
            totals.words, totals.distinct
        )?;
        match &totals.difference {
            Some(difference) => writeln!(
                f,
                "result      NOT equal: {:?} is {} in the loop's totals, {} in a plain count",
                String::from_utf8_lossy(&difference.word),
                difference.in_loop,
                difference.in_plain
            ),
            None if totals.is_compared => writeln!(f, "result      equal to a plain count"),
            None => writeln!(f, "result      not compared"),
        }
    }
}
