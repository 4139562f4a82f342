//! Whatever a seed plans, everything holds; each fault has a count that proves it.

use crate::chaos;

/// Returns how many seeds, the first of them, and for how long each.
fn extent() -> (u64, u64, &'static str) {
    let first = std::env::var("SEED").map_or(1, |seed| seed.parse().unwrap());
    match std::env::var_os("SOAK") {
        Some(_) => (first, 20, "120s"),
        None => (first, 1, "60s"),
    }
}

#[test]
fn the_faults_of_a_seed_violate_nothing() {
    let (first, seeds, length) = extent();
    for seed in first..first + seeds {
        let (code, text) = chaos(&["--seed", &seed.to_string(), "--for", length]);
        println!("{text}");
        assert_eq!(code, Some(0), "SEED={seed} plans the same again\n{text}");
        assert!(text.contains("equal to a plain count"), "{text}");
        let faults = text.lines().filter(|line| line.contains("next commit"));
        println!("CASE chaos fault={}", faults.count());
    }
}

#[test]
fn what_cannot_be_run_is_one_line_and_code_2() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "x").unwrap();
    let (code, text) = chaos(&["--out", folder.path().to_str().unwrap()]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("is not empty: name a new folder"), "{text}");
    let (code, text) = chaos(&["--only", "nothing"]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("slow-disk"), "{text}");
}
