//! How often an address is pinged.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ::tonic::Status;

use super::KEEPALIVE_INTERVAL;
use super::failure::{is_too_many_pings, status_text};
use super::goodbye::Goodbye;

/// gRPC's default minimum between pings without data. Other servers than tonic enforce
/// it; one jump there costs one session, steps would cost one each.
const PATIENT_INTERVAL: Duration = Duration::from_secs(300);

/// Addresses that are remembered; beyond that all are forgotten, which costs each of
/// them one session more.
const MAX_ADDRESSES: usize = 4096;

/// Remembers which addresses do not bear the usual pings.
#[derive(Debug, Default)]
pub(super) struct Pings {
    patient: Mutex<HashSet<String>>,
}

/// How the server of one connection takes leave; what it says of pings is remembered.
#[derive(Clone, Debug)]
pub(super) struct Leave {
    pings: Arc<Pings>,
    address: String,
    goodbye: Goodbye,
}

// ===== impl Pings =====

impl Pings {
    pub(super) fn interval(&self, address: &str) -> Duration {
        let patient = self.patient.lock();
        if patient
            .unwrap_or_else(PoisonError::into_inner)
            .contains(address)
        {
            PATIENT_INTERVAL
        } else {
            KEEPALIVE_INTERVAL
        }
    }

    /// Pings an address rarely from here on.
    fn spare(&self, address: &str) {
        let mut patient = self.patient.lock().unwrap_or_else(PoisonError::into_inner);
        if patient.len() >= MAX_ADDRESSES {
            patient.clear();
        }
        if patient.insert(address.to_owned()) {
            tracing::warn!(
                address,
                "the server forbids frequent pings: a dead connection is noticed within minutes only"
            );
        }
    }
}

// ===== impl Leave =====

impl Leave {
    pub(super) fn new(pings: Arc<Pings>, address: String, goodbye: Goodbye) -> Self {
        Self {
            pings,
            address,
            goodbye,
        }
    }

    /// Says why a call or its stream ended: in the server's own words where it has closed
    /// the connection.
    pub(super) fn take(&self, status: &Status) -> String {
        let text = status_text(status);
        let said = self.goodbye.heard();
        if is_too_many_pings(&text) || said.as_deref().is_some_and(is_too_many_pings) {
            self.pings.spare(&self.address);
        }
        match said {
            Some(said) => format!("the server closed the connection ({said}): {text}"),
            None => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leave(pings: &Arc<Pings>, address: &str, text: &str) {
        let leave = Leave::new(Arc::clone(pings), address.to_owned(), Goodbye::default());
        leave.take(&Status::unavailable(text));
    }

    #[test]
    fn an_address_that_complains_is_pinged_rarely_from_then_on() {
        let pings = Arc::default();
        leave(&pings, "a", "reset");
        assert_eq!(pings.interval("a"), KEEPALIVE_INTERVAL);
        leave(&pings, "a", "Too many pings");
        assert_eq!(pings.interval("a"), PATIENT_INTERVAL);
        assert_eq!(pings.interval("b"), KEEPALIVE_INTERVAL);
    }

    #[test]
    fn the_memory_of_addresses_is_bounded() {
        let pings = Arc::default();
        for address in 0..=MAX_ADDRESSES {
            leave(&pings, &address.to_string(), "too many pings");
        }
        assert!(pings.patient.lock().unwrap().len() <= MAX_ADDRESSES);
    }
}
