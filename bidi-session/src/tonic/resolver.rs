//! Name look-ups on threads of their own.
//!
//! The system's look-up blocks and cannot be stopped. On the runtime's blocking pool
//! it would hold the runtime's shutdown and crowd out file I/O, so each one runs on a
//! thread that nobody waits for: it holds nothing but the name, and ends with the
//! system's answer.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// Look-ups at one time; further ones wait for their turn.
///
/// With the pool's defaults at most 64 attempts of 10 s run at a time, so a system
/// that takes 30 s for every name holds about 200 threads.
const MAX_LOOKUPS: usize = 256;

/// Enough for the system's look-up modules.
const STACK_BYTES: usize = 512 * 1024;

/// Looks names up, one look-up per name at a time; clones share the bound.
#[derive(Clone)]
pub(super) struct Resolver {
    shared: Arc<Shared>,
}

/// A blocking look-up of a host and port.
pub(super) type Lookup = dyn Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync;

/// What a look-up found, or why it found nothing.
type Answer = Result<Vec<SocketAddr>, String>;

struct Shared {
    lookup: Box<Lookup>,
    permits: Arc<Semaphore>,
    running: Mutex<Running>,
}

type Running = HashMap<(String, u16), watch::Receiver<Option<Answer>>>;

// ===== impl Resolver =====

impl Resolver {
    pub(super) fn new(lookup: Box<Lookup>) -> Self {
        Self {
            shared: Arc::new(Shared {
                lookup,
                permits: Arc::new(Semaphore::new(MAX_LOOKUPS)),
                running: Mutex::default(),
            }),
        }
    }

    /// Asks the system, as it answers now.
    pub(super) fn system() -> Self {
        Self::new(Box::new(|host, port| {
            std::net::ToSocketAddrs::to_socket_addrs(&(host, port)).map(Iterator::collect)
        }))
    }

