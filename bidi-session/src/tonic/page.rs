//! The handshake's page against the source: a name on one side only is a mistake.

use std::collections::BTreeSet;

use super::connector::HANDSHAKE_TIMEOUT;
use super::metadata::refused;
use crate::handshake::{Refusal, VERSION};

const PAGE: &str = include_str!("../../docs/handshake.md");
const SOURCE: &str = include_str!("../handshake/mod.rs");

/// Returns the values of the source's constants of a kind.
fn constants(kind: &str) -> BTreeSet<&'static str> {
    let lines = SOURCE.lines().filter(|line| line.contains("const "));
    let of_kind = lines.filter(|line| line.contains(kind) && line.contains(": &str = \""));
    of_kind.filter_map(|line| line.split('"').nth(1)).collect()
}

/// Returns the page's words, as they stand between what is no part of a name.
fn words() -> BTreeSet<&'static str> {
    let is_part = |byte: char| byte.is_ascii_lowercase() || byte == '-';
    let words = PAGE.split(|byte| !is_part(byte));
    words.map(|word| word.trim_end_matches('-')).collect()
}

/// Returns the first two cells of the table of refusals.
fn rows() -> Vec<(&'static str, &'static str)> {
    let (_, table) = PAGE
        .split_once("| word | status |")
        .expect("the table of refusals");
    let rows = table
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    rows.map(|row| {
        let mut cells = row.split('|').map(str::trim).skip(1);
        let word = cells.next().expect("a word").trim_matches('`');
        (word, cells.next().expect("a status"))
    })
    .collect()
}

#[test]
fn the_page_and_the_source_have_the_same_headers() {
    let headers = constants("_HEADER");
    assert_eq!(headers.len(), 9, "{headers:?}");
    let named: BTreeSet<_> = words()
        .into_iter()
        .filter(|word| word.starts_with("bidi-session-"))
        .collect();
    assert_eq!(named, headers);
    assert!(PAGE.contains(&format!("# The session handshake, version {VERSION}\n")));
}

#[test]
fn the_page_and_the_source_have_the_same_refusals_with_the_same_statuses() {
    let shown: BTreeSet<_> = rows().into_iter().map(|(word, _)| word).collect();
    assert_eq!(
        shown,
        constants("REFUSED_")
            .into_iter()
            .filter(|word| !word.starts_with("bidi"))
            .collect()
    );
    for refusal in [
        Refusal::LowerTerm { highest: 2 },
        Refusal::WrongScope,
        Refusal::WrongWorker {
            actual: "w2".to_owned(),
        },
        Refusal::WrongIncarnation { actual: 2 },
        Refusal::StaleGeneration,
        Refusal::TermTaken,
        Refusal::Malformed("why".to_owned()),
    ] {
        let status = refused(&refusal);
        let word = status
            .metadata()
            .get("bidi-session-refused")
            .expect("a word");
        let expected = format!("{:?} ({})", status.code(), status.code() as i32);
        let row = rows().into_iter().find(|(shown, _)| word == shown);
        assert_eq!(row.map(|row| row.1), Some(&*expected), "{refusal:?}");
    }
}

#[test]
fn the_page_and_the_source_have_the_same_numbers() {
    let scope = format!("at most {} bytes", crate::config::MAX_SCOPE_BYTES);
    let interval = super::KEEPALIVE_INTERVAL.as_secs();
    let timeout = super::KEEPALIVE_TIMEOUT.as_secs();
    let config = crate::PoolConfig::new(1);
    let slowly = format!("*Slowly* is every {} s", config.blocked_retry.as_secs());
    let backoff = format!(
        "after {} ms, doubled up to {} s",
        config.backoff_base.as_millis(),
        config.backoff_cap.as_secs()
    );
    let attempt = format!("within {} s", config.attempt_timeout.as_secs());
    for claim in [
        scope,
        format!("keepalive {interval} s + {timeout} s"),
        slowly,
        backoff,
        attempt,
        format!("gives up after {} s", HANDSHAKE_TIMEOUT.as_secs()),
    ] {
        assert!(PAGE.contains(&claim), "the page does not say: {claim}");
    }
}
