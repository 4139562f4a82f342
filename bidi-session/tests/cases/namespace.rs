//! Two hosts on one network, each a network namespace, and cables that can be cut.

use std::net::{IpAddr, Ipv4Addr};
use std::process::Command as Process;

/// Where the pool and the worker are.
pub(crate) const POOL: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 99, 0, 1));
pub(crate) const WORKER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 99, 0, 2));

/// A pool's namespace, a worker's, and one with the bridge between them.
pub(crate) struct Network {
    pub(crate) pool: String,
    pub(crate) worker: String,
    bridge: String,
}

/// Where a network is cut, without a word to anyone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    Both,
    ToWorker,
    ToPool,
}

// ===== impl Network =====

impl Network {
    pub(crate) fn new(name: &str) -> Self {
        let space = |end: &str| format!("bs{}{name}{end}", std::process::id());
        let network = Self {
            pool: space("p"),
            worker: space("w"),
            bridge: space("b"),
        };
        for space in network.spaces() {
            run(&format!("ip netns add {space}"));
            run(&format!("ip -n {space} link set lo up"));
        }
        let bridge = &network.bridge;
        run(&format!("ip -n {bridge} link add bridge0 type bridge"));
        run(&format!("ip -n {bridge} link set bridge0 up"));
        for (space, port, address) in [
            (&network.pool, "toPool", POOL),
            (&network.worker, "toWorker", WORKER),
        ] {
            run(&format!(
                "ip -n {space} link add eth type veth peer name {port} netns {bridge}"
            ));
            run(&format!("ip -n {bridge} link set {port} master bridge0 up"));
            run(&format!("ip -n {space} address add {address}/24 dev eth"));
            run(&format!("ip -n {space} link set eth up"));
        }
        network
    }

    /// Lets packets vanish from now on.
    pub(crate) fn cut(&self, cut: Cut) {
        let Self { bridge, .. } = self;
        run(&match cut {
            Cut::Both => format!("bridge -n {bridge} link set dev toWorker state 0"),
            Cut::ToWorker | Cut::ToPool => {
                let sender = self.sender(cut);
                format!("tc -n {sender} qdisc add dev eth root blackhole")
            }
        });
    }

    /// Returns how many packets have vanished, as the kernel counts them.
    ///
    /// A bridge counts none that a closed port drops: there it is the packets that have
    /// come to that port, of which those since the cut have vanished.
    pub(crate) fn vanished(&self, cut: Cut) -> u64 {
        if cut == Cut::Both {
            let counter = "/sys/class/net/toWorker/statistics/rx_packets";
            let shown = run(&format!("ip netns exec {} cat {counter}", self.bridge));
            return shown.trim().parse().unwrap();
        }
        let sender = self.sender(cut);
        let shown = run(&format!("tc -n {sender} -s qdisc show dev eth"));
        let (_, dropped) = shown.split_once("(dropped ").unwrap();
        let (dropped, _) = dropped.split_once(',').unwrap();
        dropped.parse().unwrap()
    }

    /// Returns the namespace whose packets a one-way cut drops.
    fn sender(&self, cut: Cut) -> &str {
        match cut {
            Cut::ToPool => &self.worker,
            Cut::Both | Cut::ToWorker => &self.pool,
        }
    }

    fn spaces(&self) -> [&str; 3] {
        [&self.pool, &self.worker, &self.bridge]
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for space in self.spaces() {
            // What is in it goes with it.
            let _ = Process::new("ip").args(["netns", "del", space]).status();
        }
    }
}

fn run(command: &str) -> String {
    let mut words = command.split(' ');
    let program = words.next().unwrap();
    let output = Process::new(program).args(words).output();
    let output = output.unwrap_or_else(|error| {
        panic!("{program} cannot be run ({error}): install the package iproute2")
    });
    assert!(
        output.status.success(),
        "`{command}` failed; this test makes network namespaces, which takes root: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}
