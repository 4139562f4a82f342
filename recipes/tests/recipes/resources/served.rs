//! Resources without a server of their own: a process serves them.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use fencing::Token;
use object_store::{ObjectStore, local::LocalFileSystem, memory::InMemory};
use recipes::conformance::{Fault, FaultyClient, Harness, Resource};
use recipes::{Entry, WriteError, file::FencedFile, object_log::ObjectLog, sqlite};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, spawn_blocking};

use crate::broken::Broken;
use crate::child::{Process, say};
use crate::proxy::Proxy;
use crate::remote::{APPEND, Open, Remote, serve};

const KIND: &str = "RECIPE_KIND";
const FOLDER: &str = "RECIPE_FOLDER";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Sqlite,
    File,
    LocalObjects,
    /// Lives and dies with the process of the test.
    MemoryObjects,
}

/// A process that serves one kind, or a task that does.
pub(crate) struct Served {
    pub(crate) kind: Kind,
    pub(crate) folder: TempDir,
    pub(crate) port: Arc<AtomicU16>,
    process: Mutex<Option<Process>>,
    task: Option<JoinHandle<()>>,
    tokens: AtomicU64,
}

// ===== impl Kind =====

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::File => "file",
            Self::LocalObjects => "local",
            Self::MemoryObjects => "memory",
        }
    }

    pub(crate) fn named(name: &str) -> Self {
        let kinds = [
            Self::Sqlite,
            Self::File,
            Self::LocalObjects,
            Self::MemoryObjects,
        ];
        let found = kinds.into_iter().find(|kind| kind.name() == name);
        found.expect("a kind")
    }
}

// ===== impl Served =====

impl Served {
    pub(crate) async fn start(kind: Kind) -> Self {
        let folder = TempDir::new().unwrap();
        let mut served = Self {
            kind,
            folder,
            port: Arc::default(),
            process: Mutex::default(),
            task: None,
            tokens: AtomicU64::new(0),
        };
        if kind == Kind::MemoryObjects {
            let (port, task) = serve_memory().await;
            served.port.store(port, SeqCst);
            served.task = Some(task);
        } else {
            served.spawn();
        }
        served
    }

