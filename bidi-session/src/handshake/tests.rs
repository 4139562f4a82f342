use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

fn lookup(fields: Fields) -> HashMap<&'static str, String> {
    fields.into_iter().collect()
}

fn hello() -> Hello {
    Hello {
        scope: String::new(),
        term: 7,
        pool: 0xab,
        generation: 3,
        worker: "w1".to_owned(),
        incarnation: None,
    }
}

fn read(fields: &HashMap<&'static str, String>) -> Result<Hello, String> {
    Hello::from_fields(|name| fields.get(name).map(String::as_str))
}

#[test]
fn a_hello_has_these_bytes() {
    let mut sent = hello();
    sent.scope = "a/b c%".to_owned();
    sent.incarnation = Some(9);
    sent.worker = "wörker 1".to_owned();
    let fields = sent.to_fields();
    assert_eq!(
        fields,
        [
            ("bidi-session-version", "1"),
            ("bidi-session-term", "7"),
            ("bidi-session-pool", "000000000000000000000000000000ab"),
            ("bidi-session-generation", "3"),
            ("bidi-session-worker", "w%C3%B6rker%201"),
            ("bidi-session-scope", "a/b%20c%25"),
            ("bidi-session-incarnation", "9"),
        ]
        .map(|(name, value)| (name, value.to_owned()))
    );
}

#[test]
fn a_hello_with_a_missing_or_bad_header_is_malformed() {
    let whole = lookup(hello().to_fields());
    assert_eq!(read(&whole), Ok(hello()));
    for name in [
        VERSION_HEADER,
        TERM_HEADER,
        POOL_HEADER,
        GENERATION_HEADER,
        WORKER_HEADER,
    ] {
        let mut fields = whole.clone();
        fields.remove(name);
        assert!(read(&fields).unwrap_err().contains(name), "{name}");
    }
    for (name, value) in [
        (VERSION_HEADER, "2"),
        (TERM_HEADER, "0"),
        (TERM_HEADER, "+7"),
        (TERM_HEADER, "18446744073709551616"),
        (POOL_HEADER, "ab"),
        (POOL_HEADER, "000000000000000000000000000000AB"),
        (POOL_HEADER, "+00000000000000000000000000000ab"),
        (GENERATION_HEADER, ""),
        (GENERATION_HEADER, "-1"),
        (WORKER_HEADER, "%"),
        (WORKER_HEADER, "%FF"),
        (WORKER_HEADER, "%+1"),
        (SCOPE_HEADER, "%zz"),
        (INCARNATION_HEADER, "x"),
    ] {
        let mut fields = whole.clone();
        fields.insert(name, value.to_owned());
        assert!(read(&fields).is_err(), "{name}: {value}");
    }
}

#[test]
fn an_answer_without_the_handshake_is_told_from_a_bad_one() {
    assert_eq!(Welcome::from_fields(|_| None), Ok(None));
    let bad = Welcome::from_fields(|name| (name == VERSION_HEADER).then_some("1"));
    assert!(bad.unwrap_err().contains(WORKER_HEADER));
    let other = Welcome::from_fields(|name| (name == VERSION_HEADER).then_some("9"));
    assert!(other.unwrap_err().contains("version 9"));
}

#[test]
fn every_refusal_survives_the_wire() {
    for sent in [
        Refusal::LowerTerm { highest: u64::MAX },
        Refusal::WrongScope,
        Refusal::WrongWorker {
            actual: "ä b".to_owned(),
        },
        Refusal::WrongIncarnation { actual: 0 },
        Refusal::StaleGeneration,
        Refusal::TermTaken,
        Refusal::Malformed("why".to_owned()),
    ] {
        let fields = lookup(sent.to_fields());
        let get = |name| fields.get(name).map(String::as_str);
        assert_eq!(Refusal::from_fields(get, "why"), Some(sent));
    }
}

#[test]
fn an_unknown_refusal_stays_a_refusal_and_a_plain_status_is_none() {
    let later = Refusal::from_fields(|name| (name == REFUSED_HEADER).then_some("later"), "text");
    assert_eq!(later, Some(Refusal::Malformed("text".to_owned())));
    let no_number = |name| (name == REFUSED_HEADER).then_some("lower-term");
    let broken = Refusal::from_fields(no_number, "text");
    assert_eq!(broken, Some(Refusal::Malformed("text".to_owned())));
    assert_eq!(Refusal::from_fields(|_| None, "text"), None);
}

proptest! {
    #[test]
    fn any_hello_survives_the_wire(
        scope in ".{0,40}",
        worker in ".{0,40}",
        term in 1_u64..,
        pool: u128,
        generation: u64,
        incarnation: Option<u64>,
    ) {
        let sent = Hello { scope, term, pool, generation, worker, incarnation };
        let fields = lookup(sent.to_fields());
        for value in fields.values() {
            prop_assert!(value.bytes().all(|byte| byte.is_ascii_graphic()), "{value}");
        }
        prop_assert_eq!(read(&fields), Ok(sent));
    }

    #[test]
    fn no_text_makes_the_decoder_panic(text in "\\PC{0,80}") {
        let _ = percent_decode(&text);
        let _ = pool_id(&text);
        let _ = number("name", &text);
    }

    #[test]
    fn any_headers_are_read_or_refused_in_a_short_text(
        values in proptest::collection::vec(proptest::option::of(value()), 9),
        message in "\\PC{0,600}",
    ) {
        let names = [
            VERSION_HEADER, SCOPE_HEADER, TERM_HEADER, POOL_HEADER, GENERATION_HEADER,
            WORKER_HEADER, INCARNATION_HEADER, REFUSED_HEADER, HIGHEST_HEADER,
        ];
        let get = |name| {
            let at = names.iter().position(|known| *known == name);
            at.and_then(|at| values[at].as_deref())
        };
        match Hello::from_fields(get) {
            Ok(hello) => prop_assert!(hello.term > 0),
            Err(text) => prop_assert!(text.len() <= MAX_TEXT_BYTES, "{text}"),
        }
        if let Err(text) = Welcome::from_fields(get) {
            prop_assert!(text.len() <= MAX_TEXT_BYTES, "{text}");
        }
        let refusal = Refusal::from_fields(get, &message);
        prop_assert_eq!(refusal.is_some(), get(REFUSED_HEADER).is_some());
        if let Some(refusal) = refusal {
            let text = refusal.to_string();
            prop_assert!(text.len() <= 4 * MAX_TEXT_BYTES, "{text}");
            // Whoever hands it on says the same.
            let fields = lookup(refusal.to_fields());
            let again = |name| fields.get(name).map(String::as_str);
            let Refusal::Malformed(_) = refusal else {
                prop_assert_eq!(Refusal::from_fields(again, &message), Some(refusal));
                return Ok(());
            };
        }
    }
}

/// Longest text about one header, as long as it is ASCII.
const MAX_TEXT_BYTES: usize = 128;

/// A header's value: something that is nearly right, or any visible ASCII.
fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("1".to_owned()),
        Just("lower-term".to_owned()),
        Just("wrong-worker".to_owned()),
        Just("wrong-incarnation".to_owned()),
        "[0-9]{0,22}",
        "[0-9a-f]{31,33}",
        "(%[0-9a-fA-F]{0,2}|[a-z]){0,80}",
        "[!-~]{0,600}",
    ]
}
