//! Texts of errors: the whole chain, short.

use std::error::Error;

use ::tonic::Status;

/// Joins an error and its sources; a source that its error repeats is left out.
pub(super) fn describe(error: &dyn Error) -> String {
    let mut text = error.to_string();
    append_sources(&mut text, error);
    text
}

/// Says whether a peer says by this that it was pinged too often.
pub(super) fn is_too_many_pings(text: &str) -> bool {
    let text = text.to_lowercase().replace('_', " ");
    if text.contains("too many pings") {
        return true;
    }
    // ENHANCE_YOUR_CALM, and the HTTP/2 library's name for it, may be for pings; where
    // the peer has said what for, it was for that.
    let is_calm = ["enhance your calm", "excessive load"]
        .iter()
        .any(|sign| text.contains(sign));
    is_calm && !REASONS.iter().any(|reason| text.contains(reason))
}

/// How it looks when a peer has said why it wants calm: as the HTTP/2 library shows it,
/// and as people write it.
const REASONS: [&str; 2] = ["(b\"", "enhance your calm: "];

/// Returns a status's code, message and sources.
pub(super) fn status_text(status: &Status) -> String {
    let mut text = format!("{:?}: {}", status.code(), status.message());
    append_sources(&mut text, status);
    text
}

fn append_sources(text: &mut String, error: &dyn Error) {
    let mut source = error.source();
    while let Some(error) = source {
        let cause = error.to_string();
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
        source = error.source();
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn a_text_tells_each_cause_once() {
        let inner = io::Error::new(io::ErrorKind::ConnectionRefused, "refused");
        let outer = io::Error::other(inner);
        assert_eq!(describe(&outer), "refused");
        let status = Status::from_error(Box::new(io::Error::other("reset")));
        assert_eq!(status_text(&status), "Unknown: reset");
    }

    #[test]
    fn too_many_pings_is_recognized_however_it_is_written() {
        for text in ["Too many pings", "too_many_pings", "ENHANCE_YOUR_CALM"] {
            assert!(is_too_many_pings(text), "{text}");
        }
        let load = "detected excessive load generating behavior";
        for (text, is_it) in [
            ("too many requests".to_owned(), false),
            ("ENHANCE_YOUR_CALM: header_list_too_large".to_owned(), false),
            (load.to_owned(), true),
            (format!("{load} (b\"too_many_pings\")"), true),
            (format!("{load} (b\"header_list_way_too_large\")"), false),
            (format!("{load} (b\"too_many_internal_resets\")"), false),
            ("ENHANCE_YOUR_CALM: too_many_pings".to_owned(), true),
            (
                "ENHANCE_YOUR_CALM: header_list_way_too_large".to_owned(),
                false,
            ),
        ] {
            assert_eq!(is_too_many_pings(&text), is_it, "{text}");
        }
    }
}
