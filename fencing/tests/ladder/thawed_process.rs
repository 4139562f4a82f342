//! A process that is stopped between its check and its write, and goes on too late.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use fencing::{Backstop, EXIT_CODE, Fence, Policy, Watchdog, WatchdogConfig, boot_time};

use crate::child;

const OLD: u64 = 1;
const NEW: u64 = 2;
const LEAD: Duration = Duration::from_millis(1_500);
/// Between check and write: most processes are stopped here.
const STEP: Duration = Duration::from_millis(5);

/// Grace 400 ms, abort budget 200 ms: the cancel point is 900 ms after the beginning.
fn config() -> WatchdogConfig {
    WatchdogConfig::for_ttl(Duration::from_secs(2)).with_backstop(Backstop::Off)
}

/// One look at the guard: when it began, and whether it allowed.
struct Look {
    at: Duration,
    is_ok: bool,
}

/// Both outlive whoever writes them.
fn note(looks: &mut File, look: &Look) {
    let mut line = [0; 9];
    let at = u64::try_from(look.at.as_nanos()).unwrap();
    line[..8].copy_from_slice(&at.to_le_bytes());
    line[8] = u8::from(look.is_ok);
    looks.write_all(&line).unwrap();
}

fn looks(bytes: &[u8]) -> Vec<Look> {
    let look = |line: &[u8]| Look {
        at: Duration::from_nanos(u64::from_le_bytes(line[..8].try_into().unwrap())),
        is_ok: line[8] == 1,
    };
    bytes.chunks_exact(9).map(look).collect()
}

pub(crate) fn write_behind_a_check() {
    let mut looks = File::create(child::shared("looks")).unwrap();
    let mut server = TcpStream::connect(child::hear("address")).unwrap();
    let policy = match child::hear("policy").as_str() {
        "Abort" => Policy::Abort,
        _ => Policy::CancelOnly,
    };
    let watchdog = Watchdog::start(config().with_policy(policy)).unwrap();
    let deadline = boot_time() + LEAD;
    let guard = watchdog.guard(OLD, deadline).unwrap();
    child::tell_deadline(deadline);
    loop {
        let at = boot_time();
        let is_ok = guard.check().is_ok();
        note(&mut looks, &Look { at, is_ok });
        if !is_ok {
            break;
        }
        thread::sleep(STEP);
        server.write_all(&OLD.to_le_bytes()).unwrap();
        server.read_exact(&mut [0]).unwrap();
    }
    if policy == Policy::Abort {
        crate::block();
    }
}

/// A file whose server verifies tokens.
struct FileServer {
    fence: Fence,
    file: Mutex<File>,
    refused: Mutex<u64>,
}

impl FileServer {
    fn write(&self, token: u64) -> bool {
        let Ok(admission) = self.fence.admit_blocking(token) else {
            *self.refused.lock().unwrap() += 1;
            return false;
        };
        self.file
            .lock()
            .unwrap()
            .write_all(&token.to_le_bytes())
            .unwrap();
        drop(admission);
        true
    }

    fn serve(&self, listener: &TcpListener) {
        let (mut stream, _) = listener.accept().unwrap();
        let mut token = [0; 8];
        while stream.read_exact(&mut token).is_ok() {
            let is_done = self.write(u64::from_le_bytes(token));
            // The writer may be gone.
            let _ = stream.write_all(&[u8::from(is_done)]);
        }
    }
}

/// What the kernel says of this process: `T` when it is stopped, `Z` when it has ended.
fn state(pid: u32) -> char {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(") ").unwrap().1.chars().next().unwrap()
}

#[derive(Debug, Default)]
struct Seen {
    stops: u64,
    refused: u64,
    late_looks: u64,
}

/// None if the machine was so busy that the process was stopped too late.
fn freeze_and_thaw(policy: Policy, pause: Duration) -> Option<Seen> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let running = child::start("write_behind_a_check");
    let server = Arc::new(FileServer {
        fence: Fence::new(),
        file: Mutex::new(File::create(running.path("written")).unwrap()),
        refused: Mutex::default(),
    });
    running.tell("policy", &format!("{policy:?}"));
    running.tell("address", &listener.local_addr().unwrap().to_string());
    let serving = {
        let server = Arc::clone(&server);
        thread::spawn(move || server.serve(&listener))
    };
    let deadline = running.deadline();
    thread::sleep(pause);
    running.signal("STOP");
    while state(running.child.id()) != 'T' {
        if state(running.child.id()) == 'Z' {
            return None;
        }
        thread::yield_now();
    }
    thread::sleep((deadline + Duration::from_millis(100)).saturating_sub(boot_time()));
    // The standby takes over while the old leader is stopped.
    assert!(server.write(NEW));
    let thawed_at = boot_time();
    running.signal("CONT");
    let written = File::open(running.path("written")).unwrap();
    let (ended, noted) = running.wait_and_read("looks");
    serving.join().unwrap();
    match policy {
        Policy::Abort => assert_eq!(ended.status.code(), Some(EXIT_CODE), "{ended:?}"),
        _ => assert_eq!(ended.status.code(), Some(0), "{ended:?}"),
    }
    assert_in_order(written);
    let mut seen = Seen {
        stops: 1,
        refused: *server.refused.lock().unwrap(),
        late_looks: 0,
    };
    for look in looks(&noted) {
        if look.at >= thawed_at {
            assert!(!look.is_ok, "a check after waking allowed");
            seen.late_looks += 1;
        } else if !look.is_ok {
            return None;
        }
    }
    Some(seen)
}

/// No write of the old token is behind one of the newer.
fn assert_in_order(mut written: File) {
    let mut tokens = Vec::new();
    written.read_to_end(&mut tokens).unwrap();
    let tokens = tokens
        .chunks_exact(8)
        .map(|token| u64::from_le_bytes(token.try_into().unwrap()));
    let tokens: Vec<u64> = tokens.collect();
    assert!(tokens.is_sorted(), "{tokens:?}");
    assert_eq!(tokens.last(), Some(&NEW));
}

/// F02 without the kernel's timer: the check refuses, and what was between check and write
/// is refused by the resource.
#[test]
fn f02_a_thawed_process_is_refused_by_its_guard_and_by_the_resource() {
    let mut all = Seen::default();
    for batch in 0..child::rounds(1, 17) {
        thread::scope(|scope| {
            let rounds = [0, 1, 2, 3, 4, 5].map(|round| {
                scope.spawn(move || {
                    let pause = Duration::from_micros(1_700) * (40 * round + batch * 7);
                    let policy = if round % 2 == 0 {
                        Policy::Abort
                    } else {
                        Policy::CancelOnly
                    };
                    let seen = (0..20).find_map(|_| freeze_and_thaw(policy, pause));
                    (policy, seen.expect("the machine is too busy"))
                })
            });
            for round in rounds {
                let (policy, seen) = round.join().unwrap();
                // One that is ended at once may not come to it.
                let is_due = policy == Policy::CancelOnly;
                assert!(seen.late_looks == 1 || !is_due, "{seen:?}");
                all.stops += seen.stops;
                all.refused += seen.refused;
                all.late_looks += seen.late_looks;
            }
        });
    }
    println!("{all:?}");
    println!("CASE F02 fault={}", all.stops);
    assert!(all.stops > 0 && all.refused > 0);
}
