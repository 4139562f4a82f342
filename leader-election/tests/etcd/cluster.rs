//! Three members of one etcd, any of which can be cut off from the others.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::server::{Etcd, Flags, free_port};

const SIZE: usize = 3;
/// By this header etcd's members tell each other who they are.
const FROM: &str = "x-server-from: ";
const HANG: Duration = Duration::from_secs(60);

/// A cluster; its members' connections to each other lead through the test.
pub(crate) struct Cluster {
    pub(crate) members: Vec<Etcd>,
    /// The member that is cut off: its place and its id in hex.
    cut: watch::Sender<Option<(usize, String)>>,
    /// How many connections were ended or refused.
    severed: watch::Sender<u64>,
    _wires: JoinSet<()>,
}

impl Cluster {
    pub(crate) async fn start() -> Self {
        let (cut, severed) = (watch::Sender::new(None), watch::Sender::new(0));
        let mut wires = JoinSet::new();
        let mut all = Vec::new();
        for place in 0..SIZE {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
            let advertised = listener.local_addr().expect("bound").port();
            let (port, peer_port) = (free_port(), free_port());
            let wire = Wire {
                place,
                peer_port,
                cut: cut.clone(),
                severed: severed.clone(),
            };
            wires.spawn(wire.run(listener));
            all.push((port, peer_port, advertised));
        }
        let members = all.iter().enumerate();
        let members =
            members.map(|(place, (.., peer))| format!("m{place}=http://127.0.0.1:{peer}"));
        let members = members.collect::<Vec<_>>().join(",");
        let all = all.into_iter().enumerate();
        let start = all.map(|(place, (port, peer_port, advertised_peer_port))| {
            Etcd::spawn(Flags {
                name: format!("m{place}"),
                port,
                peer_port,
                advertised_peer_port,
                members: members.clone(),
                scheme: "http",
                extra: Vec::new(),
            })
        });
        let mut members: Vec<Etcd> = start.collect();
        for member in &mut members {
            assert!(member.serves().await, "a member does not serve");
        }
        Self {
            members,
            cut,
            severed,
            _wires: wires,
        }
    }

    pub(crate) fn endpoints(&self) -> Vec<String> {
        self.members.iter().map(Etcd::endpoint).collect()
    }

    /// Returns the place of the member that leads, once they agree on one.
    pub(crate) async fn leader(&self) -> usize {
        let found = async {
            loop {
                for (place, member) in self.members.iter().enumerate() {
                    if let Some((own, leader)) = ids(member).await
                        && own == leader
                    {
                        return place;
                    }
                }
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(HANG, found).await.expect("etcd elects a leader")
    }

    /// Cuts one member off from the others, not from clients.
    pub(crate) async fn cut_off(&self, place: usize) {
        let (own, _) = ids(&self.members[place]).await.expect("the member serves");
        self.cut.send_replace(Some((place, format!("{own:x}"))));
    }

    /// Connections between members that were ended or refused.
    pub(crate) fn severed(&self) -> u64 {
        *self.severed.borrow()
    }
}

/// A member's id and its leader's, as it tells them; none while it does not answer.
async fn ids(member: &Etcd) -> Option<(u64, u64)> {
    let asked = async {
        let client = etcd_client::Client::connect([member.endpoint()], None).await;
        let status = client.ok()?.status().await.ok()?;
        Some((status.header()?.member_id(), status.leader()))
    };
    timeout(Duration::from_secs(1), asked).await.ok()?
}

/// The way to one member.
#[derive(Clone)]
struct Wire {
    place: usize,
    peer_port: u16,
    cut: watch::Sender<Option<(usize, String)>>,
    severed: watch::Sender<u64>,
}

impl Wire {
    async fn run(self, listener: TcpListener) {
        let mut links = JoinSet::new();
        loop {
            tokio::select! {
                accepted = listener.accept() => {
                    let Ok((stream, _)) = accepted else { return };
                    links.spawn(self.clone().link(stream));
                }
                Some(_) = links.join_next() => {}
            }
        }
    }

    async fn link(self, mut from: TcpStream) {
        let mut first = vec![0; 16 * 1024];
        let Ok(count @ 1..) = from.read(&mut first).await else {
            return;
        };
        let head = String::from_utf8_lossy(&first[..count]).to_lowercase();
        let sender = head.split_once(FROM).map(|(_, rest)| rest);
        let sender = sender.and_then(|rest| rest.split(['\r', '\n']).next());
        let Ok(mut to) = TcpStream::connect(("127.0.0.1", self.peer_port)).await else {
            return;
        };
        let forward = async {
            to.write_all(&first[..count]).await?;
            copy_bidirectional(&mut from, &mut to).await
        };
        let mut cut = self.cut.subscribe();
        let concerns = |cut: &Option<(usize, String)>| {
            cut.as_ref()
                .is_some_and(|(place, id)| *place == self.place || Some(id.as_str()) == sender)
        };
        tokio::select! {
            biased;
            _ = cut.wait_for(concerns) => self.severed.send_modify(|count| *count += 1),
            _ = forward => {}
        }
    }
}
