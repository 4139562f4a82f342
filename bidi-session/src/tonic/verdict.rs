//! What a status at the end of a stream means to a program.
//!
//! gRPC has no field for it, so the wording of the libraries decides: tonic's (files
//! `codec/decode.rs` and `codec/encode.rs` of the crate, and `DecodeError` of prost),
//! and that of the libraries written in C++, Go and Java for a server.

use ::tonic::{Code, Status};

use crate::connector::{Direction, FailureKind};

/// Who found the fault: tonic's texts are the same on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finder {
    /// This side, which read the worker's message.
    Pool,
    /// The worker, which sent the status.
    Worker,
}

/// Classifies the end of a stream.
pub(super) fn kind_of(status: &Status, finder: Finder) -> FailureKind {
    let read_by_finder = match finder {
        Finder::Pool => Direction::FromWorker,
        Finder::Worker => Direction::ToWorker,
    };
    if let Some((size, limit, is_own)) = too_large(status) {
        let direction = if is_own {
            Direction::FromWorker
        } else {
            read_by_finder
        };
        return FailureKind::TooLarge {
            direction,
            size,
            limit,
        };
    }
    if is_undecodable(status) {
        let direction = read_by_finder;
        return FailureKind::Undecodable { direction };
    }
    FailureKind::Other
}

/// Returns size and limit, and whether the message was refused by its own sender.
fn too_large(status: &Status) -> Option<(usize, usize, bool)> {
    let text = status.message();
    if !matches!(status.code(), Code::OutOfRange | Code::ResourceExhausted) {
        return None;
    }
    for (sign, is_own) in [
        ("decoded message length too large: found ", false),
        ("encoded message length too large: found ", true),
    ] {
        if let Some(numbers) = after(text, sign) {
            let (size, rest) = number(numbers)?;
            let (limit, _) = number(after(rest, " bytes, the limit is: ")?)?;
            return Some((size, limit, is_own));
        }
    }
    for (sign, is_own) in [
        ("eceived message larger than max (", false),
        ("ent message larger than max (", true),
        ("trying to send message larger than max (", true),
    ] {
        if let Some(numbers) = after(text, sign) {
            let (size, rest) = number(numbers)?;
            let (limit, _) = number(after(rest, " vs. ")?)?;
            return Some((size, limit, is_own));
        }
    }
    let (limit, rest) = number(after(text, "message exceeds maximum size ")?)?;
    let (size, _) = number(rest.strip_prefix(": ")?)?;
    Some((size, limit, false))
}

fn is_undecodable(status: &Status) -> bool {
    let text = status.message();
    let signs = [
        "failed to decode Protobuf message",
        "Exception deserializing request",
        "failed to unmarshal the received message",
        "Invalid protobuf byte sequence",
    ];
    let has_code = matches!(status.code(), Code::Internal | Code::Unknown);
    has_code && signs.iter().any(|sign| text.contains(sign))
}

fn after<'a>(text: &'a str, sign: &str) -> Option<&'a str> {
    let start = text.find(sign)? + sign.len();
    text.get(start..)
}

/// Reads the digits at the start of a text.
fn number(text: &str) -> Option<(usize, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit());
    let (digits, rest) = text.split_at(end.unwrap_or(text.len()));
    Some((digits.parse().ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn large(direction: Direction) -> FailureKind {
        FailureKind::TooLarge {
            direction,
            size: 5_242_885,
            limit: 4_194_304,
        }
    }

    #[test]
    fn each_library_s_wording_of_a_message_too_large_is_read() {
        let read = "Error, decoded message length too large: found 5242885 bytes, the limit is: 4194304 bytes";
        let sent = "Error, encoded message length too large: found 5242885 bytes, the limit is: 4194304 bytes";
        let here = kind_of(&Status::out_of_range(read), Finder::Pool);
        assert_eq!(here, large(Direction::FromWorker));
        let there = |status| kind_of(&status, Finder::Worker);
        for text in [
            read,
            "SERVER: Received message larger than max (5242885 vs. 4194304)",
            "grpc: received message larger than max (5242885 vs. 4194304)",
            "gRPC message exceeds maximum size 4194304: 5242885",
        ] {
            let large = large(Direction::ToWorker);
            assert_eq!(there(Status::resource_exhausted(text)), large, "{text}");
        }
        for text in [
            sent,
            "SERVER: Sent message larger than max (5242885 vs. 4194304)",
            "grpc: trying to send message larger than max (5242885 vs. 4194304)",
        ] {
            let large = large(Direction::FromWorker);
            assert_eq!(there(Status::resource_exhausted(text)), large, "{text}");
        }
    }

    #[test]
    fn a_message_that_cannot_be_decoded_is_told_by_its_reader() {
        let status = Status::internal("failed to decode Protobuf message: invalid wire type");
        let kind = |finder| kind_of(&status, finder);
        let direction = Direction::FromWorker;
        assert_eq!(kind(Finder::Pool), FailureKind::Undecodable { direction });
        let direction = Direction::ToWorker;
        assert_eq!(kind(Finder::Worker), FailureKind::Undecodable { direction });
    }

    #[test]
    fn other_texts_mean_nothing() {
        for status in [
            Status::unavailable(
                "decoded message length too large: found 5 bytes, the limit is: 4 bytes",
            ),
            Status::out_of_range("decoded message length too large: found x bytes"),
            Status::out_of_range("decoded message length too large: found 5 bytes, the limit is: "),
            Status::resource_exhausted(
                "received message larger than max (99999999999999999999999 vs. 4)",
            ),
            Status::resource_exhausted("gRPC message exceeds maximum size 4"),
            Status::unavailable("failed to decode Protobuf message"),
            Status::internal("ü"),
        ] {
            assert_eq!(
                kind_of(&status, Finder::Worker),
                FailureKind::Other,
                "{status}"
            );
        }
    }
}
