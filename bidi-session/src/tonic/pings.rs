//! How often an address is pinged.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ::tonic::Status;

use super::KEEPALIVE_INTERVAL;
use super::failure::{is_too_many_pings, whole_status};

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

    /// Looks at how a stream ended.
    pub(super) fn note(&self, address: &str, status: &Status) {
        if is_too_many_pings(&whole_status(status)) {
            self.spare(address);
        }
    }

    /// Looks at what a server said when it closed a connection.
    pub(super) fn note_goodbye(&self, address: &str, said: &str) {
        if is_too_many_pings(said) {
            self.spare(address);
        }
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_complains_is_pinged_rarely_from_then_on() {
        let pings = Pings::default();
        pings.note("a", &Status::unavailable("reset"));
        assert_eq!(pings.interval("a"), KEEPALIVE_INTERVAL);
        pings.note("a", &Status::unavailable("Too many pings"));
        assert_eq!(pings.interval("a"), PATIENT_INTERVAL);
        assert_eq!(pings.interval("b"), KEEPALIVE_INTERVAL);
        pings.note_goodbye("b", "NO_ERROR");
        assert_eq!(pings.interval("b"), KEEPALIVE_INTERVAL);
        pings.note_goodbye("b", "ENHANCE_YOUR_CALM: too_many_pings");
        assert_eq!(pings.interval("b"), PATIENT_INTERVAL);
    }

    #[test]
    fn the_memory_of_addresses_is_bounded() {
        let pings = Pings::default();
        for address in 0..=MAX_ADDRESSES {
            pings.note(&address.to_string(), &Status::unavailable("too many pings"));
        }
        assert!(pings.patient.lock().unwrap().len() <= MAX_ADDRESSES);
    }
}
