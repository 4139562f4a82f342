//! Wakes one thread at a reading of the boot clock, or at once.

#[cfg(all(any(target_os = "linux", target_os = "android"), not(fencing_portable)))]
mod linux;
#[cfg(any(
    test,
    not(all(any(target_os = "linux", target_os = "android"), not(fencing_portable)))
))]
mod portable;

use std::time::Duration;

#[cfg(all(any(target_os = "linux", target_os = "android"), not(fencing_portable)))]
pub(crate) use linux::Alarm;
#[cfg(not(all(any(target_os = "linux", target_os = "android"), not(fencing_portable))))]
pub(crate) use portable::Alarm;

/// How long a sleep lasts at most where the timer does not count suspend: the
/// sleeper then reads the boot clock again.
const LONGEST_NAP: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::Duration;

    use crate::clock::boot_time;

    const SHORT: Duration = Duration::from_millis(30);
    const LONG: Duration = Duration::from_secs(60);

    macro_rules! contract {
        ($name:ident, $alarm:ty) => {
            mod $name {
                use super::*;

                /// Sleeps as the watchdog does: again until the time has come.
                fn sleep(alarm: &$alarm, until: Duration) {
                    while boot_time() < until {
                        alarm.sleep_until(Some(until));
                    }
                }

                #[test]
                fn an_alarm_rings_at_its_time_and_not_before() {
                    let alarm = <$alarm>::new().unwrap();
                    let until = boot_time() + SHORT;
                    sleep(&alarm, until);
                    assert!(boot_time() < until + LONG / 2);
                    // The second setting is as good as the first.
                    let until = boot_time() + SHORT;
                    sleep(&alarm, until);
                    assert!(boot_time() < until + LONG / 2);
                }

                #[test]
                fn a_time_in_the_past_rings_at_once() {
                    let alarm = <$alarm>::new().unwrap();
                    alarm.sleep_until(Some(Duration::ZERO));
                    alarm.sleep_until(Some(boot_time()));
                }

                #[test]
                fn a_wake_before_the_sleep_is_not_lost() {
                    let alarm = <$alarm>::new().unwrap();
                    let start = boot_time();
                    alarm.wake();
                    alarm.sleep_until(None);
                    alarm.wake();
                    alarm.wake();
                    alarm.sleep_until(Some(start + LONG));
                    assert!(boot_time() < start + LONG / 2);
                }

                #[test]
                fn a_wake_ends_a_sleep_that_has_begun() {
                    let alarm = Arc::new(<$alarm>::new().unwrap());
                    let done = Arc::new(AtomicBool::new(false));
                    let sleeper = thread::spawn({
                        let (alarm, done) = (Arc::clone(&alarm), Arc::clone(&done));
                        move || {
                            while !done.load(Ordering::SeqCst) {
                                alarm.sleep_until(None);
                            }
                        }
                    });
                    done.store(true, Ordering::SeqCst);
                    alarm.wake();
                    sleeper.join().unwrap();
                }
            }
        };
    }

    #[cfg(all(any(target_os = "linux", target_os = "android"), not(fencing_portable)))]
    contract!(linux, crate::alarm::linux::Alarm);
    contract!(portable, crate::alarm::portable::Alarm);
}
