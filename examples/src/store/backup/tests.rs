use super::*;
use crate::wire::Epoch;

fn manifest(prev: Epoch, epoch: Epoch, delta: &str) -> Manifest {
    Manifest {
        epoch: Some(epoch),
        prev: Some(prev),
        deltas: vec![Delta {
            name: delta.to_owned(),
            ..Delta::default()
        }],
        ..Manifest::default()
    }
}

fn reign(token: u64) -> Reign {
    let key = "key".to_owned();
    Reign { token, key }
}

fn names(saved: &Saved) -> Vec<&str> {
    saved.deltas.iter().map(|delta| &*delta.name).collect()
}

fn open() -> (tempfile::TempDir, Backup) {
    let folder = tempfile::tempdir().unwrap();
    let backup = Backup::of(&Output::open_shared(folder.path()).unwrap());
    (folder, backup)
}

#[test]
fn the_reign_of_the_highest_token_holds_all_and_takes_the_place_of_the_others() {
    let (_folder, backup) = open();
    assert!(backup.read().unwrap().is_empty());
    let (scope, start) = ("life%/words/leader", Manifest::default());
    let mut pen = backup.begin(scope, &reign(5), &start, Vec::new()).unwrap();
    let one = manifest(Epoch::START, Epoch::new(5, 2), "a");
    pen.keep(&one).unwrap();
    pen.keep(&one).unwrap();
    // A commit that answers a request which was withdrawn is made again without it.
    let two = manifest(one.id(), Epoch::new(5, 3), "b");
    let without = Manifest {
        closed: true,
        ..two.clone()
    };
    pen.keep(&two).unwrap();
    pen.keep(&without).unwrap();
    let saved = backup.read().unwrap();
    assert_eq!(saved[0].scope, scope);
    assert_eq!(
        (names(&saved[0]), &saved[0].head),
        (vec!["a", "b"], &without)
    );

    // Its last one did not land: the next reign begins with what did.
    let base = backup.begin(scope, &reign(11), &one, one.deltas.clone());
    let mut pen = base.unwrap();
    let three = manifest(one.id(), Epoch::new(11, 1), "c");
    pen.keep(&three).unwrap();
    let saved = backup.read().unwrap();
    assert_eq!((names(&saved[0]), &saved[0].head), (vec!["a", "c"], &three));
    assert!(!saved[0].is_ahead_of(&one) && saved[0].is_ahead_of(&start));
    assert_eq!(files(&backup.folder.join(folder_of(scope))).len(), 1);

    // Once it is known to have landed, a chain without it lacks something.
    pen.landed().unwrap();
    let saved = backup.read().unwrap();
    assert_eq!((names(&saved[0]), &saved[0].head), (vec!["a", "c"], &three));
    assert!(saved[0].is_ahead_of(&one) && !saved[0].is_ahead_of(&three));
    let four = manifest(three.id(), Epoch::new(11, 2), "d");
    pen.keep(&four).unwrap();
    let saved = backup.read().unwrap();
    assert_eq!(names(&saved[0]), ["a", "c", "d"]);
    assert!(!saved[0].has_landed && !saved[0].is_ahead_of(&three));
    assert_eq!(saved[0].reign, reign(11));
}

#[test]
fn a_reign_repeats_another_of_a_higher_token_or_of_its_own_under_another_key() {
    let of = |token, key: &str| Reign {
        token,
        key: key.to_owned(),
    };
    let known = of(7, "a-b");
    assert_eq!(known.to_string().parse(), Ok(known.clone()));
    assert!(of(6, "a-b").repeats(&known) && of(7, "c").repeats(&known));
    assert!(!known.repeats(&known) && !of(8, "a-b").repeats(&known));
}

#[test]
fn a_cut_at_any_byte_loses_the_last_manifest_only_and_damage_is_an_error() {
    let (_folder, backup) = open();
    let one = manifest(Epoch::START, Epoch::new(5, 2), "a");
    let deltas = || one.deltas.clone();
    drop(backup.begin("s", &reign(5), &one, deltas()).unwrap());
    let mut pen = backup.begin("s", &reign(9), &one, deltas()).unwrap();
    let begun = pen.len;
    let two = manifest(one.id(), Epoch::new(9, 1), "b");
    pen.keep(&two).unwrap();
    let path = backup.folder.join("s").join(reign(9).to_string());
    let bytes = fs::read(&path).unwrap();
    for len in begun..bytes.len() as u64 {
        fs::write(&path, &bytes[..len as usize]).unwrap();
        assert_eq!(backup.read().unwrap()[0].head, one, "cut at {len}");
    }
    // Cut before it was begun: nobody led by it.
    fs::write(&path, &bytes[..begun as usize - 1]).unwrap();
    assert!(backup.read().unwrap().is_empty());
    let mut damaged = bytes.clone();
    damaged[20] ^= 1;
    fs::write(&path, damaged).unwrap();
    let error = backup.read().unwrap_err().to_string();
    assert!(error.contains("is damaged"), "{error}");
}
