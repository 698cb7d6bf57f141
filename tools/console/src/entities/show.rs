//! The list as HTML and JSON.

use std::collections::HashSet;

use maud::{Markup, html};
use operations::read::{lag::lag, scan_latest::LatestItem, versions_in_history::versions_in_history};
use serde_json::{Value, json};
use shared::domain::{entity::EntityId, version::Version};

use super::{
    Query,
    cursor::PageCursor,
    find::{Hit, Search},
};
use crate::{address, app::App, error::PageError, page::entity_link, query::link, time};

/// Maximum number of entities whose exact lag is read.
const MAX_LAGS: usize = 10;

pub(super) enum Row {
    Latest {
        latest: LatestItem,
        /// Number of versions that are not in history yet, `None` for an unknown number of at least one.
        lag: Option<u64>,
    },
    Request(EntityId, Version),
}

pub(super) struct Results<'a> {
    pub(super) search: &'a Search,
    pub(super) exact: Option<&'a EntityId>,
    pub(super) rows: &'a [Row],
    pub(super) read: u64,
    /// Approximate number of items of the table, if it is known.
    pub(super) items: Option<u64>,
    pub(super) next: Option<&'a PageCursor>,
}

/// Reads the lag of the history of each entity.
pub(super) async fn rows(app: &App, hits: Vec<Hit>) -> Result<Vec<Row>, PageError> {
    let version = |hit: &Hit| match hit {
        Hit::Latest(latest) => Some((latest.entity.clone(), latest.version?)),
        Hit::Request(..) => None,
    };
    let versions: Vec<_> = hits.iter().filter_map(version).collect();
    let recorded: HashSet<_> = versions_in_history(app.store(), &versions, app.consistent()).await?;
    let mut lags_read = 0;
    let mut rows = Vec::with_capacity(hits.len());
    for hit in hits {
        let latest = match hit {
            Hit::Latest(latest) => latest,
            Hit::Request(entity, version) => {
                rows.push(Row::Request(entity, version));
                continue;
            }
        };
        let is_behind = latest.version.is_some() && !recorded.contains(&latest.entity);
        let lag = match is_behind {
            false => Some(0),
            true if lags_read < MAX_LAGS => {
                lags_read += 1;
                let lag = lag(app.store(), &latest.entity).await?;
                lag.map(|lag| lag.latest.get() - lag.through.map_or(0, Version::get))
            }
            true => None,
        };
        rows.push(Row::Latest { latest, lag });
    }
    Ok(rows)
}

impl Row {
    pub(super) fn to_json(&self) -> Value {
        match self {
            Self::Latest { latest, lag } => json!({
                "ID": latest.entity.as_str(),
                "Version": latest.version,
                "Deleted": latest.deleted,
                "RecordedAt": latest.recorded_at.map(|time| time.to_string()),
                "Behind": lag,
            }),
            Self::Request(entity, version) => json!({"ID": entity.as_str(), "Version": version}),
        }
    }

    fn html(&self) -> Markup {
        let (latest, lag) = match self {
            Self::Latest { latest, lag } => (latest, *lag),
            Self::Request(entity, version) => {
                let id = entity.as_str();
                return html! { tr {
                    th scope="row" { (entity_link(id)) }
                    td { a href=(address::version("/version", id, version.get())) { "version " (version) } }
                } };
            }
        };
        html! {
            tr {
                th scope="row" { (entity_link(latest.entity.as_str())) }
                td { @if let Some(time) = latest.recorded_at { (time::recorded(time)) } @else { span.muted { "Unknown" } } }
                td.right {
                    @match latest.version { Some(version) => { (version) } None => { span.bad { "None" } } }
                }
                td { @if latest.deleted { span.tag.dead { "deleted" } } @else { span.tag { "live" } } }
                td {
                    @match lag {
                        Some(0) => span.good { "None" },
                        Some(1) => span.warn { "1 version" },
                        Some(versions) => span.warn { (versions) " versions" },
                        None => span.warn { "1 version or more" },
                    }
                }
            }
        }
    }
}

pub(super) fn body(query: &Query, results: &Results<'_>) -> Markup {
    html! {
        h1 { "Entities" }
        (form(query, results.search))
        @if let Some(exact) = results.exact {
            p.note { "Exact match: " (entity_link(exact.as_str())) }
        }
        p.muted role="status" { (coverage(results)) }
        @if !results.rows.is_empty() { (table(results)) }
        (pages(query, results.next))
    }
}

fn form(query: &Query, search: &Search) -> Markup {
    let state = query.state.as_deref().unwrap_or("all");
    let is_request = matches!(search, Search::Request(_));
    html! {
        form.row method="get" action="/" {
            label { "Find " input type="search" name="find" value=[query.find.as_deref()] spellcheck="false" autocomplete="off" maxlength="2048"; }
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
    html! {
        div.scroll role="region" aria-label="Entities" tabindex="0" {
            table {
                caption.hidden { @match results.search { Search::Latest(_) => "Entities", Search::Request(_) => "Versions of the request" } }
                thead { tr {
                    th scope="col" { "Entity" }
                    @match results.search {
                        Search::Request(_) => th scope="col" { "Version" },
                        Search::Latest(_) => {
                            th scope="col" { "Last change" }
                            th.right scope="col" { "Version" }
                            th scope="col" { "State" }
                            th scope="col" { "History lag" }
                        },
                    }
                } }
                tbody { @for row in results.rows { (row.html()) } }
            }
        }
    }
}

fn pages(query: &Query, next: Option<&PageCursor>) -> Markup {
    let page = |cursor: Option<String>| {
        link(
            "/",
            [
                ("find", query.find.0.clone()),
                ("by", query.by.0.clone()),
                ("state", query.state.0.clone()),
                ("page", cursor),
            ],
        )
    };
    html! {
        nav.pages aria-label="Pages" {
            @if query.page.is_some() { a href=(page(None)) { "First page" } }
            @if let Some(next) = next { a rel="next" href=(page(Some(next.text()))) { "Next" } }
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
