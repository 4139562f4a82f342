//! The handshake in gRPC metadata.

use ::tonic::metadata::{MetadataMap, MetadataValue};
use ::tonic::{Code, Status};

use crate::handshake::{Fields, Refusal};

/// Writes fields; the names and values of the handshake are always valid.
pub(super) fn write(fields: Fields, metadata: &mut MetadataMap) {
    for (name, value) in fields {
        // Values are percent-encoded or digits, so this holds for all of them.
        if let Ok(value) = MetadataValue::try_from(value) {
            metadata.insert(name, value);
        }
    }
}

/// Returns a reader of fields; what is no text counts as absent.
pub(super) fn read<'a>(metadata: &'a MetadataMap) -> impl Fn(&'static str) -> Option<&'a str> {
    move |name| metadata.get(name).and_then(|value| value.to_str().ok())
}

/// Turns a refusal into the status that carries it.
pub(super) fn refused(refusal: &Refusal) -> Status {
    let code = match refusal {
        Refusal::LowerTerm { .. }
        | Refusal::WrongScope
        | Refusal::WrongWorker { .. }
        | Refusal::WrongIncarnation { .. } => Code::FailedPrecondition,
        Refusal::StaleGeneration => Code::Aborted,
        Refusal::TermTaken => Code::AlreadyExists,
        Refusal::Malformed(_) => Code::InvalidArgument,
    };
    let mut status = Status::new(code, refusal.to_string());
    write(refusal.to_fields(), status.metadata_mut());
    status
}
