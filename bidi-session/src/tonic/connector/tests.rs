use super::*;
use crate::worker::WorkerId;

fn attempt() -> Attempt {
    Attempt {
        worker: WorkerId::from("w1"),
        scope: String::new(),
        term: 5,
        pool: 1,
        generation: 2,
        incarnation: None,
    }
}

fn headers(worker: &str, incarnation: u64) -> MetadataMap {
    let mut headers = MetadataMap::new();
    let welcome = Welcome {
        worker: worker.to_owned(),
        incarnation,
    };
    metadata::write(welcome.to_fields(), &mut headers);
    headers
}

#[test]
fn only_the_worker_that_is_meant_is_taken() {
    let mut attempt = attempt();
    assert_eq!(welcome(&headers("w1", 9), &attempt), Ok(9));
    let other = welcome(&headers("w2", 9), &attempt).unwrap_err();
    assert_eq!(other.class, OpenClass::Refused);
    assert!(other.text.contains("w2"), "{other}");
    attempt.incarnation = Some(9);
    assert_eq!(welcome(&headers("w1", 9), &attempt), Ok(9));
    let restarted = welcome(&headers("w1", 10), &attempt).unwrap_err();
    assert_eq!(restarted.class, OpenClass::Refused);
}

#[test]
fn a_server_without_the_handshake_is_told_what_to_do() {
    let plain = welcome(&MetadataMap::new(), &attempt()).unwrap_err();
    assert_eq!(plain.class, OpenClass::Refused);
    assert!(plain.text.contains("Acceptor"), "{plain}");
    assert!(silent(Handshake::Metadata).contains("Acceptor"));
    assert!(silent(Handshake::Off).contains("with_greeting"));
}

#[test]
fn each_refusal_has_its_pace() {
    let class = |refusal: Refusal| refused(&metadata::refused(&refusal), String::new(), 5).class;
    assert_eq!(
        class(Refusal::LowerTerm { highest: 6 }),
        OpenClass::HigherTerm(6)
    );
    // A worker cannot depose the owner by naming a term that is not higher.
    assert_eq!(class(Refusal::LowerTerm { highest: 5 }), OpenClass::Refused);
    assert_eq!(class(Refusal::WrongScope), OpenClass::Refused);
    assert_eq!(
        class(Refusal::WrongIncarnation { actual: 1 }),
        OpenClass::Refused
    );
    assert_eq!(class(Refusal::Malformed(String::new())), OpenClass::Refused);
    assert_eq!(class(Refusal::StaleGeneration), OpenClass::Unreachable);
    assert_eq!(class(Refusal::TermTaken), OpenClass::TermTaken);
}

#[test]
fn a_plain_status_is_retried_by_its_code() {
    for (status, class) in [
        (Status::unavailable("x"), OpenClass::Unreachable),
        (Status::internal("x"), OpenClass::Unreachable),
        (Status::unimplemented("x"), OpenClass::Refused),
        (Status::unauthenticated("x"), OpenClass::Refused),
        (Status::permission_denied("x"), OpenClass::Refused),
    ] {
        assert_eq!(refused(&status, String::new(), 5).class, class, "{status}");
    }
}
