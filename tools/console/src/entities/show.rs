//! The list as HTML and JSON.

use maud::{Markup, html};
use operations::read::scans::LatestItem;
use serde_json::{Value, json};
use shared::domain::entity::EntityId;

use super::find::Search;
use crate::{
    address, current,
    page::{self, entity_link},
    query::Query,
    time,
    value::{self, DisplayLimits},
};

pub(super) struct Results<'a> {
    pub(super) search: &'a Search,
    pub(super) exact: Option<EntityId>,
    pub(super) rows: Vec<LatestItem>,
    pub(super) read: u64,
    /// Approximate number of items of the table, if it is known.
    pub(super) items: Option<u64>,
    /// Position of the next page.
    pub(super) next: Option<String>,
}

pub(super) fn to_json(found: &LatestItem, search: &Search) -> Value {
    let (id, version) = (found.entity.as_str(), found.version);
    match search {
        Search::Request(_) => json!({"ID": id, "Version": version}),
        Search::Latest(_) => json!({
            "ID": id, "Version": version, "Deleted": found.deleted,
            "RecordedAt": found.recorded_at.map(|time| time.to_string()),
        }),
    }
}

fn row(found: &LatestItem, search: &Search) -> Markup {
    let id = found.entity.as_str();
    html! {
        tr {
            @match current::key(id) {
                None => th scope="row" colspan=[current::key_names().map(|names| names.len())] { (entity_link(id)) },
                Some(attributes) => @for (at, (_, value)) in attributes.iter().enumerate() {
                    @let shown = value::value(value, DisplayLimits::KEY);
                    @if at == 0 { th scope="row" { a.key href=(address::of_entity("/entity", id)) { (shown) } } } @else { td { (shown) } }
                },
            }
            @match (search, found.version) {
                (Search::Request(_), version) => td {
                    @if let Some(version) = version { a href=(address::version("/version", id, version.get())) { "version " (version) } }
                },
                (Search::Latest(_), version) => {
                    td { @if let Some(time) = found.recorded_at { (time::recorded(time)) } @else { span.muted { "Unknown" } } }
                    td.right { @if let Some(version) = version { (version) } @else { span.bad { "None" } } }
                    td { @if found.deleted { span.tag.dead { "deleted" } } @else { span.tag { "live" } } }
                },
            }
        }
    }
}

pub(super) fn body(query: &Query, results: &Results<'_>) -> Markup {
    html! {
        h1 { "Entities" }
        (form(query, results.search))
        @if let Some(exact) = &results.exact {
            p.note { "Exact match: " (entity_link(exact.as_str())) }
        }
        p.muted role="status" { (coverage(results)) }
        @if !results.rows.is_empty() { (table(results)) }
        (pages(query, results.next.clone()))
    }
}

fn form(query: &Query, search: &Search) -> Markup {
    let state = query.text("state").unwrap_or("all");
    let is_request = matches!(search, Search::Request(_));
    html! {
        form.row method="get" action="/" {
            (page::table_field())
            label { "Find " input type="search" name="find" value=[query.text("find")] spellcheck="false" autocomplete="off" maxlength="2048"; }
            label { "in " select name="by" {
                option value="key" selected[!is_request] { "keys" }
                option value="request" selected[is_request] { "request IDs" }
            } }
            fieldset {
                legend.hidden { "State" }
                @for (name, label) in [("all", "All"), ("live", "Live"), ("deleted", "Deleted")] {
                    label { input type="radio" name="state" value=(name) checked[state == name]; " " (label) }
                }
            }
            button { "Show" }
        }
    }
}

/// Renders how much was read, and whether there can be more.
fn coverage(results: &Results<'_>) -> Markup {
    let count = results.rows.len();
    html! {
        @match (results.search, count) {
            (Search::Request(_), 0) => "No version has this request ID in the items that were read. ",
            (Search::Latest(_), 0) => "No matching entities. ",
            (Search::Request(_), _) => "Versions that this request created. ",
            (Search::Latest(_), 1) => "1 entity. ",
            (Search::Latest(_), _) => { (count) " entities, the most recently changed first. " },
        }
        "Items read: " (results.read)
        @if results.next.is_none() { ", the whole " @if current::is_attached() { "history" } @else { "table" } }
        @else if let Some(items) = results.items.filter(|items| *items > 0) {
            " of about " (items) " (" (percent(results.read, items)) " %)"
        }
        "."
        @if results.next.is_some() { " Choose Next to search further." }
    }
}

/// Returns the part that was read, below 100 because the table has more items.
fn percent(read: u64, items: u64) -> u64 {
    (read.saturating_mul(100) / items.max(1)).min(99)
}

fn table(results: &Results<'_>) -> Markup {
    let names = current::key_names();
    let (label, columns) = match results.search {
        Search::Latest(_) if names.is_some() => ("Items", &["Last change", "Version", "State"][..]),
        Search::Latest(_) => ("Entities", &["Last change", "Version", "State"][..]),
        Search::Request(_) => ("Versions of the request", &["Version"][..]),
    };
    let mut names = names.unwrap_or_else(|| vec!["Entity".to_owned()]);
    names.extend(columns.iter().map(|column| (*column).to_owned()));
    let rows = html! { @for row in &results.rows { (self::row(row, results.search)) } };
    page::table(label, &names, &rows)
}

fn pages(query: &Query, next: Option<String>) -> Markup {
    let page = |position: Option<String>| {
        let filter = ["find", "by", "state"].map(|name| (name, query.text(name).map(str::to_owned)));
        address::link("/", filter.into_iter().chain([("page", position)]))
    };
    html! {
        nav.pages aria-label="Pages" {
            @if query.text("page").is_some() { a href=(page(None)) { "First page" } }
            @if let Some(next) = next { a rel="next" href=(page(Some(next))) { "Next" } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_table_are_below_100_percent() {
        for (read, items, expected) in [(0, 0, 0), (1, 3, 33), (400, 400, 99), (900, 400, 99), (u64::MAX, 1, 99)] {
            assert_eq!(percent(read, items), expected, "{read} of {items}");
        }
    }
}
