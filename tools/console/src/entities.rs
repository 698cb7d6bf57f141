//! Entities of the table, the most recently changed first, and the versions that a request created.
//!
//! Four segments of the table are scanned in parallel, until the page has 50 results, the table ends, or 3 seconds have passed.
//! What was read is one chunk: its results are sorted and divided into pages. The address of the next page contains the position of
//! each segment at the start of its chunk, so a further page of a chunk reads it again.

mod find;
mod show;

use operations::read::scans::LatestFilter;
use serde_json::json;
use shared::{
    domain::{entity::EntityId, keys::LATEST_KEY},
    dynamodb::read::describe_table::items_of,
};

use self::{
    find::{Found, Position, SEGMENTS, Search},
    show::Results,
};
use super::{app::App, current, menu, page::View, query::Query};
use crate::error::PageError;

pub(super) async fn view(app: &App, query: &Query) -> Result<View, PageError> {
    let states = [("all", None), ("live", Some(false)), ("deleted", Some(true))];
    let deleted = query.choice("state", &states, "all, live or deleted")?;
    let by_request = query.choice("by", &[("key", false), ("request", true)], "key or request")?;
    let text = query.text("find").unwrap_or_default().to_owned();
    let search = match by_request && !text.is_empty() {
        true => Search::Request(text),
        false => Search::Latest(LatestFilter { text, deleted }),
    };
    let segments = search.segments(app.store());
    let start = match query.text("page") {
        Some(page) => Position::parse(page, segments).ok_or(PageError::Unexpected("page", "the address of a page"))?,
        None => Position::first(segments),
    };
    let (exact, found, table) = futures::join!(
        exact(app, &search, query.text("page").is_none()),
        find::find(app.store(), &search, start),
        // The number is only shown, and it requires a permission of its own.
        app.store().description(),
    );
    let Found { results, read, next } = found?;
    let results = Results {
        search: &search,
        exact: exact?,
        rows: results,
        read,
        items: table
            .ok()
            .map(|table| items_of(&table))
            .filter(|_| segments == SEGMENTS && !current::is_attached()),
        next: next.as_ref().map(Position::text),
    };
    let json = json!({
        "Entities": results.rows.iter().map(|row| show::to_json(row, &search)).collect::<Vec<_>>(),
        "Exact": results.exact.as_ref().map(EntityId::as_str),
        "ItemsRead": read,
        "AboutItems": results.items,
        "Next": results.next,
        "Table": app.connection.table,
        "Tables": app.menu.listed().iter().map(menu::to_json).collect::<Vec<_>>(),
    });
    Ok(View::new("Entities", show::body(query, &results), json))
}

/// Returns the entity with the text as its complete key, which is read directly.
async fn exact(app: &App, search: &Search, is_first: bool) -> Result<Option<EntityId>, PageError> {
    match search {
        Search::Latest(filter) if is_first && let Ok(entity) = current::entity(&filter.text) => {
            let found = app.store().get(&entity, LATEST_KEY, false).await?;
            Ok(found.map(|_| entity))
        }
        _ => Ok(None),
    }
}
