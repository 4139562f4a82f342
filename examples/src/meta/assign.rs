//! Which worker holds which shard.

use std::collections::BTreeMap;

use bidi_session::WorkerId;

use crate::input::InputPlan;
use crate::wire::Position;

/// Spreads the unfinished shards over `workers`, the largest first, each to who has least
/// of those with a free slot; where there is none, the shard waits.
///
/// A worker that would get nothing is left out; with nothing left to read the
/// first worker alone gets an empty share, so that there is somebody to ask.
pub(super) fn assign(
    plan: &InputPlan,
    positions: &[Position],
    workers: &[(WorkerId, usize)],
) -> BTreeMap<WorkerId, Vec<Position>> {
    let mut open: Vec<(u64, &Position)> = positions
        .iter()
        .map(|position| (plan.remaining(position), position))
        .filter(|(left, _)| *left > 0)
        .collect();
    open.sort_by_key(|(left, position)| (std::cmp::Reverse(*left), position.shard));
    let mut loads: Vec<(u64, Vec<Position>)> = vec![(0, Vec::new()); workers.len()];
    for (left, position) in open {
        // Equal loads go by order, so that an assignment can be repeated.
        let with_room = loads.iter_mut().zip(workers);
        let with_room = with_room.filter(|((_, share), (_, slots))| share.len() < *slots);
        if let Some(((load, share), _)) = with_room.min_by_key(|((load, _), _)| *load) {
            *load += left;
            share.push(position.clone());
        }
    }
    let all_idle = loads.iter().all(|(load, _)| *load == 0);
    let shares = workers.iter().map(|(worker, _)| worker.clone()).zip(loads);
    shares
        .take(if all_idle { 1 } else { usize::MAX })
        .filter(|(_, (load, _))| all_idle || *load > 0)
        .map(|(worker, (_, share))| (worker, share))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::find_files;

    fn plan(files: &[(&str, usize)]) -> (tempfile::TempDir, InputPlan) {
        let folder = tempfile::tempdir().unwrap();
        for (name, len) in files {
            std::fs::write(folder.path().join(name), vec![b' '; *len]).unwrap();
        }
        let found = find_files(&[folder.path().to_owned()], None, false).unwrap();
        let plan = InputPlan::new(found).unwrap();
        (folder, plan)
    }

    fn workers(n: usize) -> Vec<(WorkerId, usize)> {
        let worker = |n| (WorkerId::from(format!("w{n}")), usize::MAX);
        (1..=n).map(worker).collect()
    }

    #[test]
    fn every_unfinished_shard_goes_to_exactly_one_worker_evenly() {
        let (_folder, plan) = plan(&[("a", 100_000), ("b", 50_000), ("c", 1)]);
        let start = plan.start();
        let shares = assign(&plan, &start, &workers(3));
        let mut shards: Vec<u32> = shares.values().flatten().map(|p| p.shard).collect();
        shards.sort_unstable();
        assert_eq!(shards, (0..start.len() as u32).collect::<Vec<_>>());
        let bytes = |share: &Vec<Position>| share.iter().map(|p| plan.remaining(p)).sum::<u64>();
        for share in shares.values() {
            assert!(bytes(share) > plan.total_bytes() / 4, "{}", bytes(share));
        }
    }

    #[test]
    fn what_finds_no_free_slot_waits() {
        let (_folder, plan) = plan(&[("a", 100_000)]);
        let mut workers = workers(2);
        (workers[0].1, workers[1].1) = (3, 4);
        let shares = assign(&plan, &plan.start(), &workers);
        let held: Vec<usize> = shares.values().map(Vec::len).collect();
        assert_eq!(held, [3, 4]);
    }

    #[test]
    fn who_would_get_nothing_is_left_out() {
        let (_folder, one) = plan(&[("a", 10)]);
        assert_eq!(assign(&one, &one.start(), &workers(4)).len(), 1);
        let (_folder, empty) = plan(&[("a", 0)]);
        let shares = assign(&empty, &empty.start(), &workers(4));
        assert_eq!(shares.values().collect::<Vec<_>>(), [&Vec::new()]);
        assert!(assign(&one, &one.start(), &[]).is_empty());
    }
}
