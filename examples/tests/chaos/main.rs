//! The loop under faults that a seed plans, and a judge that notices what is missing.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod missed_protection;
mod planned_faults;

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
