//! The tests that `docs/seeds.md` names exist.

use std::{collections::BTreeMap, fs};

use crate::root;

#[test]
fn every_statement_of_the_seed_documents_has_existing_tests() {
    let page = fs::read_to_string(root().join("docs/seeds.md")).unwrap();
    let mut statements: BTreeMap<&str, usize> = BTreeMap::new();
    for section in page.split("\n## ").skip(1) {
        let title = section.lines().next().unwrap();
        let rows = section.lines().filter(|line| line.starts_with('|')).skip(2);
        for row in rows {
            let cells: Vec<_> = row.trim_matches('|').split(" | ").collect();
            let [_, implementation, tests] = &cells[..] else {
                panic!("{row}");
            };
            assert!(!implementation.trim().is_empty(), "{row}");
            let named: Vec<_> = tests.split('`').skip(1).step_by(2).collect();
            assert!(!named.is_empty(), "{row}");
            for test in named {
                let (file, function) = test.split_once("::").unwrap();
                let code = fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
                let (before, _) = code
                    .split_once(&format!("fn {function}("))
                    .unwrap_or_else(|| panic!("no {test}"));
                let attributes = before.rsplit("\n\n").next().unwrap();
                assert!(attributes.contains("test"), "{test} is not a test");
            }
            *statements.entry(title).or_default() += 1;
        }
    }
    assert_eq!(statements.len(), 5, "{statements:?}");
    assert!(statements.values().all(|count| *count >= 10), "{statements:?}");
}
