use std::time::Duration;

use clap::Parser;
use fencing::{Policy, Watchdog};
use leader_election::{Election, MemoryElection, simulated_time};
use tokio::time::sleep;

use super::*;

const MS: Duration = Duration::from_millis(1);

fn args(line: &str) -> LeaseArgs {
    LeaseArgs::try_parse_from(line.split_whitespace()).unwrap()
}

fn lease(line: &str) -> Lease {
    Lease::new(&args(line)).unwrap()
}

#[test]
fn a_lease_of_ten_seconds_has_the_documented_instants() {
    let lease = lease("lease-calculator --ttl 10s");
    let ms = |duration: Duration| duration.as_millis();
    assert_eq!(ms(lease.cancel_at()), 7_490);
    assert_eq!(ms(lease.abort_at()), 9_490);
    assert_eq!(ms(lease.kill_at()), 9_970);
    assert_eq!(ms(lease.deadline()), 9_990);
    assert_eq!(ms(lease.margin()), 10);
    assert_eq!(lease.lost_renewals(), 1);
    assert_eq!(ms(lease.pause()), 2_490);
    assert_eq!(ms(lease.after_crash()), 12_000);
    assert_eq!(ms(lease.idle()), 4_510);
    assert_eq!(ms(lease.after_lost_answers()), 21_490);
    assert_eq!(ms(lease.after_resign()), 12_823);
}

#[test]
fn the_sheet_shows_every_number_with_its_formula() {
    let text = sheet(&lease("lease-calculator --ttl 10s"));
    for line in [
        "cancel point        7.49 s   abort point - grace",
        "kill point          9.97 s   deadline - 20 ms",
        "lost renewals   1 in a row   floor(",
        "killed, cut off       12 s   ttl + store_delay + takeover_delay",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    assert!(text.lines().all(|line| line.len() <= 110), "{text}");
}

/// A leader under a simulated guard whose store is away for a while: is it still one?
async fn outlives(lease: &Lease, line: &str, begin: Duration, length: Duration) -> bool {
    let mut config = WatchdogConfig::for_ttl(args(line).ttl).with_policy(Policy::CancelOnly);
    config.grace = lease.grace;
    config.abort_budget = lease.abort_budget;
    let (watchdog, _simulation) = Watchdog::simulated(config, simulated_time).unwrap();
    let mut config = ElectionConfig::for_ttl(lease.ttl).with_reserve(watchdog.reserve());
    config.renew_every = lease.renew_every;
    config.renew_timeout = lease.renew_timeout;
    let election = MemoryElection::simulated(config, 1);
    let leadership = election.campaign(b"a").await.unwrap();
    assert_eq!(leadership.deadline() - simulated_time(), lease.deadline());
    let guard = watchdog
        .guard(leadership.token(), leadership.deadline())
        .unwrap();
    let renewed = guard.clone();
    leadership.follow(move |deadline| renewed.extend(deadline));
    sleep(begin).await;
    election.cut(leadership.token());
    sleep(length).await;
    election.heal(leadership.token());
    sleep(lease.ttl).await;
    guard.check().is_ok()
}

#[tokio::test(start_paused = true)]
async fn an_outage_as_long_as_is_tolerated_costs_nothing_whenever_it_begins() {
    for line in [
        "lease-calculator --ttl 10s",
        "lease-calculator --ttl 3s --grace 100ms",
        "lease-calculator --ttl 10s --renew-every 2s --renew-timeout 1s --grace 2500ms",
        "lease-calculator --ttl 30s --renew-every 4s --renew-timeout 3s --grace 9s",
    ] {
        let lease = lease(line);
        for share in 0..=20 {
            let begin = lease.renew_every * share / 20;
            // A renewal that is sent in the very instant of the cancel point is too late.
            let length = lease.pause() - MS;
            assert!(
                outlives(&lease, line, begin, length).await,
                "{line}, from {begin:?}"
            );
        }
        // At worst, as a renewal is due, one that lasts to the cancel point is a loss.
        let (begin, rest) = (
            lease.renew_every - MS,
            lease.cancel_at() - lease.renew_every,
        );
        assert!(
            !outlives(&lease, line, begin, rest + 2 * MS).await,
            "{line}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_guard_refuses_at_the_cancel_point_and_is_lost_at_the_abort_point() {
    let lease = lease("lease-calculator --ttl 5s --grace 300ms --abort-budget 250ms");
    let mut config = WatchdogConfig::for_ttl(lease.ttl);
    (config.grace, config.abort_budget) = (lease.grace, lease.abort_budget);
    let (watchdog, simulation) = Watchdog::simulated(config, simulated_time).unwrap();
    let begin = simulated_time();
    let guard = watchdog.guard(7, begin + lease.deadline()).unwrap();
    let permit = guard.permit().unwrap();
    sleep(lease.cancel_at() - MS).await;
    guard.check().unwrap();
    sleep(MS).await;
    guard.check().unwrap_err();
    sleep(lease.grace - MS).await;
    permit.check().unwrap();
    sleep(MS).await;
    permit.check().unwrap_err();
    simulation.tick();
    assert_eq!(simulated_time() - begin, lease.abort_at());
}

#[test]
fn what_does_not_fit_is_told_with_a_setting_that_does() {
    for (line, option) in [
        ("lease-calculator --ttl 10s --grace 5s", "--ttl"),
        ("lease-calculator --ttl 10s --grace 5s", "--grace"),
        ("lease-calculator --ttl 400ms", "--ttl"),
        ("lease-calculator --ttl 60ms", "--ttl"),
        ("lease-calculator --ttl 10s --renew-every 8s", "--ttl"),
        ("lease-calculator --ttl 10s --abort-budget 9s", "--ttl"),
        (
            "lease-calculator --ttl 3s --renew-every 800ms --grace 2s",
            "--grace",
        ),
    ] {
        let misfit = Lease::new(&args(line)).unwrap_err().to_string();
        let (_, advice) = misfit.split_once(&format!("{option} to ")).expect(&misfit);
        let (value, _) = advice.split_once("ms").unwrap();
        let value: u64 = value.parse().unwrap();
        let with = |value: u64| {
            let mut args = args(line);
            let value = Duration::from_millis(value);
            match option {
                "--ttl" => args.ttl = value,
                _ => args.grace = Some(value),
            }
            Lease::new(&args)
        };
        with(value).unwrap();
        let beyond = if option == "--ttl" {
            value - 1
        } else {
            value + 1
        };
        with(beyond).unwrap_err();
    }
}

#[test]
fn what_no_lease_helps_is_told_too() {
    let told = |line: &str| Lease::new(&args(line)).unwrap_err().to_string();
    let budget = told("lease-calculator --abort-budget 20ms");
    assert!(
        budget.ends_with("200ms is what a loaded machine needs"),
        "{budget}"
    );
    let renewals = told("lease-calculator --ttl 10s --renew-every 24m --renew-timeout 1439m");
    assert!(
        renewals.ends_with("shorten --renew-every, --renew-timeout or --abort-budget"),
        "{renewals}"
    );
    for line in [
        "lease-calculator --ttl 0s",
        "lease-calculator --ttl 10",
        "lease-calculator 10s",
    ] {
        LeaseArgs::try_parse_from(line.split_whitespace()).unwrap_err();
    }
}
