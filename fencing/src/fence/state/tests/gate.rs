//! The gate alone, without the races that loom tries: that program includes its file.

use crate::fence::gate::Gate;

const LONGEST: usize = 128;

fn is_refused(gate: &Gate, scope: &str, number: u64) -> bool {
    gate.enter(scope, number).is_err()
}

#[test]
fn it_is_open_for_exactly_one_token() {
    let longest = "s".repeat(LONGEST);
    let mut other = longest.clone();
    other.replace_range(127.., "t");
    let scopes = [
        "",
        "a",
        "b",
        "a\0",
        "aaaaaaaa",
        "aaaaaaaab",
        &longest,
        &other,
    ];
    for scope in scopes {
        let gate = Gate::new();
        assert!(is_refused(&gate, scope, 7), "closed");
        gate.open(scope, 7);
        assert!(gate.enter(scope, 7).is_ok());
        for wrong in scopes.into_iter().filter(|wrong| *wrong != scope) {
            assert!(is_refused(&gate, wrong, 7), "{wrong:?} at {scope:?}");
        }
        assert!(is_refused(&gate, scope, 6) && is_refused(&gate, scope, 8));
        assert_eq!(gate.count(), 2, "who was refused has left");
        gate.close();
        assert!(is_refused(&gate, scope, 7) && !gate.is_open());
        assert!(!gate.leave() && gate.leave(), "the last one of two");
    }
}
