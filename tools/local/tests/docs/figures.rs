//! Figures and names that a page takes from another file equal those in that file.

use std::fs;

use testkit::pages::rows;

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

/// Returns the cells of the first row of a page that starts with these cells.
fn row(page: &str, start: &[&str]) -> Vec<String> {
    let mut rows = rows(page).into_iter();
    rows.find(|row| row.iter().zip(start).all(|(cell, start)| cell.starts_with(start)))
        .unwrap()
}

#[test]
fn write_units_and_rates_of_an_entity_equal_the_scaling_table() {
    let updates = row("docs/scaling.md", &["1", "2"]);
    let (units, history) = (&updates[1], &updates[2]);
    let number = |cell: &str| cell.parse::<f64>().unwrap();
    let latest = format!("{:.2}", number(units) - number(history));
    assert!(file("README.md").contains(&format!("consumes {units} write units on average")));
    let expected = format!("| {units} on one partition | {latest} and {history}, ");
    assert!(file("docs/history-table.md").contains(&expected), "{expected}");
    // The maximum rate of one entity, in both layouts.
    let rates = row("docs/scaling.md", &["`stream`", "`recent, 10`"]);
    let [same, own] = [&rates[3], &rates[4]];
    let rounded = format!("{}0", &same[..same.len() - 1]);
    assert!(file("docs/users.md").contains(&format!("one entity accepts about {rounded} updates a second")));
    let expected = format!("[about {rounded} updates a second of one entity](scaling.md), or {own} with");
    assert!(file("docs/comparison.md").contains(&expected), "{expected}");
    let expected = format!("| {same} a second | {own} a second, ");
    assert!(file("docs/history-table.md").contains(&expected), "{expected}");
}

#[test]
fn the_number_of_alarms_equals_that_of_the_template() {
    let count = |name: &str| file(name).matches("    Type: AWS::CloudWatch::Alarm\n").count();
    let alarms = row("docs/costs.md", &["[alarms]"]);
    let of_monitoring = count("tools/monitoring/template.yaml");
    assert_eq!(alarms[1], (count("template.yaml") + of_monitoring).to_string());
    let attach = file("tools/attach/template.yaml");
    let of_writer = file("tools/monitoring/template.yaml");
    let of_writer = of_writer
        .matches("    Type: AWS::CloudWatch::Alarm\n    Condition: HasWriter\n")
        .count();
    let words = ["three", "four", "five", "six"];
    let [of_attach, more] =
        [count("tools/attach/template.yaml"), of_monitoring - of_writer].map(|count| words[count - 3]);
    let costs = format!("{of_attach} alarms at 0.10 USD a\n# month, and with tools/monitoring {more} more");
    assert!(attach.contains(&costs), "{costs}");
}

#[test]
fn every_parameter_of_a_template_is_explained() {
    let part = |text: &str, from: &str, to: &str| {
        let rest = text.split(from).nth(1).unwrap();
        rest.split(to).next().unwrap().to_owned()
    };
    let operations = file("docs/operations.md");
    let deploying = part(&operations, "\n## Deploying\n", "\n## ");
    for (template, end, count, page, [before, after]) in [
        ("template.yaml", "\nRules:\n", 10, deploying, ["`", "`"]),
        (
            "tools/events/template.yaml",
            "\nConditions:\n",
            5,
            file("docs/events.md"),
            ["| `", "` |"],
        ),
    ] {
        let parameters = part(&file(template), "\nParameters:\n", end);
        let names = parameters
            .lines()
            .filter_map(|line| line.strip_prefix("  ")?.strip_suffix(':'));
        let names: Vec<_> = names.filter(|name| !name.starts_with(' ')).collect();
        assert!(names.len() > count, "{template}: {names:?}");
        for name in names {
            assert!(page.contains(&format!("{before}{name}{after}")), "{template}: {name}");
        }
    }
}
