//! `docs/seeds.md`: each link leads to a file that has the named item, each named test is a test, and the numbers are right.

use std::fs;

use crate::root;

/// Forms of a definition in Rust and YAML, with `@` for the name, separated by `|`.
const FORMS: &str = "fn @(|fn @<|struct @<|struct @ |enum @ |enum @<|const @:|pub @:|    @,|  @:";

/// Returns the names that the linked files do not define, or not as a test. A page needs no definition.
fn dead(cell: &str, is_test: bool) -> Vec<&str> {
    let links = cell.split("[`").skip(1).filter_map(|link| link.split_once("`]("));
    let is_dead = |(name, rest): &(&str, &str)| {
        let (name, file) = (
            name.rsplit("::").next().unwrap(),
            rest.split([')', '#']).next().unwrap(),
        );
        let text = fs::read_to_string(root().join("docs").join(file)).unwrap_or_default();
        let mut definitions = FORMS
            .split('|')
            .filter_map(|form| text.split_once(&form.replace('@', name)));
        let Some((before, _)) = definitions.next() else {
            return is_test || text.is_empty() || !file.contains(".md");
        };
        let attributes = before.rsplit("\n\n").next().unwrap();
        let forms = ["#[test]", "#[tokio::test", "script_tests!"];
        is_test && !forms.iter().any(|form| attributes.contains(form))
    };
    links.filter(is_dead).map(|(name, _)| name).collect()
}

#[test]
fn every_statement_of_the_seed_documents_has_an_implementation_and_a_test() {
    let page = fs::read_to_string(root().join("docs/seeds.md")).unwrap();
    let is_row = |line: &&str| line.starts_with("| ") && !line.starts_with("| statement");
    let rows: Vec<_> = page.lines().filter(is_row).collect();
    for row in &rows {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        let [_, _, implementation, tests, _] = &cells[..] else {
            panic!("not three cells: {row}");
        };
        let dead = [dead(implementation, false), dead(tests, true)].concat();
        assert!(dead.is_empty(), "{dead:?} in {row}");
        let is_tested = tests.contains("[`") || implementation.starts_with("Advice: ");
        assert!(implementation.contains("](") && is_tested, "a link is missing: {row}");
    }
    let count = |mark: &str| rows.iter().filter(|row| row.contains(mark)).count();
    let [partly, not] = [count("| Partly: "), count("| Not done: ")];
    let met = rows.len() - partly - not;
    let numbers = format!("{} statements: {met} are met, {partly} partly, {not} not", rows.len());
    assert!(page.contains(&numbers), "{numbers}");
}
