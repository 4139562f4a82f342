//! A host for each process: a network namespace with a cable to etcd's network and one to
//! the workers', which can be cut without a word to anyone.
//!
//! All of it lives in the network and mount namespaces of this process, see [`enter`].

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

/// Where etcd is reached, in each namespace.
pub(super) const ETCD_HOST: &str = "10.77.0.1";

/// The networks, each a bridge.
const NETWORKS: [(Network, &str, &str); 2] = [
    (Network::Etcd, "etcd0", "10.77.0"),
    (Network::Work, "work0", "10.78.0"),
];

/// One of the two networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Network {
    /// Between the processes and etcd.
    Etcd,
    /// Between leaders and workers.
    Work,
}

/// Which packets vanish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Way {
    /// Those that the host sends.
    From,
    /// Those that are sent to it.
    To,
}

/// The networks and the names that resolve.
#[derive(Debug)]
pub struct Networks {
    hosts: PathBuf,
}

/// The programs that are run, with their packages.
const TOOLS: [(&str, &str); 9] = [
    ("unshare", "util-linux"),
    ("nsenter", "util-linux"),
    ("setpriv", "util-linux"),
    ("mount", "mount"),
    ("sh", "dash"),
    ("ip", "iproute2"),
    ("tc", "iproute2"),
    ("strace", "strace"),
    ("etcd", "etcd-server"),
];

/// Says what is missing on this machine, if something is.
fn missing() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("networks of its own take root: start it as root".to_owned());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let is_there = |tool: &str| folders.iter().any(|folder| folder.join(tool).is_file());
    let is_named = |tool: &str| tool == "etcd" && std::env::var_os("ETCD").is_some();
    let (tool, package) = TOOLS
        .into_iter()
        .find(|(tool, _)| !is_there(tool) && !is_named(tool))?;
    Some(format!("{tool} is missing: install the package {package}"))
}

/// Replaces this process by the same program in namespaces of its own; returns only where
/// that fails.
pub fn enter(args: impl IntoIterator<Item = std::ffi::OsString>) -> io::Error {
    if let Some(missing) = missing() {
        return io::Error::other(missing);
    }
    let own = match std::env::current_exe() {
        Ok(own) => own,
        Err(error) => return error,
    };
    let error = Command::new("unshare")
        .args(["--net", "--mount", "--"])
        .arg(own)
        .args(args)
        .exec();
    let text = format!("unshare cannot be run ({error}): install the package util-linux");
    io::Error::new(error.kind(), text)
}

// ===== impl Networks =====

impl Networks {
    /// Makes both networks; `hosts` becomes the file of names.
    ///
    /// # Errors
    ///
    /// With what is missing: a package, or the rights of root.
    pub fn new(hosts: PathBuf) -> io::Result<Self> {
        fs::write(&hosts, "127.0.0.1 localhost\n")?;
        run("mount", &["--bind", &hosts.to_string_lossy(), "/etc/hosts"])?;
        fs::create_dir_all("/run/netns")?;
        run("mount", &["-t", "tmpfs", "none", "/run/netns"])?;
        ip("link set lo up")?;
        for (_, bridge, prefix) in NETWORKS {
            ip(&format!("link add {bridge} type bridge"))?;
            ip(&format!("address add {prefix}.1/24 dev {bridge}"))?;
            ip(&format!("link set {bridge} up"))?;
        }
        Ok(Self { hosts })
    }

    /// Adds a host with this last number of its addresses.
    ///
    /// # Errors
    ///
    /// Those of the program `ip`.
    pub fn add_host(&self, host: &str, number: u8) -> io::Result<()> {
        ip(&format!("netns add {host}"))?;
        ip(&format!("-n {host} link set lo up"))?;
        for (network, bridge, prefix) in NETWORKS {
            let (own, port) = (network.own_end(), network.far_end(host));
            ip(&format!(
                "link add {port} type veth peer name {own} netns {host}"
            ))?;
            ip(&format!("link set {port} master {bridge} up"))?;
            ip(&format!(
                "-n {host} address add {prefix}.{number}/24 dev {own}"
            ))?;
            ip(&format!("-n {host} link set {own} up"))?;
        }
        Ok(())
    }

    /// Gives a host another address in the workers' network, and takes the old one away.
    ///
    /// # Errors
    ///
    /// Those of the program `ip`.
    pub fn move_host(&self, host: &str, from: u8, to: u8) -> io::Result<()> {
        // In this order: a second address of a network goes with the first.
        ip(&format!("-n {host} address del 10.78.0.{from}/24 dev work"))?;
        ip(&format!("-n {host} address add 10.78.0.{to}/24 dev work"))
    }

    /// Lets packets vanish from now on.
    ///
    /// # Errors
    ///
    /// Those of the program `tc`.
    pub fn cut(&self, host: &str, network: Network, way: Way) -> io::Result<()> {
        tc(host, network, way, "qdisc add dev", "root blackhole").map(drop)
    }

    /// Lets packets pass again.
    ///
    /// # Errors
    ///
    /// Those of the program `tc`.
    pub fn mend(&self, host: &str, network: Network, way: Way) -> io::Result<()> {
        tc(host, network, way, "qdisc del dev", "root").map(drop)
    }

    /// Returns how many packets have vanished since the cut, as the kernel counts them.
    ///
    /// # Errors
    ///
    /// Those of the program `tc`.
    pub fn vanished(&self, host: &str, network: Network, way: Way) -> io::Result<u64> {
        let shown = tc(host, network, way, "-s qdisc show dev", "")?;
        let dropped = shown.split_once("(dropped ").map(|(_, rest)| rest);
        let dropped = dropped.and_then(|rest| rest.split(',').next());
        Ok(dropped.and_then(|n| n.parse().ok()).unwrap_or(0))
    }

    /// Makes a name resolve from now on.
    ///
    /// # Errors
    ///
    /// Those of the file.
    pub fn add_name(&self, name: &str, number: u8) -> io::Result<()> {
        // In place: what is mounted is the file, not its name.
        let mut hosts = fs::read_to_string(&self.hosts)?;
        hosts += &format!("10.78.0.{number} {name}\n");
        fs::write(&self.hosts, hosts)
    }
}

// ===== impl Network =====

impl Network {
    fn own_end(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::Work => "work",
        }
    }

    fn far_end(self, host: &str) -> String {
        format!("{}-{host}", &self.own_end()[..1])
    }
}

fn tc(host: &str, network: Network, way: Way, before: &str, after: &str) -> io::Result<String> {
    let far = network.far_end(host);
    let mut args = match way {
        Way::From => vec!["-n", host],
        Way::To => Vec::new(),
    };
    args.extend(before.split(' '));
    args.push(match way {
        Way::From => network.own_end(),
        Way::To => &far,
    });
    args.extend(after.split(' ').filter(|word| !word.is_empty()));
    run("tc", &args)
}

fn ip(args: &str) -> io::Result<()> {
    run("ip", &args.split(' ').collect::<Vec<_>>()).map(drop)
}

fn run(program: &str, args: &[&str]) -> io::Result<String> {
    let output = Command::new(program).args(args).output();
    let output = output.map_err(|error| {
        let text = format!("{program} cannot be run ({error}): install iproute2 and util-linux");
        io::Error::new(error.kind(), text)
    })?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        let text = format!("{program} {} (needs root): {}", args.join(" "), why.trim());
        return Err(io::Error::other(text));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
