//! The numbers of a lease as text, each with its formula.

use std::fmt::Write;
use std::time::Duration;

use super::Lease;

/// Returns what the durations of a lease amount to, as text.
#[must_use]
pub fn sheet(lease: &Lease) -> String {
    let mut text = String::new();
    section(&mut text, "settings", &settings(lease));
    let head = "instants, from the sending of the last renewal that was confirmed";
    section(&mut text, head, &instants(lease));
    section(&mut text, "tolerated without a loss", &tolerated(lease));
    section(
        &mut text,
        "until another one leads, at worst",
        &failover(lease),
    );
    text.push_str(NOTES);
    text
}

const NOTES: &str = "\
Formulas: renew_every + 2 * renew_timeout + grace + abort_budget <= 0.999 ttl is what
ElectionConfig::validate demands; the instants are those of fencing's Guard and Watchdog.
store_delay: etcd looks for ended leases every half second, the next candidate confirms its
win by one more renewal, and a loaded machine takes its time; the tests allow 2 s. A store
that restarts or changes its own leader starts all leases anew: add the time it was away.
";

type Row = (&'static str, String, String);

fn row(name: &'static str, value: Duration, formula: &str) -> Row {
    (name, seconds(value), formula.to_owned())
}

fn settings(lease: &Lease) -> Vec<Row> {
    let last = row(
        "store_delay",
        lease.store_delay,
        "how late the store ends a lease",
    );
    vec![
        row("ttl", lease.ttl, "length of the lease"),
        row("renew_every", lease.renew_every, "ttl / 3 by default"),
        row("renew_timeout", lease.renew_timeout, "ttl / 6 by default"),
        row(
            "grace",
            lease.grace,
            "ttl / 5 by default, less for a short ttl",
        ),
        row(
            "abort_budget",
            lease.abort_budget,
            "max(200 ms, ttl / 20) by default",
        ),
        row("takeover_delay", lease.takeover_delay, "none by default"),
        last,
    ]
}

fn instants(lease: &Lease) -> Vec<Row> {
    let rows = [
        ("next renewal", lease.renew_every, "renew_every"),
        (
            "cancel point",
            lease.cancel_at(),
            "abort point - grace: nothing starts, work is cancelled",
        ),
        (
            "abort point",
            lease.abort_at(),
            "deadline - abort_budget: nothing finishes, exit code 75",
        ),
        (
            "kill point",
            lease.kill_at(),
            "deadline - 20 ms: the kernel ends the process",
        ),
        ("deadline", lease.deadline(), "0.999 ttl: is_valid is false"),
        (
            "lease end",
            lease.ttl,
            "ttl, at the store, from when it got the renewal",
        ),
    ];
    rows.map(|(name, at, formula)| row(name, at, formula))
        .into()
}

fn tolerated(lease: &Lease) -> Vec<Row> {
    let count = lease.lost_renewals();
    let renewals = "floor((cancel point - renew_every) / renew_timeout) - 1".to_owned();
    let pause = "cancel point - renew_every - renew_timeout, whenever it begins";
    vec![
        row(
            "late answers",
            lease.renew_timeout,
            "renew_timeout, each of them",
        ),
        ("lost renewals", format!("{count} in a row"), renewals),
        row("store away", lease.pause(), pause),
        row("process paused", lease.pause(), "the same"),
        row(
            "drift of clocks",
            lease.margin(),
            "ttl / 1000: 0.1 % in rate, over one lease",
        ),
    ]
}

fn failover(lease: &Lease) -> Vec<Row> {
    let rows = [
        (
            "told to stop",
            lease.after_resign(),
            "work that goes on (to the abort point) + 2 renew_timeout + takeover_delay",
        ),
        (
            "killed, cut off",
            lease.after_crash(),
            "ttl + store_delay + takeover_delay",
        ),
        (
            "  nobody works",
            lease.idle(),
            "the one above - cancel point, where a leader is cut off",
        ),
        (
            "answers cut off",
            lease.after_lost_answers(),
            "killed + abort point: renewals count at the store until the end",
        ),
    ];
    rows.map(|(name, at, formula)| row(name, at, formula))
        .into()
}

fn section(text: &mut String, head: &str, rows: &[Row]) {
    let _ = writeln!(text, "{head}");
    for (name, value, formula) in rows {
        let _ = writeln!(text, "  {name:<16}{value:>10}   {formula}");
    }
    text.push('\n');
}

/// A duration in seconds, to the millisecond.
fn seconds(duration: Duration) -> String {
    let text = format!("{:.3}", duration.as_secs_f64());
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text} s")
}
