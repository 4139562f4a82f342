//! The loop under faults that a seed plans, and a judge that notices what is missing.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod missed_protection;
mod planned_faults;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

/// Runs `chaos` with bounds for a machine that is busy with other things.
fn chaos(args: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_chaos"));
    let output = command.args(["--slack", "30s"]).args(args).output();
    let output = output.unwrap();
    (output.status.code(), text(&output))
}

fn text(output: &Output) -> String {
    let err = String::from_utf8_lossy(&output.stderr);
    format!("{}{err}", String::from_utf8_lossy(&output.stdout))
}

#[test]
fn what_is_missing_on_the_machine_is_named_before_anything_is_started() {
    // Where an ordinary user may run it.
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let chaos = folder.path().join("chaos");
    std::fs::copy(env!("CARGO_BIN_EXE_chaos"), &chaos).unwrap();
    let mut as_nobody = Command::new("setpriv");
    as_nobody
        .args(["--reuid", "65534", "--clear-groups", "--"])
        .arg(&chaos);
    let mut without_tools = Command::new(&chaos);
    without_tools.env("PATH", "/nowhere");
    for (mut command, advice) in [
        (as_nobody, "start it as root"),
        (without_tools, "install the package"),
    ] {
        let output = command.output().unwrap();
        let said = text(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(advice), "{said}");
    }
}
