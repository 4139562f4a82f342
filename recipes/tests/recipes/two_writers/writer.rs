//! One writer, a process of its own: it writes under the token that it was told, until it
//! is told another one or is refused.

use std::sync::Arc;
use std::sync::atomic::AtomicU16;
use std::time::Duration;

use etcd_client::Client;
use fencing::Token;
use recipes::WriteError;
use recipes::conformance::Resource;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::child::{Process, say};
use crate::remote::Remote;
use crate::resources::{EtcdForeign, EtcdOwn, Keys, Kind, PostgresClient, open_in};

const TARGET: &str = "WRITER_TARGET";
const NAME: &str = "WRITER_NAME";
/// Leaves the other one, and what serves, some of the processors.
const PAUSE: Duration = Duration::from_millis(1);

/// Where the resource is.
#[derive(Clone, Debug)]
pub(super) enum Target {
    /// Opened by each writer itself.
    Folder(Kind, String),
    Served(u16),
    Postgres(u16),
    Foreign(u16),
    Own(u16),
}

// ===== impl Target =====

impl Target {
    fn to_words(&self) -> String {
        match self {
            Self::Folder(kind, folder) => format!("folder {} {folder}", kind.name()),
            Self::Served(port) => format!("served {port}"),
            Self::Postgres(port) => format!("postgres {port}"),
            Self::Foreign(port) => format!("foreign {port}"),
            Self::Own(port) => format!("own {port}"),
        }
    }

    fn from_words(words: &str) -> Self {
        let (what, rest) = words.split_once(' ').expect("two words");
        let port = || rest.parse().expect("a port");
        match what {
            "folder" => {
                let (kind, folder) = rest.split_once(' ').expect("two words");
                Self::Folder(Kind::named(kind), folder.to_owned())
            }
            "served" => Self::Served(port()),
            "postgres" => Self::Postgres(port()),
            "foreign" => Self::Foreign(port()),
            _ => Self::Own(port()),
        }
    }

    async fn open(&self, name: &str, keys: &Keys) -> Arc<dyn Resource> {
        let etcd = async |port| {
            let endpoint = format!("http://127.0.0.1:{port}");
            Box::pin(Client::connect([endpoint], None)).await.unwrap()
        };
        match self {
            Self::Folder(kind, folder) => open_in(*kind, folder.as_ref())(name),
            Self::Served(port) => Arc::new(Remote::new(name, Arc::new(AtomicU16::new(*port)))),
            Self::Postgres(port) => Arc::new(PostgresClient::connect(*port, name).await),
            Self::Foreign(port) => Arc::new(EtcdForeign {
                client: etcd(*port).await,
                name: name.to_owned(),
            }),
            Self::Own(port) => Arc::new(EtcdOwn {
                client: etcd(*port).await,
                name: name.to_owned(),
                keys: Arc::clone(keys),
            }),
        }
    }
}

/// What a writer was told last.
#[derive(Clone, Debug)]
enum Told {
    Nothing,
    /// Under which number it believes to lead, and the token that it shows.
    Lead(u64, Token),
    End,
}

pub(super) fn start(target: &Target, name: &str) -> Process {
    let target = target.to_words();
    let variables = [(TARGET, target.as_str()), (NAME, name)];
    Process::start("two_writers::writer::process", &variables, &[])
}

/// What to tell a writer: its number, the token to show, and that one's key if it has one.
pub(super) fn lead(number: u64, shown: &Token, key: Option<&Vec<u8>>) -> String {
    let key = key.map_or("-", |key| str::from_utf8(key).expect("text"));
    format!("lead {number} {} {} {key}\n", shown.scope(), shown.number())
}

/// Reads what it is told, on a thread of its own; the end of the test is an end, too.
fn listen(keys: &Keys) -> watch::Receiver<Told> {
    let (sender, told) = watch::channel(Told::Nothing);
    let keys = Arc::clone(keys);
    std::thread::spawn(move || {
        for line in std::io::stdin().lines() {
            let line = line.expect("the test writes text");
            let words: Vec<_> = line.split(' ').collect();
            if words[0] == "end" {
                break;
            }
            let number = |word: &str| word.parse().expect("a number");
            let shown = Token::scoped(words[2], number(words[3]));
            let key = words[4].as_bytes().to_vec();
            keys.lock().unwrap().insert(shown.clone(), key);
            sender.send_replace(Told::Lead(number(words[1]), shown));
        }
        sender.send_replace(Told::End);
    });
    told
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "started by other tests as a process of its own"]
async fn process() {
    let Ok(target) = std::env::var(TARGET) else {
        return;
    };
    let name = std::env::var(NAME).unwrap();
    let keys = Keys::default();
    let resource = Target::from_words(&target).open(&name, &keys).await;
    let mut told = listen(&keys);
    say("started");
    loop {
        let now = told.borrow_and_update().clone();
        match now {
            Told::Nothing => {}
            Told::Lead(number, shown) => write(&*resource, number, &shown, &told).await,
            Told::End => return,
        }
        let _ = told.changed().await;
    }
}

/// Leads until it is told something else, or is refused.
async fn write(resource: &dyn Resource, number: u64, shown: &Token, told: &watch::Receiver<Told>) {
    let mut step = 0;
    let mut has_raised = false;
    while !told.has_changed().unwrap_or(true) {
        let id = format!("{number}-{step}");
        let outcome = match has_raised {
            false => resource.raise(shown).await,
            true => resource.append(shown, &id, id.as_bytes()).await,
        };
        match outcome {
            Ok(()) if !has_raised => has_raised = true,
            Ok(()) => {
                say(&format!("wrote {id}"));
                step += 1;
            }
            Err(WriteError::Stale { .. }) => return say(&format!("stale {number}")),
            // The same again, until it is definite.
            Err(WriteError::Unknown(_) | WriteError::Failed(_)) => say("again"),
            Err(error) => panic!("{number}: {error:?}"),
        }
        sleep(PAUSE).await;
    }
}
