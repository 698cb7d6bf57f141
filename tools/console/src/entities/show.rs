//! The list as HTML and JSON.

use maud::{Markup, html};
use operations::read::{lag::lag, scans::LatestItem, versions_in_history::versions_in_history};
use serde_json::{Value, json};
use shared::domain::{entity::EntityId, version::Version};

use super::find::Search;
use crate::{
    address,
    app::App,
    error::PageError,
    page::{self, count, entity_link},
    query::Query,
    time,
};

/// Maximum number of entities whose exact lag is read.
const MAX_LAGS: usize = 10;

pub(super) struct Row {
    found: LatestItem,
    /// Number of versions that are not in history yet, `None` for an unknown number of at least one.
    lag: Option<u64>,
}

pub(super) struct Results<'a> {
    pub(super) search: &'a Search,
    pub(super) exact: Option<EntityId>,
    pub(super) rows: Vec<Row>,
    pub(super) read: u64,
    /// Approximate number of items of the table, if it is known.
    pub(super) items: Option<u64>,
    /// Position of the next page.
    pub(super) next: Option<String>,
}

/// Reads the lag of the history of each entity. A version that a request created has none.
pub(super) async fn rows(app: &App, search: &Search, found: Vec<LatestItem>) -> Result<Vec<Row>, PageError> {
    let is_latest = matches!(search, Search::Latest(_));
    let versions = found.iter().filter(|_| is_latest);
    let versions = versions.filter_map(|found| Some((found.entity.clone(), found.version?)));
    let stored = versions_in_history(app.store(), &versions.collect::<Vec<_>>(), app.consistent()).await?;
    let (mut rows, mut lags_read) = (Vec::with_capacity(found.len()), 0);
    for found in found {
        let lag = match is_latest && found.version.is_some() && !stored.contains(&found.entity) {
            false => Some(0),
            true if lags_read == MAX_LAGS => None,
            true => {
                lags_read += 1;
                let lag = lag(app.store(), &found.entity).await?;
                lag.map(|lag| lag.latest.get() - lag.through.map_or(0, Version::get))
            }
        };
        rows.push(Row { found, lag });
    }
    Ok(rows)
}

impl Row {
    pub(super) fn to_json(&self, search: &Search) -> Value {
        let (id, version) = (self.found.entity.as_str(), self.found.version);
        match search {
            Search::Request(_) => json!({"ID": id, "Version": version}),
            Search::Latest(_) => json!({
                "ID": id, "Version": version, "Deleted": self.found.deleted,
                "RecordedAt": self.found.recorded_at.map(|time| time.to_string()), "Behind": self.lag,
            }),
        }
    }

    fn html(&self, search: &Search) -> Markup {
        let (found, id) = (&self.found, self.found.entity.as_str());
        html! {
            tr {
                th scope="row" { (entity_link(id)) }
                @match (search, found.version) {
                    (Search::Request(_), version) => td {
                        @if let Some(version) = version { a href=(address::version("/version", id, version.get())) { "version " (version) } }
                    },
                    (Search::Latest(_), version) => {
                        td { @if let Some(time) = found.recorded_at { (time::recorded(time)) } @else { span.muted { "Unknown" } } }
                        td.right { @if let Some(version) = version { (version) } @else { span.bad { "None" } } }
                        td { @if found.deleted { span.tag.dead { "deleted" } } @else { span.tag { "live" } } }
                        td { @match self.lag {
                            Some(0) => span.good { "None" },
                            Some(versions) => span.warn { (count(versions, "version")) },
                            None => span.warn { "1 version or more" },
                        } }
                    },
                }
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
        @if results.next.is_none() { ", the whole table" }
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
    let (label, columns) = match results.search {
        Search::Latest(_) => (
            "Entities",
            &["Entity", "Last change", "Version", "State", "History lag"][..],
        ),
        Search::Request(_) => ("Versions of the request", &["Entity", "Version"][..]),
    };
    let rows = html! { @for row in &results.rows { (row.html(results.search)) } };
    page::table(label, columns, &rows)
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
