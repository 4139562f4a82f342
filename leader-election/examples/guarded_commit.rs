//! A commit that only the leader can make: an etcd transaction guarded by the leader's key.
//!
//! `cargo run -p leader-election --features etcd --example guarded_commit -- \
//! http://127.0.0.1:2379`

use std::time::Duration;

use etcd_client::{Client, Compare, CompareOp, Error, Txn, TxnOp, TxnOpResponse, TxnResponse};
use leader_election::{Election, ElectionConfig, Leadership, etcd::EtcdElection};
use tokio::time::{sleep, timeout};

/// What became of a commit. Each is final: no repetition that is still on its way can
/// change it.
#[derive(Debug, PartialEq)]
pub(crate) enum Committed {
    /// It landed once, at this revision: what the next commit has to replace.
    Done(i64),
    /// Refused: the leadership is over. An earlier attempt may have landed before the end;
    /// the next leader reads what there is and goes on from it.
    Deposed,
    /// Refused: this leadership goes on, but someone replaced the head first.
    Overtaken,
}

/// What to write, and in place of what.
#[derive(Clone, Debug)]
pub(crate) struct Commit {
    pub(crate) key: String,
    /// Unlike every other commit's: name the token and a number in it.
    pub(crate) value: String,
    /// The mod revision of the value that it replaces, zero where there is none.
    pub(crate) replaces: i64,
}

/// The guard: the leader's key was created by this leadership, and nobody has replaced the
/// head meanwhile.
pub(crate) fn transaction(
    election: &EtcdElection,
    leadership: &Leadership,
    commit: &Commit,
) -> Txn {
    let leader = election.leader_key(leadership);
    let token = i64::try_from(leadership.token()).expect("etcd's revisions fit");
    let key = commit.key.as_str();
    Txn::new()
        .when([
            Compare::create_revision(leader.clone(), CompareOp::Equal, token),
            Compare::mod_revision(key, CompareOp::Equal, commit.replaces),
        ])
        .and_then([TxnOp::put(key, commit.value.as_str(), None)])
        .or_else([TxnOp::get(leader, None), TxnOp::get(key, None)])
}

/// Commits. An attempt without an answer within `limit` may have landed, or land later: the
/// identical transaction is repeated until etcd gives a definite reply. At most one of them
/// lands, since each replaces the same revision. Dropping the future leaves it open.
pub(crate) async fn commit(
    endpoint: &str,
    guarded: &Txn,
    commit: &Commit,
    token: u64,
    limit: Duration,
) -> Result<Committed, Error> {
    loop {
        let attempt = async {
            // A connection of its own: the one before may be stuck.
            let mut client = Client::connect([endpoint], None).await?;
            client.txn(guarded.clone()).await
        };
        match timeout(limit, attempt).await {
            Ok(Ok(response)) => return Ok(settle(&response, commit, token)),
            Ok(Err(Error::GRpcStatus(refused)))
                if [tonic::Code::InvalidArgument, tonic::Code::PermissionDenied]
                    .contains(&refused.code()) =>
            {
                return Err(Error::GRpcStatus(refused));
            }
            // No answer, or one that leaves it open. A read that does not show the commit
            // would be no answer either.
            Ok(Err(_)) | Err(_) => sleep(limit / 10).await,
        }
    }
}

fn settle(response: &TxnResponse, commit: &Commit, token: u64) -> Committed {
    if response.succeeded() {
        return Committed::Done(response.header().map_or(0, |header| header.revision()));
    }
    let mut found = response.op_responses().into_iter().map(|read| match read {
        TxnOpResponse::Get(read) => read.kvs().first().cloned(),
        _ => None,
    });
    let (leader, head) = (found.next().flatten(), found.next().flatten());
    match (leader, head) {
        // An earlier attempt landed.
        (_, Some(head)) if head.value() == commit.value.as_bytes() => {
            Committed::Done(head.mod_revision())
        }
        (Some(leader), _) if u64::try_from(leader.create_revision()) == Ok(token) => {
            Committed::Overtaken
        }
        _ => Committed::Deposed,
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let endpoint = std::env::args()
        .nth(1)
        .ok_or("usage: guarded_commit ENDPOINT")?;
    let config = ElectionConfig::default();
    let election = EtcdElection::connect([endpoint.clone()], "example", config).await?;
    let leadership = election.campaign(b"node-1").await?;
    let key = "example-head".to_owned();
    // Read after the win: nobody else can replace it now.
    let mut client = Client::connect([endpoint.as_str()], None).await?;
    let head = client.get(key.as_str(), None).await?;
    let mut replaces = head
        .kvs()
        .first()
        .map_or(0, etcd_client::KeyValue::mod_revision);
    for number in 1..=3 {
        let value = format!("{}-{number}", leadership.token());
        let next = Commit {
            key: key.clone(),
            value,
            replaces,
        };
        let guarded = transaction(&election, &leadership, &next);
        let (token, limit) = (leadership.token(), Duration::from_secs(2));
        let committed = commit(&endpoint, &guarded, &next, token, limit).await?;
        println!("{}: {committed:?}", next.value);
        let Committed::Done(revision) = committed else {
            break;
        };
        replaces = revision;
    }
    println!("resigned: {}", leadership.resign().await);
    Ok(())
}
