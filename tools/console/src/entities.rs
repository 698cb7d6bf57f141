//! Entities of the table, the most recently changed first, and the versions that a request created.
//!
//! Four segments of the table are scanned in parallel, until the page has 50 results, the table ends, or 3 seconds have passed.
//! What was read is one chunk: its results are sorted and divided into pages. The address of the next page contains the position of
//! each segment at the start of its chunk, so a further page of a chunk reads it again.

mod cursor;
mod find;
mod show;

use operations::read::scan_latest::LatestFilter;
use serde::Deserialize;
use serde_json::json;
use shared::domain::{entity::EntityId, keys::LATEST_KEY};

use self::{
    cursor::PageCursor,
    find::{Found, Search},
    show::Row,
};
use super::{
    app::App,
    page::{Section, View},
    query::Param,
};
use crate::error::PageError;

/// Number of segments that are scanned in parallel.
const SEGMENTS: u32 = 4;
const PAGE: usize = 50;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Query {
    find: Param,
    by: Param,
    state: Param,
    page: Param,
}

pub(super) async fn view(app: &App, query: Query) -> Result<View, PageError> {
    let deleted = match query.state.as_deref() {
        None | Some("all") => None,
        Some("live") => Some(false),
        Some("deleted") => Some(true),
        Some(_) => return Err(unexpected("state", "all, live or deleted")),
    };
    let text = query.find.as_deref().unwrap_or_default().to_owned();
    let search = match (query.by.as_deref(), text.is_empty()) {
        (None | Some("key"), _) | (Some("request"), true) => Search::Latest(LatestFilter { text, deleted }),
        (Some("request"), false) => Search::Request(text),
        (Some(_), _) => return Err(unexpected("by", "key or request")),
    };
    let segments = find::segments(app.store(), &search);
    let start = match query.page.as_deref() {
        Some(page) => {
            PageCursor::parse(page, segments.len()).ok_or_else(|| unexpected("page", "the address of a page"))?
        }
        None => PageCursor::first(segments.len()),
    };
    let (exact, found, table) = futures::join!(
        exact(app, &search, query.page.is_none()),
        find::find(app.store(), &search, &segments, start),
        // The number is only shown, and it requires a permission of its own.
        app.store().describe(),
    );
    let (exact, found) = (exact?, found?);
    let items = table
        .ok()
        .map(|table| table.items)
        .filter(|_| segments.len() == SEGMENTS as usize);
    let Found { results, read, next } = found;
    let rows = show::rows(app, results).await?;
    let json = json!({
        "Entities": rows.iter().map(Row::to_json).collect::<Vec<_>>(),
        "Exact": exact.as_ref().map(EntityId::as_str),
        "ItemsRead": read,
        "AboutItems": items,
        "Next": next.as_ref().map(PageCursor::text),
    });
    Ok(View {
        title: "Entities".to_owned(),
        section: Section::Entities,
        body: show::body(
            &query,
            &show::Results {
                search: &search,
                exact: exact.as_ref(),
                rows: &rows,
                read,
                items,
                next: next.as_ref(),
            },
        ),
        json,
    })
}

/// Returns the entity with the text as its complete key, which is read directly.
async fn exact(app: &App, search: &Search, is_first: bool) -> Result<Option<EntityId>, PageError> {
    let Search::Latest(filter) = search else {
        return Ok(None);
    };
    match EntityId::new(filter.text.clone()) {
        Ok(entity) if is_first => {
            let found = app.store().get(&entity, LATEST_KEY, false).await?;
            Ok(found.map(|_| entity))
        }
        _ => Ok(None),
    }
}

fn unexpected(field: &'static str, expected: &'static str) -> PageError {
    PageError::Unexpected { field, expected }
}
