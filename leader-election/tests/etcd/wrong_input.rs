//! Hunts input that no retry can help and that is retried, or is told in words that do
//! not say what to do.

use std::{error::Error as _, time::Duration};

use leader_election::{
    Election, Error, ErrorKind, MAX_VALUE_BYTES,
    etcd::{EtcdElection, EtcdOptions},
};
use tokio::time::timeout;

use crate::{
    config, join, lead,
    proxy::Proxy,
    server::{Etcd, free_port},
    soon,
    users::{RIGHT, as_root, user, with_users},
};

async fn connect(endpoint: String, options: EtcdOptions) -> Result<EtcdElection, Error> {
    soon(EtcdElection::connect_with(
        [endpoint],
        "e",
        config(5),
        options,
    ))
    .await
}

/// The text with those of all its causes.
pub(crate) fn told(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[tokio::test]
async fn an_unreachable_etcd_is_told_and_waited_for() {
    let endpoint = format!("http://127.0.0.1:{}", free_port());
    let election = connect(endpoint.clone(), EtcdOptions::default())
        .await
        .unwrap();
    for error in [
        election.scope().await.unwrap_err(),
        election.candidates().await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        let told = told(&error);
        assert!(told.contains("start etcd there"), "{told}");
        assert!(told.contains(&endpoint), "{told}");
    }
    let campaign = timeout(Duration::from_secs(1), election.campaign(b"a")).await;
    assert!(campaign.is_err(), "a campaign waits for etcd");
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_credentials_are_refused_once_and_say_what_to_do() {
    let etcd = with_users("300").await;
    as_root(&etcd, &format!("user add other:{RIGHT}"));
    let proxy = Proxy::start(etcd.port()).await;
    let cases = [
        (Some(("candidate", "wrong")), "correct them"),
        (Some(("nobody", RIGHT)), "correct them"),
        (None, "give a user and a password"),
        // A user without the role.
        (Some(("other", RIGHT)), "the role needs to read and write"),
    ];
    for (name, advice) in cases {
        let options = match name {
            Some((name, password)) => user(name, password),
            None => EtcdOptions::default(),
        };
        let before = proxy.connections();
        let error = connect(proxy.endpoint(), options).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{name:?}");
        assert!(error.to_string().contains(advice), "{}", told(&error));
        // Asked once, not in a loop.
        let asked = proxy.connections() - before;
        assert!(asked <= 2, "{name:?}: {asked} connections");
    }
    let options = user("candidate", RIGHT);
    let election = connect(etcd.endpoint(), options).await.unwrap();
    assert!(lead(&election, b"a").await.is_valid());
}

/// Credentials that were right when the election was joined, and no longer are.
#[tokio::test(flavor = "multi_thread")]
async fn a_campaign_ends_when_its_credentials_are_no_longer_right() {
    let etcd = with_users("300").await;
    let options = user("candidate", RIGHT);
    let election = connect(etcd.endpoint(), options).await.unwrap();
    as_root(&etcd, "user revoke-role candidate candidate");
    let error = soon(election.campaign(b"a")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{}", told(&error));
}

/// The endpoint says https, and nothing here can speak TLS: a password must not go out
/// in plain text.
#[tokio::test]
async fn https_without_tls_is_refused_before_anything_is_sent() {
    let etcd = Etcd::start().await;
    let proxy = Proxy::start(etcd.port()).await;
    let https = proxy.endpoint().replace("http:", "https:");
    let options = EtcdOptions::default().with_user("user", "secret");
    let error = connect(https, options).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{}", told(&error));
    assert!(error.to_string().contains("tls_config"), "{}", told(&error));
    assert_eq!(proxy.connections(), 0);
}

/// A user within the address, and a scheme that is none of ours.
#[tokio::test]
async fn an_endpoint_that_is_not_meant_so_is_refused_and_its_password_not_shown() {
    for endpoint in [
        "http://user:secret@127.0.0.1:1",
        "htps://127.0.0.1:1",
        "ftp://127.0.0.1:1",
    ] {
        let error = connect(endpoint.to_owned(), EtcdOptions::default()).await;
        let error = error.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{}", told(&error));
        assert!(!told(&error).contains("secret"), "{}", told(&error));
    }
}

#[tokio::test]
async fn a_list_in_one_text_is_refused_and_several_texts_are_not() {
    let list = String::from("http://127.0.0.1:1,http://127.0.0.1:2");
    let error = connect(list.clone(), EtcdOptions::default()).await;
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("several endpoints"), "{error}");
    // Borrowed for a while only.
    let several: Vec<&str> = list.split(',').collect();
    assert!(EtcdElection::connect(several, "e", config(5)).await.is_ok());
    let first = [&*list[..18].to_owned()];
    assert!(EtcdElection::connect(first, "e", config(5)).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_of_1_mib_is_published_and_one_more_byte_is_refused() {
    let etcd = Etcd::start().await;
    let election = join(&etcd, 30).await;
    let longest = vec![b'v'; MAX_VALUE_BYTES];
    let too_long = vec![b'v'; MAX_VALUE_BYTES + 1];
    let error = election.campaign(&too_long).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("1048576 are allowed"), "{error}");
    let leadership = lead(&election, &longest).await;
    assert_eq!(election.candidates().await.unwrap()[0].value, longest);
    leadership.proclaim(b"short").await.unwrap();
    leadership.proclaim(&longest).await.unwrap();
    let error = leadership.proclaim(&too_long).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(leadership.is_valid());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_longer_than_this_etcd_takes_is_told_and_leaves_nothing() {
    let etcd = Etcd::start_with(&["--max-request-bytes", "10000"]).await;
    let election = join(&etcd, 5).await;
    // Refused by its store, and by its gRPC server.
    for len in [20_000, MAX_VALUE_BYTES] {
        let error = soon(election.campaign(&vec![b'v'; len])).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{}", told(&error));
        assert!(error.to_string().contains("shorter value"), "{error}");
    }
    let mut client = etcd.client().await;
    let gone = async {
        while !client.leases().await.unwrap().leases().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    soon(gone).await;
}
