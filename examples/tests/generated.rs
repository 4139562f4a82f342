//! The checked-in generated code is what the `.proto` files say.
//!
//! No protoc is needed: a compiler in Rust reads the files. After a change run
//! `UPDATE_GENERATED=1 cargo test -p examples --test generated`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

/// Each: folder and name of the `.proto`, folder of the code, name of the code.
const GENERATED: [(&str, &str, &str, &str); 2] = [
    (
        "examples/proto",
        "barrier.proto",
        "examples/src/generated",
        "barrier.v1.rs",
    ),
    (
        "bidi-session/tests/gen",
        "worker.proto",
        "bidi-session/tests/gen",
        "worker.v1.rs",
    ),
];

#[test]
fn generated_code_is_current() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for (from, proto, to, code) in GENERATED {
        let fresh = generate(&root.join(from), proto, code);
        let kept: PathBuf = root.join(to).join(code);
        if std::env::var_os("UPDATE_GENERATED").is_some() {
            std::fs::write(&kept, &fresh).unwrap();
        }
        let present = std::fs::read_to_string(&kept).unwrap_or_default();
        assert!(
            present == fresh,
            "{} is not what {proto} says; run with UPDATE_GENERATED=1",
            kept.display()
        );
    }
}

fn generate(folder: &Path, proto: &str, code: &str) -> String {
    let descriptors = protox::compile([folder.join(proto)], [folder]).unwrap();
    let out = tempfile::tempdir().unwrap();
    tonic_prost_build::configure()
        // Paths of many files share one buffer.
        .bytes(".barrier.v1.Source.path")
        .out_dir(out.path())
        .compile_fds(descriptors)
        .unwrap();
    std::fs::read_to_string(out.path().join(code)).unwrap()
}