    /// Returns the addresses of a host; an IP address stands for itself.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a look-up that runs goes on, and serves the next one that asks.
    pub(super) async fn resolve(&self, host: &str, port: u16) -> Answer {
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        if let Ok(address) = bare.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, port)]);
        }
        let name = (host.to_owned(), port);
        let running = self.shared.lock().get(&name).cloned();
        let mut answer = match running {
            Some(running) => running,
            None => self.start(name).await?,
        };
        let answered = answer.wait_for(Option::is_some).await;
        let answer = answered.map_err(|_| "the name look-up panicked".to_owned())?;
        let addresses = answer.clone().unwrap_or_else(|| Ok(Vec::new()))?;
        if addresses.is_empty() {
            return Err(format!("{host} has no address"));
        }
        Ok(addresses)
    }

    async fn start(&self, name: (String, u16)) -> Result<watch::Receiver<Option<Answer>>, String> {
        let permits = self.shared.permits.clone();
        let permit = permits.acquire_owned().await;
        let permit = permit.map_err(|_| "the resolver is closed".to_owned())?;
        let (answer, answered) = watch::channel(None);
        {
            let mut running = self.shared.lock();
            // Another attempt may have come first while this one waited for its turn.
            if let Some(answer) = running.get(&name) {
                return Ok(answer.clone());
            }
            running.insert(name.clone(), answered.clone());
        }
        let look_up = LookUp {
            shared: self.shared.clone(),
            name,
            _permit: permit,
        };
        std::thread::Builder::new()
            .name("bidi-session-dns".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || {
                let found = look_up.run();
                // From here on the next one that asks gets a look-up of its own.
                drop(look_up);
                answer.send_replace(Some(found));
            })
            .map_err(|error| format!("no thread for the name look-up: {error}"))?;
        Ok(answered)
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolver").finish_non_exhaustive()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Running> {
        // A map of receivers is consistent even if a holder panicked.
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One look-up on its thread; removes its entry when it ends, however it ends.
struct LookUp {
    shared: Arc<Shared>,
    name: (String, u16),
    _permit: OwnedSemaphorePermit,
}

impl LookUp {
    fn run(&self) -> Answer {
        let (host, port) = &self.name;
        let found = (self.shared.lookup)(host, *port);
        found.map_err(|error| format!("name look-up of {host} failed: {error}"))
    }
}

impl Drop for LookUp {
    fn drop(&mut self) {
        self.shared.lock().remove(&self.name);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use futures_util::FutureExt;

    use super::*;

    fn local(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    #[tokio::test]
    async fn an_ip_address_needs_no_look_up() {
        let resolver = Resolver::new(Box::new(|_, _| panic!("looked up")));
        for host in ["127.0.0.1", "[::1]"] {
            let found = resolver.resolve(host, 5).now_or_never().unwrap();
            assert_eq!(found.unwrap()[0].port(), 5);
        }
    }

    #[tokio::test]
    async fn each_call_looks_up_anew_and_errors_are_told() {
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = calls.clone();
        let resolver = Resolver::new(Box::new(move |_, port| {
            match counted.fetch_add(1, Ordering::SeqCst) {
                0 => Err(io::Error::other("not yet")),
                1 => Ok(Vec::new()),
                _ => Ok(vec![local(port)]),
            }
        }));
        let failed = resolver.resolve("late", 1).await.unwrap_err();
        assert!(
            failed.contains("late") && failed.contains("not yet"),
            "{failed}"
        );
        assert!(
            resolver
                .resolve("late", 1)
                .await
                .unwrap_err()
                .contains("no address")
        );
        assert_eq!(resolver.resolve("late", 1).await, Ok(vec![local(1)]));
        assert_eq!(calls.load(Ordering::SeqCst), 3);
    }

    #[tokio::test]
    async fn a_name_that_hangs_holds_one_thread_and_no_other_name() {
        let (release, held) = mpsc::channel::<()>();
        let held = Mutex::new(held);
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = calls.clone();
        let resolver = Resolver::new(Box::new(move |host, port| {
            if host == "hangs" {
                counted.fetch_add(1, Ordering::SeqCst);
                let _ = held.lock().unwrap().recv();
            }
            Ok(vec![local(port)])
        }));
        let mut waiting: Vec<_> = (0..1000)
            .map(|_| Box::pin(resolver.resolve("hangs", 1)))
            .collect();
        for one in &mut waiting {
            assert!(one.as_mut().now_or_never().is_none());
        }
        drop(waiting.split_off(500));
        assert_eq!(resolver.resolve("other", 2).await, Ok(vec![local(2)]));
        drop(release);
        for one in waiting {
            assert_eq!(one.await, Ok(vec![local(1)]));
        }
        assert_eq!(calls.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn a_look_up_that_panics_fails_its_attempt_only() {
        let resolver = Resolver::new(Box::new(|host, port| {
            assert_ne!(host, "panics", "on purpose");
            Ok(vec![local(port)])
        }));
        assert!(
            resolver
                .resolve("panics", 1)
                .await
                .unwrap_err()
                .contains("panicked")
        );
        assert!(
            resolver
                .resolve("panics", 1)
                .await
                .unwrap_err()
                .contains("panicked")
        );
        assert_eq!(resolver.resolve("fine", 2).await, Ok(vec![local(2)]));
        assert!(resolver.shared.lock().is_empty());
    }

    #[test]
    fn a_look_up_that_hangs_does_not_hold_the_runtime() {
        let (release, held) = mpsc::channel::<()>();
        let held = Mutex::new(held);
        let resolver = Resolver::new(Box::new(move |_, _| {
            let _ = held.lock().unwrap().recv();
            Ok(Vec::new())
        }));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(async {
            assert!(
                Box::pin(resolver.resolve("hangs", 1))
                    .now_or_never()
                    .is_none()
            );
        });
        // Would never return if the look-up were on the runtime's blocking pool.
        drop(runtime);
        assert!(!resolver.shared.lock().is_empty());
        drop(release);
    }
}
