//! A leader that leads no longer removes nothing, however late its call comes.

use std::path::Path;
use std::time::Duration;

use crate::support::{folder, names};
use bidi_session::tonic::Acceptor;
use examples::compute::{Counter, Node, serve};
use examples::input::{InputPlan, find_files};
use examples::wire::RemoveRequest;
use examples::wire::snapshots_client::SnapshotsClient;
use fencing::tonic::{ChannelLayer, rejection};
use fencing::tower::{ClientLayer, Reason};
use fencing::{Fence, Policy, Watchdog, WatchdogConfig, boot_time};
use tokio::task::JoinSet;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};
use tower_layer::Layer;

const SCOPE: &str = "life/words";

/// Serves worker `w1`, whose files lie in `deltas`, behind `fence`.
async fn worker(folder: &Path, fence: Fence) -> (Channel, JoinSet<()>) {
    let input = folder.join("input");
    std::fs::write(&input, "a few words").unwrap();
    let plan = InputPlan::new(find_files(&[input], None, false).unwrap()).unwrap();
    let counter = Counter::new("w1", std::sync::Arc::new(plan), folder.join("deltas"));
    let acceptor = Acceptor::new("w1", 1, 0).with_scope(SCOPE);
    let node = Node::start_fenced(acceptor, counter, fence, SCOPE.to_owned()).unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let mut serving = JoinSet::new();
    serving.spawn(async move { serve(node, listener).await.unwrap() });
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    (endpoint.connect_lazy(), serving)
}

/// What each leader calls with: its own guard, and so its own token.
struct Leader {
    // In this order: the guard's work ends before its watchdog.
    layer: ChannelLayer,
    _watchdog: Watchdog,
}

impl Leader {
    fn new(token: u64, scope: &str) -> Self {
        let config = WatchdogConfig::default().with_policy(Policy::CancelOnly);
        let watchdog = Watchdog::start(config).unwrap();
        let deadline = boot_time() + Duration::from_secs(600);
        let guard = watchdog.guard(token, deadline).unwrap();
        let layer = ChannelLayer::new(ClientLayer::new(guard).with_scope(scope));
        Self {
            layer,
            _watchdog: watchdog,
        }
    }

    async fn remove(&self, channel: &Channel, names: &[&str]) -> Result<u64, Status> {
        let mut client = SnapshotsClient::new(self.layer.layer(channel.clone()));
        let names = names.iter().map(|&name| name.to_owned()).collect();
        let reply = client.remove(RemoveRequest { names }).await;
        reply.map(|reply| reply.into_inner().removed)
    }
}

#[tokio::test]
async fn a_worker_removes_its_own_files_for_who_leads_and_refuses_all_others() {
    let (_kept, folder) = folder();
    let deltas = folder.join("deltas");
    std::fs::create_dir(&deltas).unwrap();
    for name in ["1-1-w1", "1-2-w1", "1-2-w2", "2-1-w1"] {
        std::fs::write(deltas.join(name), "counts").unwrap();
    }
    let mark = folder.join("w1.mark");
    let (channel, serving) = worker(&folder, Fence::open(&mark).unwrap()).await;
    let (old, new) = (Leader::new(5, SCOPE), Leader::new(6, SCOPE));
    // One that is gone already is no error.
    let removed = old.remove(&channel, &["1-1-w1", "1-9-w1"]).await.unwrap();
    assert_eq!(removed, 1);
    for other in ["1-2-w2", "plan", "../w1.mark", "1-2-../deltas/1-2-w1"] {
        let refused = old.remove(&channel, &["1-2-w1", other]).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{other}");
    }
    assert_eq!(names(&deltas), ["1-2-w1", "1-2-w2", "2-1-w1"]);

    assert_eq!(new.remove(&channel, &["1-2-w1"]).await.unwrap(), 1);
    // It still believes to lead: its guard lets the call out.
    let stale = old.remove(&channel, &["2-1-w1"]).await.unwrap_err();
    let stale = rejection(&stale).unwrap();
    assert_eq!(
        (stale.reason(), stale.highest()),
        (Reason::StaleToken, Some(6))
    );
    let foreign = Leader::new(9, "another life/words");
    let foreign = foreign.remove(&channel, &["2-1-w1"]).await.unwrap_err();
    assert_eq!(rejection(&foreign).unwrap().reason(), Reason::WrongScope);
    let mut bare = SnapshotsClient::new(channel);
    let names_of = vec!["2-1-w1".to_owned()];
    let bare = bare.remove(RemoveRequest { names: names_of }).await;
    let bare = rejection(&bare.unwrap_err()).unwrap();
    assert_eq!(bare.reason(), Reason::MissingToken);
    assert_eq!(names(&deltas), ["1-2-w2", "2-1-w1"]);
    drop(serving);
}

#[tokio::test]
async fn after_its_restart_a_worker_still_refuses_the_leader_of_before() {
    let (_kept, folder) = folder();
    let deltas = folder.join("deltas");
    std::fs::create_dir(&deltas).unwrap();
    std::fs::write(deltas.join("1-1-w1"), "counts").unwrap();
    let mark = folder.join("w1.mark");
    let fence = Fence::open(&mark).unwrap();
    drop(fence.admit(fencing::Token::scoped(SCOPE, 6)).await.unwrap());
    drop(fence);
    let (channel, _serving) = worker(&folder, Fence::open(&mark).unwrap()).await;
    let stale = Leader::new(5, SCOPE).remove(&channel, &["1-1-w1"]).await;
    let stale = rejection(&stale.unwrap_err()).unwrap();
    assert_eq!(stale.reason(), Reason::StaleToken);
    assert_eq!(names(&deltas), ["1-1-w1"]);
}
