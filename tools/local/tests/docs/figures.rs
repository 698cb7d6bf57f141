//! Figures and names that a page takes from another file equal those in that file.

use std::fs;

use crate::root;

fn file(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap()
}

/// Returns the monthly cost in the row of the scaling table for these updates a second.
fn cost(updates: &str) -> String {
    let page = file("docs/scaling.md");
    let row = page
        .lines()
        .find(|line| line.starts_with(&format!("| {updates} |")))
        .unwrap();
    row.split(" | ").nth(7).unwrap().trim().to_owned()
}

#[test]
fn the_cost_in_the_readme_equals_the_scaling_table() {
    let expected = format!(
        "about {} USD a month at one update a second, {} at ten",
        cost("1"),
        cost("10")
    );
    assert!(file("README.md").contains(&expected), "{expected}");
}

#[test]
fn every_parameter_of_the_template_is_explained() {
    let template = file("template.yaml");
    let parameters = template.split("\nParameters:\n").nth(1).unwrap();
    let parameters = parameters.split("\nRules:\n").next().unwrap();
    let names = parameters
        .lines()
        .filter_map(|line| line.strip_prefix("  ")?.strip_suffix(':'));
    let names: Vec<_> = names.filter(|name| !name.starts_with(' ')).collect();
    assert!(names.len() > 10, "{names:?}");
    let page = file("docs/operations.md");
    let deploying = page
        .split("\n## Deploying\n")
        .nth(1)
        .unwrap()
        .split("\n## ")
        .next()
        .unwrap();
    for name in names {
        assert!(deploying.contains(&format!("`{name}`")), "{name}");
    }
}
