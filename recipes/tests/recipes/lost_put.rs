//! Hunts an entry that is in the log twice, or is given up, because the client of the object
//! store lost the answer to a put that landed.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use async_trait::async_trait;
use fencing::Token;
use futures_util::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use recipes::{WriteError, object_log::ObjectLog};

/// A store in memory whose next put may land without an answer.
#[derive(Debug, Default)]
struct Forgetful {
    inner: InMemory,
    loses: AtomicBool,
    /// The client repeats the put itself, as those of the clouds do.
    repeats: AtomicBool,
    lost: AtomicU64,
}

impl fmt::Display for Forgetful {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

#[async_trait]
impl ObjectStore for Forgetful {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        let put = self
            .inner
            .put_opts(location, payload.clone(), options.clone());
        let put = put.await?;
        if !self.loses.swap(false, SeqCst) {
            return Ok(put);
        }
        self.lost.fetch_add(1, SeqCst);
        if self.repeats.load(SeqCst) {
            return self.inner.put_opts(location, payload, options).await;
        }
        Err(Error::Generic {
            store: "forgetful",
            source: "the connection broke".into(),
        })
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.inner.get_opts(location, options).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

fn log(store: &Arc<Forgetful>) -> ObjectLog {
    let store: Arc<dyn ObjectStore> = Arc::clone(store) as _;
    ObjectLog::new(store, "log")
}

async fn ids(log: &ObjectLog) -> Vec<String> {
    let entries = log.entries().await.unwrap();
    entries.into_iter().map(|entry| entry.id).collect()
}

#[tokio::test]
async fn the_same_client_finds_its_own_object_and_goes_on() {
    let store = Arc::new(Forgetful::default());
    let (log, token) = (log(&store), Token::from(1));
    log.append(&token, "a", b"a").await.unwrap();
    store.loses.store(true, SeqCst);
    let unknown = log.append(&token, "b", b"b").await;
    assert!(
        matches!(unknown, Err(WriteError::Unknown(_))),
        "{unknown:?}"
    );
    log.append(&token, "b", b"b").await.unwrap();
    log.append(&token, "c", b"c").await.unwrap();
    assert_eq!(ids(&log).await, ["a", "b", "c"]);
    assert_eq!(store.lost.load(SeqCst), 1);
}

#[tokio::test]
async fn a_client_that_repeats_by_itself_and_is_told_that_it_exists_finds_its_own_object() {
    let store = Arc::new(Forgetful::default());
    let (log, token) = (log(&store), Token::from(1));
    store.repeats.store(true, SeqCst);
    for id in ["a", "b"] {
        store.loses.store(true, SeqCst);
        log.append(&token, id, b"").await.unwrap();
    }
    assert_eq!(ids(&log).await, ["a", "b"]);
    assert_eq!(store.lost.load(SeqCst), 2);
}

#[tokio::test]
async fn another_write_after_an_unknown_one_goes_behind_it() {
    let store = Arc::new(Forgetful::default());
    let (log, token) = (log(&store), Token::from(1));
    store.loses.store(true, SeqCst);
    assert!(log.append(&token, "a", b"").await.is_err());
    log.append(&token, "b", b"").await.unwrap();
    log.append(&token, "a", b"").await.unwrap();
    assert_eq!(ids(&log).await, ["a", "b"]);
    assert_eq!(store.lost.load(SeqCst), 1);
}

#[tokio::test]
async fn a_retry_behind_a_successor_is_refused_though_its_own_object_is_there() {
    let store = Arc::new(Forgetful::default());
    let (old, new) = (log(&store), log(&store));
    store.loses.store(true, SeqCst);
    assert!(old.append(&Token::from(1), "a", b"").await.is_err());
    new.append(&Token::from(2), "b", b"").await.unwrap();
    let retry = old.append(&Token::from(1), "a", b"").await;
    assert!(
        matches!(retry, Err(WriteError::Stale { highest: 2, .. })),
        "{retry:?}"
    );
    assert_eq!(ids(&old).await, ["a", "b"]);
    assert_eq!(store.lost.load(SeqCst), 1);
}

#[tokio::test]
async fn a_repetition_by_a_client_that_has_not_seen_its_successor_is_refused() {
    let store = Arc::new(Forgetful::default());
    let (old, new) = (log(&store), log(&store));
    old.append(&Token::from(1), "a", b"").await.unwrap();
    new.raise(&Token::from(2)).await.unwrap();
    let again = old.append(&Token::from(1), "a", b"").await;
    assert!(
        matches!(again, Err(WriteError::Stale { highest: 2, .. })),
        "{again:?}"
    );
}
