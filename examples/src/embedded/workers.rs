//! The workers of an embedded run: each has a thread and a runtime of its own.
//!
//! A kill drops the runtime: every task of the worker, its listener and its
//! connections are gone at once, and what it had counted with them. A restart
//! is a new incarnation at the same address.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use bidi_session::WorkerId;
use bidi_session::tonic::Acceptor;
use tokio::sync::oneshot;
use tonic::transport::Endpoint;

use crate::compute::{Counter, Node, serve};
use crate::input::InputPlan;
use crate::roster::{Place, Roster};
use crate::store::Store;

/// All workers; clones share them, the last one stops them.
#[derive(Clone, Debug)]
pub struct Workers {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    store: Store,
    plan: Arc<InputPlan>,
    incarnations: AtomicU64,
    workers: Vec<Worker>,
}

#[derive(Debug)]
struct Worker {
    id: WorkerId,
    address: SocketAddr,
    running: Mutex<Option<Running>>,
}

/// Dropping it ends the worker's thread and all that runs on it.
#[derive(Debug)]
struct Running {
    _stop: oneshot::Sender<()>,
}

impl Workers {
    /// Starts `count` workers, `w1` and up, on free ports of the loopback address.
    ///
    /// # Errors
    ///
    /// Those of sockets and threads.
    pub fn start(count: u16, store: &Store, plan: &Arc<InputPlan>) -> io::Result<Self> {
        let mut listeners = Vec::new();
        let mut workers = Vec::new();
        for n in 1..=count {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            workers.push(Worker {
                id: WorkerId::from(format!("w{n}")),
                address: listener.local_addr()?,
                running: Mutex::default(),
            });
            listeners.push(listener);
        }
        let inner = Arc::new(Inner {
            store: store.clone(),
            plan: Arc::clone(plan),
            incarnations: AtomicU64::new(1),
            workers,
        });
        for (index, listener) in listeners.into_iter().enumerate() {
            inner.launch(index, listener)?;
        }
        Ok(Self { inner })
    }

    /// Returns who they are and where they listen.
    #[must_use]
    pub fn roster(&self) -> Roster {
        let each = self.inner.workers.iter();
        each.filter_map(|worker| {
            let uri = format!("http://{}", worker.address);
            let endpoint = Endpoint::from_shared(uri).ok()?;
            Some((worker.id.clone(), Place::new(endpoint)))
        })
        .collect()
    }

    /// Kills the worker at `index` without a word; `None` where it does not run.
    #[must_use]
    pub fn kill(&self, index: usize) -> Option<WorkerId> {
        let worker = self.inner.workers.get(index)?;
        worker.set(None).map(|_| worker.id.clone())
    }

    /// Starts a killed worker again: same id, same address, nothing remembered.
    ///
    /// # Errors
    ///
    /// Those of sockets and threads; the address may still be in use for a moment.
    pub fn restart(&self, index: usize) -> io::Result<()> {
        match self.inner.workers.get(index) {
            Some(worker) => {
                let listener = TcpListener::bind(worker.address)?;
                self.inner.launch(index, listener)
            }
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Ends all of them; what they count is dropped.
    pub fn stop(&self) {
        for worker in &self.inner.workers {
            worker.set(None);
        }
    }
}

impl Inner {
    fn launch(&self, index: usize, listener: TcpListener) -> io::Result<()> {
        let worker = &self.workers[index];
        listener.set_nonblocking(true)?;
        let incarnation = self.incarnations.fetch_add(1, Relaxed);
        // The store's mark: a restarted worker still refuses a deposed leader.
        let highest = self.store.highest_token();
        let acceptor = Acceptor::new(worker.id.clone(), incarnation, highest);
        let counter = Counter::new(
            worker.id.as_ref(),
            Arc::clone(&self.plan),
            self.store.deltas(),
        );
        let node = Node::start(acceptor, counter)?;
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        std::thread::Builder::new()
            .name(format!("worker-{}", worker.id))
            .spawn(move || {
                runtime.block_on(async {
                    tokio::select! {
                        _ = stopped => {}
                        served = serve(node, listener) => if let Err(error) = served {
                            tracing::error!(%error, "a worker's server ended");
                        },
                    }
                });
                // Dropping the runtime here drops every connection of the worker.
            })?;
        worker.set(Some(Running { _stop: stop }));
        Ok(())
    }
}

impl Worker {
    fn set(&self, running: Option<Running>) -> Option<Running> {
        let mut slot = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *slot, running)
    }
}
