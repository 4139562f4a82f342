use std::collections::BTreeMap;

use super::*;
use crate::count::{Counts, plain_count};
use crate::input::find_files;

fn tree() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let text = "the quick brown fox_1 jumps over the lazy dog\n".repeat(4000);
    std::fs::write(folder.path().join("text"), &text).unwrap();
    std::fs::write(folder.path().join("empty"), "").unwrap();
    std::fs::write(folder.path().join("one_run"), vec![b'x'; 300_000]).unwrap();
    let binary: Vec<u8> = (0..100_000_u32)
        .map(|n| (n.wrapping_mul(n) >> 3) as u8)
        .collect();
    std::fs::write(folder.path().join("binary"), binary).unwrap();
    folder
}

fn plan(folder: &Path) -> Arc<InputPlan> {
    let found = find_files(&[folder.to_owned()], None, false).unwrap();
    Arc::new(InputPlan::new(found).unwrap())
}

#[test]
fn slices_cover_every_file_and_cut_no_word() {
    let folder = tree();
    let plan = plan(folder.path());
    let mut seen: BTreeMap<u32, u64> = BTreeMap::new();
    let slices: Vec<&Slice> = plan.plan.shards.iter().flat_map(|s| &s.slices).collect();
    for slice in &slices {
        let end = seen.entry(slice.source).or_default();
        assert_eq!(*end, slice.start, "slices of a file follow each other");
        *end = slice.end;
        let bytes = std::fs::read(source_path(&plan.plan.sources[slice.source as usize])).unwrap();
        if slice.start > 0 {
            assert!(!is_word_byte(bytes[slice.start as usize]));
        }
    }
    for (index, source) in (0..).zip(&plan.plan.sources) {
        assert_eq!(seen.get(&index).copied().unwrap_or(0), source.len);
    }
    assert!(slices.len() > 20, "{} slices", slices.len());
    let all: u64 = plan.start().iter().map(|p| plan.remaining(p)).sum();
    assert_eq!(all, plan.total_bytes());
}

/// Reads with odd buffer sizes and hands the position to a new reader after each chunk.
#[test]
fn readers_that_hand_over_at_any_chunk_count_like_the_plain_count() {
    let folder = tree();
    let plan = plan(folder.path());
    let plain = plain_count(plan.files(), || true).unwrap();
    for size in [1009, 64 * 1024] {
        let (mut counts, mut buffer) = (Counts::default(), vec![0; size]);
        for mut position in plan.start() {
            let mut before = plan.remaining(&position);
            while let Some(mut reader) = plan.reader(&position).filter(|r| !r.is_done()) {
                let chunk = reader.read(&mut buffer, |word| counts.add(word)).unwrap();
                before -= chunk.len() as u64;
                position = reader.position();
                assert_eq!(plan.remaining(&position), before);
            }
            assert_eq!(before, 0);
        }
        assert_eq!(counts.sorted(), plain.sorted());
    }
}

#[test]
fn a_changed_input_is_refused_by_name() {
    let folder = tree();
    let plan = plan(folder.path());
    let found = || find_files(&[folder.path().to_owned()], None, false).unwrap();
    plan.check_unchanged(&found()).unwrap();
    std::fs::write(folder.path().join("text"), "short").unwrap();
    let error = plan.check_unchanged(&found()).unwrap_err();
    assert!(error.to_string().contains("text"), "{error}");
    let mut buffer = vec![0; 1 << 20];
    let ends = plan.start().into_iter().any(|position| {
        let mut reader = plan.reader(&position).unwrap();
        while !reader.is_done() {
            if let Err(error) = reader.read(&mut buffer, |_| ()) {
                assert!(error.to_string().contains("text"), "{error}");
                return true;
            }
        }
        false
    });
    assert!(
        ends,
        "a file that became shorter is an error, not a smaller count"
    );
    std::fs::remove_file(folder.path().join("empty")).unwrap();
    let error = plan.check_unchanged(&found()).unwrap_err();
    assert!(matches!(error, InputError::OtherFiles));
}

#[test]
fn a_position_of_no_shard_has_no_reader() {
    let folder = tree();
    let plan = plan(folder.path());
    let position = Position {
        shard: 10_000,
        ..Position::default()
    };
    assert!(plan.reader(&position).is_none());
    assert_eq!(plan.remaining(&position), 0);
}
