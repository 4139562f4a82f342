//! A large tree with a leader and a worker killed on the way ends equal.

use crate::support::{check_finished, folder, make_tree, run, text};

#[test]
fn a_tree_of_100_mb_with_both_kills_ends_equal() {
    let (_kept, folder) = folder();
    let (input, out) = (folder.join("input"), folder.join("out"));
    make_tree(&input, 120_000_000);
    let ended = run(
        [
            "--workers",
            "4",
            "--out",
            text(&out),
            "--kill-leader-at",
            "30%",
            "--kill-worker-at",
            "60%",
        ],
        &[&input],
    )
    .expect_code(0);
    println!("{}", ended.out);
    assert!(ended.number_after("input") >= 100_000_000);
    assert!(ended.number_after("epochs") >= 20);
    assert!(ended.number_after("recoveries") >= 2);
    for expected in [
        "(token 1) was killed",
        "worker w1 was killed",
        "after its successor: refused by the guard",
        "equal to a plain count",
    ] {
        assert!(
            ended.out.contains(expected),
            "no {expected:?} in {}",
            ended.out
        );
    }
    check_finished(&out);
}
