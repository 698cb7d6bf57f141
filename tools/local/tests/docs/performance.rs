//! Each target of `docs/performance.md` is met, or the section *Missed targets* explains why not. An explanation is a list item that starts with the
//! comparison and the unit of the figure, with any peer: `- **start, ms, p99, stream-fn**: …`. Several figures with one cause share an item:
//! `- **…**, **…**: …`.

use std::fs;

use crate::root;

const PAGE: &str = "docs/performance.md";

#[test]
fn every_target_is_met_or_the_page_explains_why_not() {
    let page = fs::read_to_string(root().join(PAGE)).unwrap();
    let (results, explained) = page.split_once("\n## Missed targets\n").unwrap();
    let explained = explained.split("\n## ").next().unwrap().replace("\n  ", " ");
    assert!(results.matches("|yes|\n").count() > 1, "no results");
    for section in results.split("\n### ").skip(1) {
        let comparison = section.lines().next().unwrap();
        for row in section.lines().filter_map(|line| line.strip_suffix("|NO|")) {
            let cells: Vec<_> = row.split('|').map(str::trim).collect();
            let name = format!("**{comparison}, {}**", cells[1]);
            assert!(explained.contains(&name), "add {name} to *Missed targets* of {PAGE}");
        }
    }
}
