//! Reads of all that lies under the prefix, at one revision, in pages that fit into an
//! answer.
//!
//! What others keep there, and how large their values are, is not for this crate to choose.

use etcd_client::{Client, GetOptions, GetResponse, KeyValue};

use super::{
    failure::{is_answer_too_large, to_error},
    store::EtcdStore,
};
use crate::Error;

/// How many keys are asked for at first, and at most.
const PAGE: i64 = 1_000;

/// The revision of a read that begins.
pub(super) const NEWEST: i64 = 0;

/// What a page brings of each key.
#[derive(Clone, Copy)]
pub(super) enum Bring {
    Keys,
    KeysAndValues,
}

// ===== impl EtcdStore =====

impl EtcdStore {
    /// Shows all keys under the prefix in their order as texts, at this revision, or at the
    /// [`NEWEST`]; returns the revision.
    ///
    /// Each page has a limit of its own.
    pub(super) async fn pages(
        &self,
        bring: Bring,
        mut revision: i64,
        mut each: impl FnMut(&KeyValue),
    ) -> Result<i64, Error> {
        let mut from = self.keys.prefix().to_vec();
        let mut size = PAGE;
        loop {
            let page = self.page(bring, from, revision, &mut size).await?;
            if revision == NEWEST {
                revision = page.header().map_or(0, |header| header.revision());
            }
            page.kvs().iter().for_each(&mut each);
            let Some(last) = page.kvs().last().filter(|_| page.more()) else {
                return Ok(revision);
            };
            from = last.key().to_vec();
            // The least key that follows.
            from.push(0);
        }
    }

    /// Reads one page; a size that turns out to be too large is made smaller.
    async fn page(
        &self,
        bring: Bring,
        from: Vec<u8>,
        revision: i64,
        size: &mut i64,
    ) -> Result<GetResponse, Error> {
        loop {
            let options = GetOptions::new().with_range(self.keys.end());
            let options = options.with_revision(revision).with_limit(*size);
            let options = match bring {
                Bring::Keys => options.with_keys_only(),
                Bring::KeysAndValues => options,
            };
            let from = from.clone();
            let call = |mut client: Client| async move { client.get(from, Some(options)).await };
            match self.link.raw(call).await? {
                Ok(page) => return Ok(page),
                Err(error) if is_answer_too_large(&error) && *size > 1 => {
                    *size = (*size / 4).max(1);
                }
                Err(error) => return Err(to_error(error)),
            }
        }
    }
}
