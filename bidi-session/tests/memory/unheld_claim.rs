//! A page of claims that names tests which do not exist.

use std::path::Path;

#[test]
fn each_claim_of_the_page_names_tests_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("docs/checks.md")).unwrap();
    let (mut claims, mut tests) = (0, 0);
    let rows = page.lines().filter(|line| line.starts_with("| ")).skip(2);
    for row in rows {
        let cells: Vec<&str> = row.split('|').collect();
        let named = cells[3].split('`').skip(1).step_by(2);
        let (mut file, mut source) = ("", String::new());
        for name in named {
            if name.ends_with(".rs") {
                let folder = if name.starts_with("src/") {
                    ""
                } else {
                    "tests"
                };
                source = std::fs::read_to_string(root.join(folder).join(name))
                    .unwrap_or_else(|error| panic!("check {}: {name}: {error}", cells[1]));
                file = name;
            } else {
                let is_there = source.contains(&format!("fn {name}("));
                assert!(is_there, "check {}: no {name} in {file}", cells[1]);
                tests += 1;
            }
        }
        claims += 1;
    }
    assert!(
        claims > 25 && tests > claims,
        "{claims} claims, {tests} tests"
    );
}
