//! Each target of `docs/performance.md` is met, or the section *Missed targets* explains why not. An explanation is a list item that starts with the
//! comparison, the unit and the peer of the figure: `- **start, ms, p99, stream-fn, Python**: …`. Several figures with one cause share an item:
//! `- **…**, **…**: …`.

use std::fs;

use crate::root;

const PAGE: &str = "docs/performance.md";
const HEADER: &str = "| unit | ours | peer | peer's | ratio | target | met |";

/// Returns the missed figures of a page without an explanation. Each comparison is a section with a table.
///
/// # Panics
///
/// If the page has no such section, or a row has another number of cells.
fn unexplained(page: &str) -> Vec<String> {
    let (mut names, mut count) = (Vec::new(), 0);
    for section in page.split("\n### ").skip(1) {
        let Some((title, table)) = section.split_once(HEADER) else {
            continue;
        };
        let comparison = title.lines().next().unwrap();
        let rows = table.trim_start().lines().skip(1);
        for row in rows.take_while(|line| line.starts_with('|')) {
            let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
            let [unit, _, peer, .., met] = cells[..] else {
                panic!("{row}");
            };
            assert_eq!(cells.len(), 7, "{row}");
            count += 1;
            if met == "NO" {
                let name = [comparison, unit, peer].into_iter().filter(|cell| !cell.is_empty());
                names.push(name.collect::<Vec<_>>().join(", "));
            }
        }
    }
    assert!(count > 1, "no results");
    let explained = explained(page);
    names.into_iter().filter(|name| !explained.contains(name)).collect()
}

/// Returns the names of the figures that the list items of *Missed targets* start with.
fn explained(page: &str) -> Vec<String> {
    let section = page.split("\n## Missed targets\n").nth(1).unwrap_or_default();
    let section = section.split("\n## ").next().unwrap_or_default().replace("\n  ", " ");
    let items = section.split("\n- ").skip(1).filter_map(|item| item.split_once("**: "));
    let explained = items.filter(|(_, explanation)| !explanation.trim().is_empty());
    let names = explained.flat_map(|(names, _)| names.trim_start_matches("**").split("**, **"));
    names.map(str::to_owned).collect()
}

#[test]
fn every_target_is_met_or_the_page_explains_why_not() {
    let page = fs::read_to_string(root().join(PAGE)).unwrap();
    assert_eq!(
        unexplained(&page),
        Vec::<String>::new(),
        "add them to *Missed targets* of {PAGE}"
    );
}
