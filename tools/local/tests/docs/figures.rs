//! Figures and names that a page takes from another file equal those in that file.

use std::fs;

use local::template::yaml;
use testkit::pages::rows;

use crate::root;

fn file(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap()
}

/// Returns the cells of the first row of a page that starts with these cells.
fn row(page: &str, start: &[&str]) -> Vec<String> {
    let mut rows = rows(page).into_iter();
    rows.find(|row| row.iter().zip(start).all(|(cell, start)| cell.starts_with(start)))
        .unwrap()
}

#[test]
fn figures_of_the_scaling_table_are_the_same_on_other_pages() {
    let cost = |updates: &str| {
        let mut rows = rows("docs/scaling.md").into_iter();
        rows.find(|row| row[0] == updates).unwrap()[7].clone()
    };
    let [one, ten] = ["1", "10"].map(cost);
    let updates = row("docs/scaling.md", &["1", "2"]);
    let (units, history) = (&updates[1], &updates[2]);
    let number = |cell: &str| cell.parse::<f64>().unwrap();
    let latest = format!("{:.2}", number(units) - number(history));
    // The maximum rate of one entity, in both layouts.
    let rates = row("docs/scaling.md", &["`stream`", "`recent`"]);
    let [same, own] = [&rates[3], &rates[4]];
    let rounded = format!("{}0", &same[..same.len() - 1]);
    let costs = format!("about {one} USD a month at one update a second, {ten} at ten");
    for (page, expected) in [
        ("README.md", costs),
        ("README.md", format!("consumes {units} write units on average")),
        (
            "docs/history-table.md",
            format!("| {units} on one partition | {latest} and {history}, "),
        ),
        ("docs/history-table.md", format!("| {same} a second | {own} a second, ")),
        (
            "docs/users.md",
            format!("one entity accepts about {rounded} updates a second"),
        ),
        (
            "docs/comparison.md",
            format!("[about {rounded} updates a second of one entity](scaling.md), or {own} with"),
        ),
    ] {
        assert!(file(page).contains(&expected), "{page}: {expected}");
    }
}

#[test]
fn the_number_of_alarms_equals_that_of_the_template() {
    let count = |name: &str, more: &str| {
        let alarm = format!("    Type: AWS::CloudWatch::Alarm\n{more}");
        file(name).matches(&alarm).count()
    };
    let monitoring = "tools/monitoring/template.yaml";
    let added = format!("add [{} alarms", count(monitoring, ""));
    assert!(file("docs/costs.md").contains(&added), "{added}");
    let conditions = ["HasWriter", "HasCounts"].map(|name| format!("    Condition: {name}\n"));
    let of_writer: usize = conditions.iter().map(|condition| count(monitoring, condition)).sum();
    let counts = [
        count("tools/attach/template.yaml", ""),
        count(monitoring, "") - of_writer,
    ];
    let [of_attach, more] = counts.map(|count| ["three", "four", "five", "six"][count - 3]);
    let costs = format!("{of_attach} alarms at 0.10 USD a\n# month, and with tools/monitoring {more} more");
    assert!(file("tools/attach/template.yaml").contains(&costs), "{costs}");
}

#[test]
fn every_parameter_of_a_template_is_explained() {
    let operations = file("docs/operations.md");
    let deploying = operations
        .split("\n## ")
        .find(|section| section.starts_with("Deploying\n"));
    let events = file("docs/events.md");
    for (template, count, page, [before, after]) in [
        ("template.yaml", 10, deploying.unwrap(), ["`", "`"]),
        ("tools/events/template.yaml", 5, &events, ["| `", "` |"]),
    ] {
        let parameters = yaml::parse(&file(template)).unwrap()["Parameters"].take();
        let names: Vec<_> = parameters.as_object().unwrap().keys().collect();
        assert!(names.len() > count, "{template}: {names:?}");
        for name in names {
            assert!(page.contains(&format!("{before}{name}{after}")), "{template}: {name}");
        }
    }
}
