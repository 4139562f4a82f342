//! The way back after etcd was rebuilt: the chain is put there again from the output folder.
//!
//! Tokens of a rebuilt etcd begin anew, under another scope, and so do terms: files and
//! epochs of the same names come again. So the restored chain begins with epochs of term
//! zero, which no leader has, and names the old files anew. It also names the scopes that
//! it replaces: by that a worker knows that its fence may take the new one.

use std::collections::BTreeSet;
use std::fs;
use std::io;

use etcd_client::{Compare, CompareOp, DeleteOptions, Txn, TxnOp};
use leader_election::etcd::EtcdElection;
use prost::Message;

use super::keys::Keys;
use super::ledger::{EtcdLedger, blocking, link_of, unknown};
use super::link::Link;
use crate::store::clean::writer_of;
use crate::store::output::sync_folder;
use crate::store::{Backup, CommitError, Output, Saved, StoreError};
use crate::wire::{Delta, Epoch, Manifest};

/// Deltas that one link of the chain names: a value in etcd has a limit.
const DELTAS: usize = 4000;

/// Says what a chain that ends with `head`, under tokens of `scope`, lacks of what was
/// saved; and which step brings it back.
pub(super) fn lacks(saved: &[Saved], scope: &str, head: &Manifest) -> Option<String> {
    let mut others = saved.iter();
    let other = others.find(|saved| {
        let is_known = saved.scope == scope || head.replaces.contains(&saved.scope);
        !is_known || (saved.scope == scope && saved.is_ahead_of(head))
    })?;
    let (known, was) = (head.id(), other.head.id());
    Some(format!(
        "etcd was rebuilt, or is another: it hands out tokens of {scope} and holds epoch {known}, \
         the output folder holds epoch {was} under {}: run `meta restore` once, or correct --etcd",
        other.scope
    ))
}

/// Puts the newest saved chain into an etcd that lacks it; says what it did.
///
/// # Errors
///
/// [`CommitError`]; called again, it goes on.
///
/// # Cancel safety
///
/// Dropped, it has to be called again.
pub async fn restore(
    link: &Link,
    keys: &Keys,
    election: &EtcdElection,
    output: &Output,
) -> Result<String, CommitError> {
    let scope = election.scope().await;
    let scope = scope.map_err(|error| CommitError::Unknown(io::Error::other(error)))?;
    let output = output.clone();
    let backup = Backup::of(&output);
    // First: what a running loop keeps from here on is no sign that etcd lacks it.
    let saved = blocking(move || backup.read().map_err(broken)).await?;
    let (head, revision) = EtcdLedger::head(link, keys).await?;
    if lacks(&saved, &scope, &head).is_none() {
        return Ok("nothing is missing: etcd holds the chain of this folder".to_owned());
    };
    let links = blocking(move || prepare(&output, &scope, &saved)).await?;
    put(link, keys, revision, &links).await?;
    let names = links.iter().map(|link| link.deltas.len()).sum::<usize>();
    Ok(format!("the chain is restored, with {names} deltas"))
}

/// Writes the links, then the head, as long as nobody else has written a head.
async fn put(
    link: &Link,
    keys: &Keys,
    revision: i64,
    links: &[Manifest],
) -> Result<(), CommitError> {
    let is_same = || {
        [Compare::mod_revision(
            keys.head(),
            CompareOp::Equal,
            revision,
        )]
    };
    let all = || Some(DeleteOptions::new().with_prefix());
    let mut steps = vec![vec![TxnOp::delete(keys.chain(), all())]];
    for link in links {
        let (key, value) = (keys.link(link.id()), link_of(link).encode_to_vec());
        steps.push(vec![TxnOp::put(key, value, None)]);
    }
    let head = links.last().map(Message::encode_to_vec).unwrap_or_default();
    steps.push(vec![TxnOp::put(keys.head(), head, None)]);
    for step in steps {
        let txn = Txn::new().when(is_same()).and_then(step);
        if !link.txn(txn).await.map_err(unknown)?.succeeded() {
            let text = "somebody else has written the chain's head: look at `meta status`";
            return Err(CommitError::Broken(text.to_owned()));
        }
    }
    Ok(())
}

/// Returns the links of the chain to put there; the files that they name are there by then.
fn prepare(output: &Output, scope: &str, saved: &[Saved]) -> Result<Vec<Manifest>, CommitError> {
    let newest = newest(saved)?;
    output.check(&newest.deltas).map_err(broken)?;
    let scopes = saved.iter().map(|saved| &saved.scope);
    let replaces: BTreeSet<&String> = scopes.chain(&newest.head.replaces).collect();
    let replaces: Vec<String> = replaces
        .into_iter()
        .filter(|s| *s != scope)
        .cloned()
        .collect();
    if newest.scope == scope {
        let text = format!(
            "etcd holds an older state of itself: delete the key leader-election/life/{} first, \
             so that its tokens are of a new scope",
            scope.split_once('/').map_or(scope, |(_, name)| name)
        );
        return Err(CommitError::Broken(text));
    }
    let mut base = Manifest {
        prev: None,
        deltas: Vec::new(),
        applied: Vec::new(),
        replaces,
        ..newest.head.clone()
    };
    let era = base.replaces.len();
    for part in &mut base.parts {
        part.name = rename(&output.parts(), era, &part.name)?;
    }
    let mut deltas = newest.deltas.clone();
    for delta in &mut deltas {
        delta.name = rename(&output.deltas(), era, &delta.name)?;
    }
    for folder in [output.parts(), output.deltas()] {
        sync_folder(&folder).map_err(CommitError::Unknown)?;
    }
    Ok(links(&base, &deltas))
}

