//! The answer to a renewal that arrives after the lease was given back.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use fencing::{GuardState, Policy, Watchdog, WatchdogConfig, boot_time};

use crate::lease_server::{LeaseServer, Lessee, Mode};
use crate::wrong_end::finish;

/// What ends the old leadership while the answer is under way.
#[derive(Clone, Copy, Debug)]
enum End {
    Finish,
    Trip,
    DropAndFinish,
}

/// F10: it revives nothing, though the process has won again, and no renewal follows it.
#[test]
fn f10_an_answer_after_the_end_revives_nothing() {
    let mut held = 0;
    for end in [End::Finish, End::Trip, End::DropAndFinish] {
        let ttl = Duration::from_secs(30);
        let server = LeaseServer::start(ttl);
        let config = WatchdogConfig::for_ttl(ttl).with_policy(Policy::CancelOnly);
        let watchdog = Watchdog::start(config).unwrap();
        let mut lessee = Lessee::connect(&server.address(), ttl);
        let guard = watchdog.guard(1, lessee.renew(1).unwrap()).unwrap();
        let old = guard.clone();

        server.set(Mode::HoldAnswer);
        let renewing = guard.clone();
        let (told, answered) = mpsc::channel();
        let renewal = thread::spawn(move || {
            let deadline = lessee.renew(1).unwrap();
            renewing.extend(deadline);
            told.send(deadline).unwrap();
        });
        server.wait_for(|counts| counts.held == 1);
        match end {
            End::Finish => finish(&guard),
            End::Trip => guard.trip(),
            End::DropAndFinish => {
                drop(guard);
                finish(&old);
            }
        }
        let state = old.state();
        old.check().unwrap_err();
        let asked = server.counts().renewed;
        // Won again, while the answer to the old term is still under way.
        let deadline = boot_time() + ttl;
        let new = watchdog.guard(2, deadline).unwrap();
        assert!(answered.try_recv().is_err(), "nothing was held");

        server.set(Mode::Pass);
        let late = answered.recv_timeout(ttl).unwrap();
        renewal.join().unwrap();
        assert!(late > boot_time(), "the answer was no renewal");
        old.check().unwrap_err();
        old.permit().unwrap_err();
        assert_eq!(old.state(), state, "{end:?}");
        assert_ne!(state, GuardState::Live);
        new.check().unwrap();
        assert_eq!(server.counts().renewed, asked, "renewed after the end");
        held += server.counts().held;
    }
    println!("CASE F10 fault={held}");
    assert_eq!(held, 3);
}
