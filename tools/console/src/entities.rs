//! Entities of the table, the most recently changed first.
//!
//! Four segments of the table are scanned in parallel, until the page has 50 results, the table ends, or 3 seconds have passed.
//! What was read is one chunk: its results are sorted and divided into pages. The address of the next page contains the position of
//! each segment at the start of its chunk, so a further page of a chunk reads it again.

mod find;

use maud::{Markup, html};
use operations::read::scans::{LatestFilter, LatestItem};
use serde_json::{Value, json};
use shared::{
    domain::{entity::EntityId, keys::LATEST_KEY},
    dynamodb::read::describe_table::items_of,
};

use self::find::{Found, Position};
use super::{
    address,
    app::App,
    current, menu,
    page::{self, View, entity_link},
    query::Query,
    time,
    value::{self, DisplayLimits},
};
use crate::error::PageError;

struct Results {
    exact: Option<EntityId>,
    found: Found,
    /// Approximate number of items of the table, if it is known.
    items: Option<u64>,
}

pub(super) async fn view(app: &App, query: &Query) -> Result<View, PageError> {
    let states = [("all", None), ("live", Some(false)), ("deleted", Some(true))];
    let deleted = query.choice("state", &states, "all, live or deleted")?;
    let text = query.text("find").unwrap_or_default().to_owned();
    let filter = LatestFilter { text, deleted };
    let start = match query.text("page") {
        Some(page) => Position::parse(page).ok_or(PageError::Unexpected("page", "the address of a page"))?,
        None => Position::first(),
    };
    let (exact, found, described) = futures::join!(
        exact(app, &filter, query.text("page").is_none()),
        find::find(app.store(), &filter, start),
        // The number is only shown, and it requires a permission of its own.
        app.store().description(),
    );
    let results = Results {
        exact: exact?,
        found: found?,
        items: described
            .ok()
            .map(|table| items_of(&table))
            .filter(|_| !current::is_attached()),
    };
    let next = results.found.next.as_ref().map(Position::text);
    let json = json!({
        "Entities": results.found.results.iter().map(to_json).collect::<Vec<_>>(),
        "Exact": results.exact.as_ref().map(EntityId::as_str),
        "ItemsRead": results.found.read,
        "AboutItems": results.items,
        "Next": next,
        "Table": app.connection.table,
        "Tables": app.menu.listed().iter().map(menu::to_json).collect::<Vec<_>>(),
    });
    let body = html! {
        h1 { "Entities" }
        (form(query))
        @if let Some(exact) = &results.exact { p.note { "Exact match: " (entity_link(exact.as_str())) } }
        p.muted role="status" { (coverage(&results)) }
        @if !results.found.results.is_empty() { (table(&results)) }
        (pages(query, next))
    };
    Ok(View::new("Entities", body, json))
}

/// Returns the entity with the text as its complete key, which is read directly.
async fn exact(app: &App, filter: &LatestFilter, is_first: bool) -> Result<Option<EntityId>, PageError> {
    match current::entity(&filter.text) {
        Ok(entity) if is_first => {
            let found = app.store().get(&entity, LATEST_KEY, false).await?;
            Ok(found.map(|_| entity))
        }
        _ => Ok(None),
    }
}

fn to_json(found: &LatestItem) -> Value {
    json!({
        "ID": found.entity.as_str(), "Version": found.version, "Deleted": found.deleted,
        "RecordedAt": found.recorded_at.map(|time| time.to_string()),
    })
}

fn row(found: &LatestItem) -> Markup {
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
            td { @if let Some(time) = found.recorded_at { (time::recorded(time)) } @else { span.muted { "Unknown" } } }
            td.right { @if let Some(version) = found.version { (version) } @else { span.bad { "None" } } }
            td { @if found.deleted { span.tag.dead { "deleted" } } @else { span.tag { "live" } } }
        }
    }
}

fn form(query: &Query) -> Markup {
    let state = query.text("state").unwrap_or("all");
    html! {
        form.row method="get" action="/" {
            (page::table_field())
            label { "Find " input type="search" name="find" value=[query.text("find")] spellcheck="false" autocomplete="off" maxlength="2048"; }
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
fn coverage(results: &Results) -> Markup {
    html! {
        @match results.found.results.len() {
            0 => "No matching entities. ",
            1 => "1 entity. ",
            count => { (count) " entities, the most recently changed first. " },
        }
        "Items read: " (results.found.read)
        @if results.found.next.is_none() { ", up to the end of the " @if current::is_attached() { "history" } @else { "table" } }
        @else if let Some(items) = results.items.filter(|items| *items > 0) {
            " of about " (items) " (" (percent(results.found.read, items)) " %)"
        }
        "."
        @if results.found.next.is_some() { " Choose Next to search further." }
    }
}

/// Returns the part that was read, below 100 because the table has more items.
fn percent(read: u64, items: u64) -> u64 {
    (read.saturating_mul(100) / items.max(1)).min(99)
}

fn table(results: &Results) -> Markup {
    let names = current::key_names();
    let label = if names.is_some() { "Items" } else { "Entities" };
    let mut names = names.unwrap_or_else(|| vec!["Entity".to_owned()]);
    names.extend(["Last change", "Version", "State"].map(str::to_owned));
    let rows = html! { @for row in &results.found.results { (self::row(row)) } };
    page::table(label, &names, &rows)
}

fn pages(query: &Query, next: Option<String>) -> Markup {
    let page = |position: Option<String>| {
        let filter = ["find", "state"].map(|name| (name, query.text(name).map(str::to_owned)));
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