    fn spawn(&self) {
        let folder = self.folder.path().to_str().unwrap();
        let variables = [(KIND, self.kind.name()), (FOLDER, folder)];
        let mut process = Process::start("resources::served::process", &variables, &[]);
        let port = process.hear().expect("it says its port");
        self.port.store(port.parse().unwrap(), SeqCst);
        *self.process.lock().unwrap() = Some(process);
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

#[async_trait]
impl Harness for Served {
    async fn open(&self, name: &str) -> Arc<dyn Resource> {
        Arc::new(Remote::new(name, Arc::clone(&self.port)))
    }

    async fn open_faulty(&self, name: &str, fault: Fault) -> Box<dyn FaultyClient> {
        let proxy = Proxy::start(Arc::clone(&self.port), fault, APPEND).await;
        let resource = Arc::new(Remote::new(name, Arc::new(AtomicU16::new(proxy.port))));
        proxy.arm();
        Box::new(Broken { resource, proxy })
    }

    async fn next_token(&self, _: &str) -> Token {
        Token::scoped("life/e", self.tokens.fetch_add(1, SeqCst) + 1)
    }

    async fn crash(&self) -> u64 {
        let process = self.process.lock().unwrap().take();
        let Some(mut process) = process else {
            return 0;
        };
        let signal = process.kill();
        self.spawn();
        u64::from(signal == Some(9))
    }
}

/// Serves objects in memory from this process, until the task is aborted.
pub(crate) async fn serve_memory() -> (u16, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let open: Open =
        Arc::new(move |name| Arc::new(Objects(ObjectLog::new(Arc::clone(&store), name))));
    (port, tokio::spawn(serve(listener, open)))
}

/// Opens clients of what is kept in this folder.
pub(crate) fn open_in(kind: Kind, folder: &Path) -> Open {
    let folder = folder.to_owned();
    match kind {
        Kind::Sqlite => Arc::new(move |name| {
            let connection = sqlite::open(folder.join("db")).unwrap();
            let (connection, name) = (Arc::new(Mutex::new(connection)), name.to_owned());
            Arc::new(Sqlite { connection, name })
        }),
        Kind::File => {
            let files = Mutex::new(HashMap::new());
            Arc::new(move |name| {
                let mut files = files.lock().unwrap();
                let file = files.entry(name.to_owned());
                let open = || FencedFile::open(folder.join(name)).unwrap();
                Arc::new(Whole(file.or_insert_with(open).clone()))
            })
        }
        Kind::LocalObjects => {
            let store = LocalFileSystem::new_with_prefix(folder).unwrap();
            let store: Arc<dyn ObjectStore> = Arc::new(store);
            Arc::new(move |name| Arc::new(Objects(ObjectLog::new(Arc::clone(&store), name))))
        }
        Kind::MemoryObjects => unreachable!("they are in no folder"),
    }
}

struct Sqlite {
    connection: Arc<Mutex<rusqlite::Connection>>,
    name: String,
}

// ===== impl Sqlite =====

impl Sqlite {
    async fn call<T: Send + 'static>(
        &self,
        call: impl FnOnce(&mut rusqlite::Connection, &str) -> T + Send + 'static,
    ) -> T {
        let (connection, name) = (Arc::clone(&self.connection), self.name.clone());
        let called = spawn_blocking(move || call(&mut connection.lock().unwrap(), &name));
        called.await.unwrap()
    }
}

#[async_trait]
impl Resource for Sqlite {
    async fn raise(&self, token: &Token) -> Result<(), WriteError> {
        let token = token.clone();
        self.call(move |db, name| sqlite::raise(db, name, &token))
            .await
    }

    async fn append(&self, token: &Token, id: &str, value: &[u8]) -> Result<(), WriteError> {
        let (token, id, value) = (token.clone(), id.to_owned(), value.to_owned());
        self.call(move |db, name| sqlite::append(db, name, &token, &id, &value))
            .await
    }

    async fn reset(&self, scope: &str) -> Result<(), WriteError> {
        let scope = scope.to_owned();
        self.call(move |db, name| sqlite::reset(db, name, &scope))
            .await
    }

    async fn entries(&self) -> Vec<Entry> {
        self.call(|db, name| sqlite::entries(db, name).unwrap())
            .await
    }
}

struct Objects(ObjectLog);

#[async_trait]
impl Resource for Objects {
    async fn raise(&self, token: &Token) -> Result<(), WriteError> {
        self.0.raise(token).await
    }

    async fn append(&self, token: &Token, id: &str, value: &[u8]) -> Result<(), WriteError> {
        self.0.append(token, id, value).await
    }

    async fn reset(&self, scope: &str) -> Result<(), WriteError> {
        self.0.reset(scope).await
    }

    async fn entries(&self) -> Vec<Entry> {
        self.0.entries().await.unwrap()
    }
}

struct Whole(FencedFile);

#[async_trait]
impl Resource for Whole {
    async fn raise(&self, token: &Token) -> Result<(), WriteError> {
        self.0.raise(token).await
    }

    async fn append(&self, token: &Token, id: &str, value: &[u8]) -> Result<(), WriteError> {
        self.0.append(token, id, value).await
    }

    async fn reset(&self, scope: &str) -> Result<(), WriteError> {
        self.0.reset(scope)
    }

    async fn entries(&self) -> Vec<Entry> {
        self.0.entries().unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "started by other tests as a process of its own"]
async fn process() {
    let Ok(kind) = std::env::var(KIND) else {
        return;
    };
    let folder = std::env::var_os(FOLDER).unwrap();
    let open = open_in(Kind::named(&kind), folder.as_ref());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    say(&listener.local_addr().unwrap().port().to_string());
    serve(listener, open).await;
}
