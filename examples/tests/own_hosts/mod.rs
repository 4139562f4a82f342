//! A hosts file of a test's own, which the system's resolver reads: in a mount namespace.

use std::path::PathBuf;
use std::process::Command;

/// Set in the process that has its own.
const HOSTS: &str = "OWN_HOSTS";

/// The names that are known besides those of the system.
pub(crate) struct Hosts(PathBuf);

impl Hosts {
    /// Lets a name stand for this machine.
    pub(crate) fn add(&self, name: &str) {
        // In place: the mount is of the file, not of its name.
        std::fs::write(&self.0, format!("127.0.0.1 localhost {name}\n")).unwrap();
    }
}

/// Runs `inside` in a process of its own, where only the names are known that it adds.
/// `test` is the whole name of the test that calls it.
pub(crate) fn with_own_hosts(test: &str, inside: impl FnOnce(Hosts)) {
    if let Some(hosts) = std::env::var_os(HOSTS) {
        return inside(Hosts(hosts.into()));
    }
    let folder = tempfile::tempdir().unwrap();
    let hosts = folder.path().join("hosts");
    std::fs::write(&hosts, "127.0.0.1 localhost\n").unwrap();
    let script = format!("mount --bind \"${HOSTS}\" /etc/hosts && exec \"$@\"");
    let status = Command::new("unshare")
        .args(["--mount", "sh", "-c", &script, "sh"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(HOSTS, &hosts)
        .status()
        .expect("unshare is missing: install the package util-linux");
    assert!(
        status.success(),
        "in its own mount namespace (needs root): {status}"
    );
}
