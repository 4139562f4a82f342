//! Who leads, as etcd says.

use etcd_client::{GetOptions, KeyValue, SortOrder, SortTarget};

use super::keys::Keys;
use super::link::{Link, Unreachable};

/// Returns the entry of who leads, if somebody does: the oldest one, whose revision is
/// the token.
///
/// # Errors
///
/// [`Unreachable`].
///
/// # Cancel safety
///
/// Cancel safe: it only reads.
pub async fn first_candidate(link: &Link, keys: &Keys) -> Result<Option<KeyValue>, Unreachable> {
    let prefix = keys.election() + "/";
    let read = link.call(|mut client| async move { client.get(prefix, Some(oldest())).await });
    Ok(read.await?.take_kvs().pop())
}

/// Of the keys with a prefix, the one that was made first.
pub(super) fn oldest() -> GetOptions {
    GetOptions::new()
        .with_prefix()
        .with_sort(SortTarget::Create, SortOrder::Ascend)
        .with_limit(1)
}
