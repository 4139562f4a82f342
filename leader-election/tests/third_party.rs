//! Hunts gaps of the public API: a backend of someone else, a queue of files under a lock
//! file, made of std, tokio and this crate alone, keeps the contract.

use std::{
    collections::HashMap,
    fs,
    io::{self, ErrorKind::AlreadyExists},
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use leader_election::{
    CandidateId, Election, ElectionConfig, Error, ErrorKind, Grant, Leader, Loss, Place, Renewal,
    Standing, Store, StoreElection,
    conformance::{Cut, Harness, Wire},
    conformance_tests, simulated_time,
};
use tempfile::TempDir;
use tokio::{sync::watch, time::sleep};

/// How often a change is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A queue of files in one folder: the name is the place, the content the value. All
/// processes need one clock that goes on in suspend, here the test's; in earnest, the
/// machine's time since boot.
struct FileStore {
    folder: PathBuf,
    clock: fn() -> Duration,
}

/// Token, id, TTL in nanoseconds, end of the lease in nanoseconds.
type Name = [u64; 4];

/// Removes the lock file. A process that is killed leaves it: in earnest, lock it instead.
struct Locked(PathBuf);

impl FileStore {
    /// Does something with the places under the lock.
    async fn locked<T>(
        &self,
        act: impl FnOnce(Vec<Name>) -> io::Result<T> + Send,
    ) -> Result<T, Error> {
        let lock = self.folder.join("lock");
        while let Err(error) = fs::File::create_new(&lock) {
            if error.kind() != AlreadyExists {
                return Err(unavailable(error));
            }
            sleep(LOOK_EVERY / 10).await;
        }
        let _locked = Locked(lock);
        self.places().and_then(act).map_err(unavailable)
    }

    fn places(&self) -> io::Result<Vec<Name>> {
        let mut places = Vec::new();
        for file in fs::read_dir(&self.folder)? {
            let file = file?.file_name();
            let fields = file.to_str().unwrap_or_default().split('.');
            let numbers = fields.map(|field| field.parse().ok());
            match numbers.collect::<Option<Vec<u64>>>().map(Name::try_from) {
                Some(Ok(place)) if self.now() < place[3] => places.push(place),
                Some(Ok(place)) => fs::remove_file(self.path(place))?,
                _ => {}
            }
        }
        places.sort_unstable();
        Ok(places)
    }

    fn path(&self, [token, id, ttl, end]: Name) -> PathBuf {
        self.folder.join(format!("{token}.{id}.{ttl}.{end}"))
    }

    fn now(&self) -> u64 {
        nanos((self.clock)())
    }

    fn next_token(&self) -> io::Result<u64> {
        let next = self.folder.join("next");
        let token = fs::read_to_string(&next).map_or(1, |text| text.parse().unwrap_or(1));
        fs::write(next, (token + 1).to_string())?;
        Ok(token)
    }
}

#[async_trait]
impl Store for FileStore {
    async fn join(&self, id: CandidateId, value: &[u8], ttl: Duration) -> Result<Grant, Error> {
        let [token, _, ttl, _] = self
            .locked(|places| {
                if let Some(place) = places.into_iter().find(|place| place[1] == id.as_u64()) {
                    return Ok(place);
                }
                let end = self.now() + nanos(ttl);
                let place = [self.next_token()?, id.as_u64(), nanos(ttl), end];
                fs::write(self.path(place), value).map(|()| place)
            })
            .await?;
        Ok(Grant::new(
            Place::new(id, token, ""),
            Duration::from_nanos(ttl),
        ))
    }

    async fn wait(&self, place: &Place, known: Standing) -> Result<Standing, Error> {
        loop {
            let standing = self.verify(place).await?;
            if standing != known {
                return Ok(standing);
            }
            sleep(LOOK_EVERY).await;
        }
    }

    async fn verify(&self, place: &Place) -> Result<Standing, Error> {
        let position =
            |places: Vec<Name>| Ok(places.iter().position(|[token, ..]| *token == place.token));
        Ok(match self.locked(position).await? {
            Some(0) => Standing::First,
            Some(_) => Standing::Queued,
            None => Standing::Gone(Loss::Removed),
        })
    }

    async fn renew(&self, place: &Place) -> Result<Renewal, Error> {
        self.locked(|places| {
            let Some(place) = places.into_iter().find(|[token, ..]| *token == place.token) else {
                return Ok(Renewal::Gone(Loss::Removed));
            };
            let [token, id, ttl, _] = place;
            fs::rename(
                self.path(place),
                self.path([token, id, ttl, self.now() + ttl]),
            )?;
            Ok(Renewal::Confirmed(Duration::from_nanos(ttl)))
        })
        .await
    }

    async fn proclaim(&self, place: &Place, value: &[u8]) -> Result<Standing, Error> {
        self.locked(|places| {
            let own = places.into_iter().find(|[token, ..]| *token == place.token);
            own.map_or(Ok(()), |own| fs::write(self.path(own), value))
        })
        .await?;
        self.verify(place).await
    }

    async fn leave(&self, id: CandidateId, _: Option<u64>) -> Result<(), Error> {
        // An id is never used again: it needs no token to tell places apart.
        self.locked(|places| {
            let own = places.into_iter().find(|place| place[1] == id.as_u64());
            own.map_or(Ok(()), |own| fs::remove_file(self.path(own)))
        })
        .await
    }

    async fn observe(&self, leader: &watch::Sender<Option<Leader>>) -> Result<(), Error> {
        loop {
            let first = |places: Vec<Name>| {
                let Some(first) = places.first() else {
                    return Ok(None);
                };
                let value = fs::read(self.path(*first))?;
                Ok(Some(Leader::new(value, first[0], "")))
            };
            let now_leads = self.locked(first).await?;
            leader.send_if_modified(|shown| std::mem::replace(shown, now_leads) != *shown);
            sleep(LOOK_EVERY).await;
        }
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn unavailable(error: io::Error) -> Error {
    Error::new(ErrorKind::Unavailable, "the folder cannot be used").with_source(error)
}

/// Each node opens the folder anew.
struct Files {
    folder: TempDir,
    wires: Mutex<HashMap<usize, Wire<FileStore>>>,
}

impl Files {
    async fn new() -> Self {
        Self {
            folder: TempDir::new().expect("a temporary folder"),
            wires: Mutex::default(),
        }
    }

    fn store(&self) -> FileStore {
        FileStore {
            folder: self.folder.path().to_owned(),
            clock: simulated_time,
        }
    }

    fn wire(&self, node: usize) -> Wire<FileStore> {
        let mut wires = self.wires.lock().expect("no panic under it");
        let wire = wires.entry(node);
        wire.or_insert_with(|| Wire::new(self.store())).clone()
    }
}

#[async_trait]
impl Harness for Files {
    fn ttl(&self) -> Duration {
        Duration::from_secs(2)
    }

    fn is_simulated(&self) -> bool {
        true
    }

    fn now(&self) -> Duration {
        simulated_time()
    }

    async fn election(&self, node: usize, config: ElectionConfig) -> Arc<dyn Election> {
        let election = StoreElection::new(self.wire(node), config);
        Arc::new(election.with_clock(simulated_time))
    }

    async fn cut(&self, node: usize, cut: Cut) {
        self.wire(node).cut(cut);
    }

    async fn heal(&self, node: usize) {
        self.wire(node).heal();
    }

    async fn expire(&self, token: u64) {
        let store = self.store();
        let remove = |places: Vec<Name>| {
            let place = places.into_iter().find(|place| place[0] == token);
            place.map_or(Ok(()), |place| fs::remove_file(store.path(place)))
        };
        store.locked(remove).await.expect("the folder is there");
    }

    async fn queue(&self) -> Vec<u64> {
        let tokens = |places: Vec<Name>| Ok(places.iter().map(|place| place[0]).collect());
        self.store()
            .locked(tokens)
            .await
            .expect("the folder is there")
    }
}

conformance_tests! {
    Files::new(), #[tokio::test(start_paused = true)]
}
