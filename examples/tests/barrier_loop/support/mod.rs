//! What several tests share: the program as a child process, and trees of files.

pub(crate) mod stage;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// The program under test.
pub(crate) fn barrier_loop() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_barrier-loop"));
    command.stdin(Stdio::null());
    command
}

/// Runs it to its end.
pub(crate) fn run<const N: usize>(args: [&str; N], inputs: &[&Path]) -> Run {
    Run::of(barrier_loop().args(args).args(inputs).output().unwrap())
}

/// How a run ended and what it said.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Run {
    pub(crate) fn of(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Fails the test, with all that was said, unless the run ended so.
    #[track_caller]
    pub(crate) fn expect_code(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}\n{}", self.out, self.err);
        self
    }

    /// The number after `before` in the output.
    #[track_caller]
    pub(crate) fn number_after(&self, before: &str) -> u64 {
        let at = self
            .out
            .find(before)
            .unwrap_or_else(|| panic!("no {before:?} in {}", self.out));
        let rest = self.out[at + before.len()..].trim_start();
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().unwrap()
    }
}

/// Waits for the end of a child, at the most so long; kills it then and fails.
#[track_caller]
pub(crate) fn wait(mut child: Child, most: Duration) -> std::process::ExitStatus {
    if let Some(status) = poll(most, || child.try_wait().unwrap()) {
        return status;
    }
    child.kill().unwrap();
    child.wait().unwrap();
    panic!("it still runs after {most:?}");
}

/// Asks until there is an answer, at the most so long: another process changes
/// something, and there is nothing to be woken by.
pub(crate) fn poll<T>(most: Duration, mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    let pause = Duration::from_millis(5);
    for _ in 0..most.div_duration_f64(pause) as u64 {
        if let answer @ Some(_) = ask() {
            return answer;
        }
        std::thread::sleep(pause);
    }
    ask()
}

/// Sends a signal by name to a child that this test started.
pub(crate) fn send(signal: &str, child: &Child) {
    let status = Command::new("kill")
        .args([format!("-{signal}"), child.id().to_string()])
        .status()
        .unwrap();
    assert!(status.success());
}

/// A small generator of numbers: the same for the same seed.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// Words of real text: this workspace's own.
fn own_text() -> Vec<u8> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let files = ["README.md", "LICENSE-APACHE", "examples/src/meta/lead.rs"];
    let texts = files
        .iter()
        .map(|file| std::fs::read(root.join(file)).unwrap());
    texts.collect::<Vec<_>>().concat()
}

/// Fills `folder` with about `bytes`: text, binary, not UTF-8, empty files, and one
/// line of a fifth of it.
pub(crate) fn make_tree(folder: &Path, bytes: usize) {
    std::fs::create_dir_all(folder.join("sub/deeper")).unwrap();
    let mut numbers = Numbers(0x5EED);
    let text = own_text();
    let file =
        |name: String| std::io::BufWriter::new(std::fs::File::create(folder.join(name)).unwrap());
    for n in 0..20 {
        let mut out = file(format!("sub/text-{n}"));
        let mut written = 0;
        while written < bytes / 40 {
            let from = numbers.below(text.len() as u64 - 1000) as usize;
            out.write_all(&text[from..from + 1000]).unwrap();
            written += 1000;
        }
        file(format!("sub/empty-{n}")).flush().unwrap();
    }
    let mut binary = file("sub/deeper/binary".to_owned());
    for _ in 0..bytes / 80 {
        binary.write_all(&numbers.next().to_le_bytes()).unwrap();
    }
    let mut latin = file("latin-1".to_owned());
    for n in 0..bytes / 20 {
        latin.write_all(&[b"\xe4\xf6\xfc \xdf, "[n % 7]]).unwrap();
    }
    let mut line = file("one-line".to_owned());
    let mut written = 0;
    while written < bytes / 5 {
        let word = format!("w{} ", numbers.below(5000));
        line.write_all(word.as_bytes()).unwrap();
        written += word.len();
    }
}

/// Everything that a folder holds, by name.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// A path as an argument.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A folder in a temporary folder that vanishes with the test.
pub(crate) fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    (folder, path)
}

/// Fails unless the chain has ended, is unbroken, and nothing else lies about.
#[track_caller]
pub(crate) fn check_finished(out: &Path) {
    let store = examples::store::Store::open(out).unwrap();
    let snapshot = store.snapshot();
    assert!(snapshot.head.last);
    let kept: Vec<String> = names(&store.deltas());
    let mut named: Vec<String> = snapshot.deltas.iter().map(|d| d.name.clone()).collect();
    named.sort();
    assert_eq!(kept, named, "exactly the referenced files remain");
    // Opening it has checked that each epoch names its predecessor; terms never fall.
    let terms: Vec<(u64, u64)> = snapshot.epochs.iter().map(|e| e.order()).collect();
    assert!(terms.is_sorted());
}
