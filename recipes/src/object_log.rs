//! An object store with conditional puts: a log of numbered objects, each put where there
//! is none.
//!
//! **Promise.** No entry of a lower token is in the log behind one of a higher token: an
//! entry is put at a number only by one who has read all objects below it, and only where
//! no object is. A new leader raises first, which is an entry too, and reads then; what it
//! has read is final.
//!
//! **Assumption.** The store puts an object only where there is none, for all at once
//! (`PutMode::Create`): S3, Azure, Google, memory and local files do. Objects are never
//! changed; delete old ones only once no holder can be behind them. A local file system is
//! not synced by `object_store`: it survives the end of a process, not that of the machine.
//!
//! **Unknown outcome.** Any error of a put: it may have landed, or land later. Repeat the
//! same [`append`](ObjectLog::append): it tries the same number again, finds its own object
//! there or puts it, so that the entry is in the log once, and a late attempt is refused by
//! the store. The client of a store may itself repeat a put whose answer was lost, and then
//! say that the object exists: also then it finds its own.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use fencing::Token;
use object_store::{Error, ObjectStore, ObjectStoreExt, PutMode, path::Path};
use tokio::{sync::Mutex, time::timeout};

use crate::write::{Entry, WriteError, check, check_scope, refusal};

/// How long an answer may take.
const LIMIT: Duration = Duration::from_secs(30);
/// How often others may be first at the next number before a call gives up.
const TRIES: usize = 256;

/// A log, and what was read of it.
#[derive(Debug)]
pub struct ObjectLog {
    store: Arc<dyn ObjectStore>,
    folder: Path,
    head: Mutex<Head>,
}

/// What all objects before the next one say.
#[derive(Debug, Default)]
struct Head {
    read: u64,
    scope: Option<String>,
    highest: u64,
    ids: HashMap<String, u64>,
}

// ===== impl ObjectLog =====

impl ObjectLog {
    /// Opens a log, which is read when it is first needed.
    #[must_use]
    pub fn new(store: Arc<dyn ObjectStore>, folder: &str) -> Self {
        let (folder, head) = (Path::from(folder), Mutex::default());
        Self {
            store,
            folder,
            head,
        }
    }

    /// Refuses lower tokens from here on: an entry without an id.
    ///
    /// # Errors
    ///
    /// Those of [`append`](Self::append).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the outcome unknown.
    pub async fn raise(&self, token: &Token) -> Result<(), WriteError> {
        check(token)?;
        self.put(&Entry::new(token.clone(), "", [])).await
    }

    /// Appends an entry, once for each `id`, which must not be empty.
    ///
    /// # Errors
    ///
    /// See [`WriteError`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the outcome unknown.
    pub async fn append(&self, token: &Token, id: &str, value: &[u8]) -> Result<(), WriteError> {
        check(token)?;
        if id.is_empty() {
            return Err(WriteError::invalid("the write has no id: name it"));
        }
        self.put(&Entry::new(token.clone(), id, value)).await
    }

    /// Forgets the mark and admits tokens of `scope`: the operator's step after the store
    /// of the tokens was rebuilt, once no holder of an older token is left. An entry with
    /// token zero.
    ///
    /// # Errors
    ///
    /// See [`WriteError`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the outcome unknown.
    pub async fn reset(&self, scope: &str) -> Result<(), WriteError> {
        check_scope(scope)?;
        self.put(&Entry::new(Token::scoped(scope, 0), "", [])).await
    }

    /// Reads all entries, in the order in which they were written.
    ///
    /// # Errors
    ///
    /// Those of the store.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn entries(&self) -> Result<Vec<Entry>, Error> {
        let mut entries = Vec::new();
        for number in 1.. {
            let Some(entry) = self.get(number).await? else {
                break;
            };
            entries.extend((!entry.id.is_empty()).then_some(entry));
        }
        Ok(entries)
    }

    async fn put(&self, entry: &Entry) -> Result<(), WriteError> {
        let mut head = self.head.lock().await;
        for _ in 0..TRIES {
            head.admit(entry)?;
            if let Some(number) = head.ids.get(&entry.id).copied() {
                self.read_on(&mut head).await.map_err(unknown)?;
                head.admit(entry)?;
                let found = self.get(number).await.map_err(unknown)?;
                return match found.is_some_and(|found| found.value == entry.value) {
                    true => Ok(()),
                    false => Err(WriteError::reused()),
                };
            }
            // Your effect here, in the object.
            let (path, payload) = (self.path(head.read + 1), entry.to_bytes().into());
            let put = self.store.put_opts(&path, payload, PutMode::Create.into());
            match timeout(LIMIT, put).await {
                Ok(Ok(_)) => {
                    head.take(entry.clone());
                    return Ok(());
                }
                // Of another one, or of an earlier attempt.
                Ok(Err(Error::AlreadyExists { .. })) => {
                    self.read_on(&mut head).await.map_err(unknown)?;
                }
                Ok(Err(error)) => return Err(unknown(error)),
                Err(late) => return Err(WriteError::Unknown(late.into())),
            }
        }
        Err(WriteError::Failed("others were faster, try again".into()))
    }

    /// Reads what others have put.
    async fn read_on(&self, head: &mut Head) -> Result<(), Error> {
        while let Some(entry) = self.get(head.read + 1).await? {
            head.take(entry);
        }
        Ok(())
    }

    async fn get(&self, number: u64) -> Result<Option<Entry>, Error> {
        let path = self.path(number);
        let found = match self.store.get(&path).await {
            Err(Error::NotFound { .. }) => return Ok(None),
            found => found?.bytes().await?,
        };
        let entry = Entry::read_all(&found).and_then(|mut entries| entries.pop());
        let damaged = || Error::Generic {
            store: "log",
            source: format!("the object {path} is no entry").into(),
        };
        entry.map(Some).ok_or_else(damaged)
    }

    fn path(&self, number: u64) -> Path {
        self.folder.clone().join(format!("{number:020}"))
    }
}

// ===== impl Head =====

impl Head {
    fn admit(&self, entry: &Entry) -> Result<(), WriteError> {
        let (token, scope) = (&entry.token, self.scope.as_deref());
        let is_reset = token.number() == 0;
        let scope = scope.unwrap_or(token.scope());
        if is_reset || (scope == token.scope() && self.highest <= token.number()) {
            return Ok(());
        }
        Err(refusal(token, scope, self.highest))
    }

    /// Goes on by one object.
    fn take(&mut self, entry: Entry) {
        self.read += 1;
        self.scope = Some(entry.token.scope().to_owned());
        self.highest = entry.token.number();
        if !entry.id.is_empty() {
            self.ids.insert(entry.id, self.read);
        }
    }
}

fn unknown(error: Error) -> WriteError {
    WriteError::Unknown(error.into())
}
