//! Large and unusual inputs: equal, within bounded memory.
//!
//! `SOAK=1` adds some hundreds of megabytes: the sources in cargo's registry.

use std::io::Write;
use std::path::{Path, PathBuf};

use crate::support::{folder, make_tree, run};

/// Peak memory that no input may exceed, MiB.
const MOST: u64 = 400;

/// Runs it to an equal end and returns its peak memory, MiB, as the kernel has it.
#[track_caller]
fn peak(workers: &str, inputs: &[&Path]) -> u64 {
    let ended = run(["--workers", workers, "--epoch-bytes", "1M"], inputs).expect_code(0);
    let peak = ended.number_after("memory      peak");
    let bytes = ended.number_after("input");
    println!("{bytes} bytes, {workers} workers: peak {peak} MiB");
    assert!(peak < MOST, "{peak} MiB");
    peak
}

#[test]
fn two_million_different_words_fit_with_1_and_with_16_workers() {
    let (_kept, folder) = folder();
    let path = folder.join("words");
    let mut out = std::io::BufWriter::new(std::fs::File::create(&path).unwrap());
    for n in 0..2_000_000_u32 {
        write!(out, "word{n}{}", if n % 9 == 0 { '\n' } else { ' ' }).unwrap();
    }
    out.into_inner().unwrap();
    peak("1", &[&path]);
    peak("16", &[&path]);
}

/// More text of the same words needs no more memory. Of a small tree some MiB are
/// chance; the soak run holds a large one to 5 % alone.
#[test]
fn the_same_tree_twice_needs_the_same_memory() {
    let (_kept, folder) = folder();
    make_tree(&folder, 40_000_000);
    let once = peak("4", &[&folder]);
    let twice = peak("4", &[&folder, &folder]);
    let most = once * 105 / 100 + 8;
    assert!(twice <= most, "{once} MiB, then {twice} MiB");
}

#[test]
fn one_run_of_bytes_without_a_break_is_one_word() {
    let (_kept, folder) = folder();
    let path = folder.join("run");
    std::fs::write(&path, vec![0xC3; 20_000_000]).unwrap();
    let ended = run(["--workers", "3"], &[&path]).expect_code(0);
    assert_eq!(ended.number_after("words"), 1);
}

#[test]
fn only_empty_files_end_equal_with_no_word() {
    let (_kept, folder) = folder();
    for name in ["a", "b"] {
        std::fs::write(folder.join(name), "").unwrap();
    }
    let ended = run([], &[&folder]).expect_code(0);
    assert_eq!(ended.number_after("words"), 0);
}

#[test]
fn the_sources_in_the_registry_end_equal() {
    if std::env::var_os("SOAK").is_none() {
        println!("not run: set SOAK=1");
        return;
    }
    let home = std::env::var_os("CARGO_HOME").map_or_else(
        || PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cargo"),
        PathBuf::from,
    );
    let sources = home.join("registry/src");
    for workers in ["1", "4", "16"] {
        peak(workers, &[&sources]);
    }
    let once = peak("4", &[&sources]);
    let twice = peak("4", &[&sources, &sources]);
    assert!(twice * 100 <= once * 105, "{once} MiB, then {twice} MiB");
}
