//! The keys of one election, as in etcd's own recipe.
//!
//! Source: `client/v3/concurrency/election.go` of etcd. A candidate's key is
//! `<name>/<lease id in lower-case hex>`; the leader's is the one with the lowest
//! create revision.

use std::sync::Arc;

use crate::{CandidateId, Error, ErrorKind};

/// Longest name: a scope has at most 128 bytes, 33 of which are the life id and
/// the slash behind it.
pub(super) const MAX_NAME_BYTES: usize = 95;

/// Where the life ids are kept: outside of every election's own keys, unless its
/// name is a prefix of this, and then nested, hence no candidates.
const LIVES: &str = "leader-election/life/";

/// The keys of one election.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    name: Arc<str>,
    prefix: Vec<u8>,
    life: Vec<u8>,
}

// ===== impl Keys =====

impl Keys {
    pub(super) fn new(name: &str) -> Result<Self, Error> {
        if name.is_empty() {
            return Err(Error::new(
                ErrorKind::Invalid,
                "the election has no name: give one that all candidates share",
            ));
        }
        if name.len() > MAX_NAME_BYTES {
            return Err(Error::new(
                ErrorKind::Invalid,
                format!(
                    "the election's name has {} bytes, {MAX_NAME_BYTES} are allowed",
                    name.len()
                ),
            ));
        }
        let life = format!("{LIVES}{name}");
        if format!("{name}/").starts_with(LIVES) {
            return Err(Error::new(
                ErrorKind::Invalid,
                format!("the name {name} is taken: life ids are kept there"),
            ));
        }
        Ok(Self {
            name: name.into(),
            prefix: format!("{name}/").into_bytes(),
            life: life.into_bytes(),
        })
    }

    /// What every candidate's key begins with.
    pub(super) fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// The least key behind all that begin with the prefix.
    pub(super) fn end(&self) -> Vec<u8> {
        let mut end = self.prefix.clone();
        // It is a slash.
        if let Some(last) = end.last_mut() {
            *last += 1;
        }
        end
    }

    /// Where the store's life id is kept.
    pub(super) fn life(&self) -> &[u8] {
        &self.life
    }

    /// Returns a candidate's key; its id is its lease's.
    pub(super) fn candidate(&self, id: CandidateId) -> Vec<u8> {
        let mut key = self.prefix.clone();
        key.extend_from_slice(format!("{:x}", id.as_u64()).as_bytes());
        key
    }

    /// Tells candidates from what merely lies under the same prefix: an election
    /// `a/b` keeps its keys within those of an election `a`.
    ///
    /// Any ending without a further slash counts, whoever wrote it.
    pub(super) fn is_candidate(&self, key: &[u8]) -> bool {
        key.strip_prefix(self.prefix.as_slice())
            .is_some_and(|ending| !ending.is_empty() && !ending.contains(&b'/'))
    }

    /// Returns within what tokens of a life of the store are comparable.
    pub(super) fn scope(&self, life: &str) -> Arc<str> {
        format!("{life}/{}", self.name).into()
    }
}

/// A candidate's lease has its id, so that a grant without an answer can be repeated.
pub(super) fn lease_of(id: CandidateId) -> i64 {
    i64::try_from(id.as_u64()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(name: &str) -> Keys {
        Keys::new(name).unwrap()
    }

    #[test]
    fn a_candidate_is_the_name_a_slash_and_the_lease_in_hex() {
        let key = keys("foo").candidate(CandidateId::new(0x12c8_a234_cefe_4b05));
        assert_eq!(key, b"foo/12c8a234cefe4b05");
    }

    #[test]
    fn nested_names_are_no_candidates_of_the_outer_election() {
        let outer = keys("foo");
        assert!(outer.is_candidate(b"foo/12c8"));
        assert!(outer.is_candidate(b"foo/another-client"));
        for other in [
            b"foo/bar/12c8".as_slice(),
            b"foo/",
            b"foo",
            b"foobar/12c8",
            b"fo",
        ] {
            assert!(!outer.is_candidate(other), "{other:?}");
        }
        assert!(keys("foo/bar").is_candidate(b"foo/bar/12c8"));
    }

    #[test]
    fn a_life_id_is_a_candidate_of_no_election() {
        for name in ["leader-election", "a"] {
            let keys = keys(name);
            assert!(!keys.is_candidate(keys.life()), "{name}");
        }
        let outer = keys("leader-election");
        assert!(!outer.is_candidate(keys("a").life()));
        // This name would make life ids its candidates.
        assert!(Keys::new("leader-election/life").is_err());
        // And this one's leader would lie where the election `a/b` keeps its life id.
        assert!(Keys::new("leader-election/life/a").is_err());
    }

    #[test]
    fn a_scope_fits_its_bound() {
        let longest = "n".repeat(MAX_NAME_BYTES);
        assert_eq!(keys(&longest).scope(&"f".repeat(32)).len(), 128);
        assert!(Keys::new(&"n".repeat(MAX_NAME_BYTES + 1)).is_err());
        assert!(Keys::new("").is_err());
    }
}
