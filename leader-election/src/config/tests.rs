use proptest::prelude::*;

use super::*;

#[test]
fn default_is_for_ten_seconds() {
    let config = ElectionConfig::default();
    assert_eq!(config.ttl, Duration::from_secs(10));
    assert_eq!(config.reserve, Duration::from_millis(2500));
    assert_eq!(config.takeover_delay, Duration::ZERO);
    config.validate().unwrap();
}

#[test]
fn error_text_has_the_numbers_of_the_inequality() {
    let config =
        ElectionConfig::for_ttl(Duration::from_secs(3)).with_reserve(Duration::from_millis(2500));
    let error = config.validate().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let text = error.to_string();
    for number in ["1s", "500ms", "2.5s", "4.5s", "2.997s", "3s"] {
        assert!(text.contains(number), "{number} is missing in: {text}");
    }
}

#[test]
fn the_exact_bound_is_accepted_and_one_nanosecond_more_is_not() {
    let config = ElectionConfig::for_ttl(Duration::from_secs(6))
        .with_reserve(Duration::from_millis(6000 - 6 - 2000 - 2000));
    config.validate().unwrap();
    let over = config.reserve + Duration::from_nanos(1);
    assert!(config.with_reserve(over).validate().is_err());
}

#[test]
fn durations_out_of_bounds_are_refused() {
    let ok = ElectionConfig::default;
    for bad in [
        ok().with_ttl(Duration::ZERO),
        ok().with_ttl(Duration::MAX),
        ok().with_renew_every(Duration::ZERO),
        ok().with_renew_every(Duration::MAX),
        ok().with_renew_timeout(Duration::ZERO),
        ok().with_renew_timeout(Duration::MAX),
        ok().with_reserve(Duration::MAX),
        ok().with_takeover_delay(Duration::MAX),
    ] {
        let error = bad.validate().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{bad:?}");
    }
}

proptest! {
    #[test]
    fn every_ttl_in_bounds_derives_valid_settings(millis in 100_u64..=86_400_000) {
        ElectionConfig::for_ttl(Duration::from_millis(millis)).validate().unwrap();
    }
}
