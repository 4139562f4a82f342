use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;

use super::*;
use crate::config::WatchdogConfig;

/// The holder of the lock may be stopped: whoever needs it would wait as long.
#[test]
fn checks_renewals_losses_and_the_ladder_wait_for_no_lock() {
    let ms = Duration::from_millis;
    let record = Record::new(
        1,
        ms(10_000),
        WatchdogConfig::default().timing(),
        Clock::Simulated(Arc::new(move || ms(5_000))),
        None,
        Arc::new(DeadMan::none()),
    );
    let locked = record.permits();
    record.check().unwrap();
    record.check_finish().unwrap();
    assert_eq!(record.remaining(), ms(2_500));
    record.extend(ms(12_000));
    assert_eq!(record.advance(), (GuardState::Live, Some(ms(9_500))));
    record.extend(Duration::ZERO);
    assert_eq!(record.advance(), (GuardState::Lost, None));
    assert_eq!(record.try_count(), None);
    drop(locked);
}

/// A renewal is stopped between its look at the clock and its change; meanwhile
/// the cancel point passes and a check refuses.
#[test]
fn a_refusal_in_the_middle_of_a_renewal_holds() {
    let ms = Duration::from_millis;
    let record: Arc<OnceLock<Record>> = Arc::default();
    let (is_renewing, late) = (
        Arc::new(AtomicBool::default()),
        Arc::new(AtomicBool::default()),
    );
    let refusals = Arc::new(AtomicU64::new(0));
    let clock = Clock::Simulated(Arc::new({
        let (record, is_renewing) = (Arc::clone(&record), Arc::clone(&is_renewing));
        let (late, refusals) = (Arc::clone(&late), Arc::clone(&refusals));
        move || {
            if is_renewing.swap(false, Ordering::SeqCst) {
                late.store(true, Ordering::SeqCst);
                record.get().unwrap().check().unwrap_err();
                refusals.fetch_add(1, Ordering::SeqCst);
                return ms(7_499);
            }
            ms(if late.load(Ordering::SeqCst) {
                7_500
            } else {
                0
            })
        }
    }));
    let timing = WatchdogConfig::default().timing();
    let record = record.get_or_init(|| {
        Record::new(
            1,
            ms(10_000),
            timing,
            clock,
            None,
            Arc::new(DeadMan::none()),
        )
    });
    is_renewing.store(true, Ordering::SeqCst);
    record.extend(ms(20_000));
    assert_eq!(refusals.load(Ordering::SeqCst), 1);
    record.check().unwrap_err();
}