fn links(base: &Manifest, deltas: &[Delta]) -> Vec<Manifest> {
    let mut chunks: Vec<&[Delta]> = deltas.chunks(DELTAS).collect();
    if chunks.is_empty() {
        chunks.push(&[]);
    }
    let mut n = 0;
    let mut link = |deltas: &[Delta]| {
        n += 1;
        Manifest {
            epoch: Some(Epoch::new(0, n)),
            prev: (n > 1).then(|| Epoch::new(0, n - 1)),
            deltas: deltas.to_vec(),
            ..base.clone()
        }
    };
    chunks.into_iter().map(&mut link).collect()
}

/// Returns the saved chain that no other has replaced.
fn newest(saved: &[Saved]) -> Result<&Saved, CommitError> {
    let is_replaced = |one: &Saved| saved.iter().any(|s| s.head.replaces.contains(&one.scope));
    let mut left = saved.iter().filter(|one| !is_replaced(one));
    match (left.next(), left.next()) {
        (Some(newest), None) => Ok(newest),
        (one, other) => Err(CommitError::Broken(format!(
            "the output folder holds several chains ({}, {}): keep one folder of backup/",
            one.map_or("", |one| &one.scope),
            other.map_or("", |other| &other.scope),
        ))),
    }
}

/// Gives a file the name that it has in a restored chain, beside its own.
fn rename(folder: &std::path::Path, era: usize, name: &str) -> Result<String, CommitError> {
    if writer_of(name).is_none() {
        return Err(CommitError::Broken(format!(
            "{name:?} is no name of a file of this loop"
        )));
    }
    // Of term zero, as the first epochs of such a chain; it may have been restored before.
    if name.starts_with("0-") {
        return Ok(name.to_owned());
    }
    let restored = format!("0-{era}-{name}");
    match fs::hard_link(folder.join(name), folder.join(&restored)) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            let path = folder.join(name).display().to_string();
            Err(CommitError::Broken(format!(
                "{path} cannot be kept: {error}"
            )))
        }
        _ => Ok(restored),
    }
}

fn broken(error: StoreError) -> CommitError {
    CommitError::Broken(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saved(scope: &str, head: Epoch, prev: Epoch, replaces: &[&str]) -> Saved {
        let head = Manifest {
            epoch: Some(head),
            prev: Some(prev),
            replaces: replaces.iter().map(|&scope| scope.to_owned()).collect(),
            ..Manifest::default()
        };
        Saved {
            scope: scope.to_owned(),
            head,
            deltas: Vec::new(),
        }
    }

    #[test]
    fn a_chain_lacks_what_another_scope_has_or_what_follows_its_head() {
        let (one, two, three) = (Epoch::new(5, 1), Epoch::new(5, 2), Epoch::new(5, 3));
        let kept = [saved("new", three, two, &["old"])];
        let head = |epoch, replaces: &[&str]| saved("", epoch, Epoch::START, replaces).head;
        // The last one may not have landed.
        for epoch in [two, three, Epoch::new(9, 1)] {
            assert_eq!(lacks(&kept, "new", &head(epoch, &[])), None, "{epoch}");
        }
        assert!(lacks(&kept, "new", &head(one, &[])).is_some());
        let why = lacks(&kept, "other", &head(three, &[])).unwrap();
        assert!(why.contains("run `meta restore` once"), "{why}");
        assert_eq!(lacks(&kept, "other", &head(one, &["new"])), None);
        assert_eq!(lacks(&[], "any", &Manifest::default()), None);
    }

    #[test]
    fn the_newest_chain_is_the_one_that_no_other_replaces() {
        let epoch = Epoch::new(5, 1);
        let of = |scope, replaces| saved(scope, epoch, Epoch::START, replaces);
        let three = [of("b", &["a"]), of("c", &["a", "b"]), of("a", &[])];
        assert_eq!(newest(&three).unwrap().scope, "c");
        let two = [of("b", &["a"]), of("c", &["a"])];
        let why = newest(&two).unwrap_err().to_string();
        assert!(why.contains("several chains (b, c)"), "{why}");
    }

    #[test]
    fn a_long_chain_becomes_links_that_follow_each_other_and_name_all() {
        let delta = |n: usize| Delta {
            name: n.to_string(),
            ..Delta::default()
        };
        let deltas: Vec<Delta> = (0..2 * DELTAS + 1).map(delta).collect();
        let base = Manifest {
            closed: true,
            ..Manifest::default()
        };
        let links = links(&base, &deltas);
        assert_eq!(links.len(), 3);
        let mut prev = Epoch::START;
        for link in &links {
            assert_eq!((link.predecessor(), link.id().term), (prev, 0));
            assert!(link.closed && link.encoded_len() < 1 << 20);
            prev = link.id();
        }
        let named: Vec<Delta> = links.into_iter().flat_map(|link| link.deltas).collect();
        assert_eq!(named, deltas);
        // A chain of nothing has a link all the same: it names what it replaces.
        assert_eq!(super::links(&base, &[]).len(), 1);
    }
}
