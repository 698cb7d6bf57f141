//! Entities of the table, the most recently changed first, and the versions that a request created.
//!
//! Four segments of the table are scanned in parallel, until the page has 50 results, the table ends, or 3 seconds have passed.
//! What was read is one chunk: its results are sorted and divided into pages. The address of the next page contains the position of
//! each segment at the start of its chunk, so a further page of a chunk reads it again.

mod find;
mod show;

use operations::read::scan_latest::LatestFilter;
use serde::Deserialize;
use serde_json::json;
use shared::domain::{entity::EntityId, keys::LATEST_KEY};

use self::{
    find::{Found, Position, SEGMENTS, Search},
    show::Results,
};
use super::{
    app::App,
    page::{Section, View},
    query::Param,
};
use crate::error::PageError;

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
        Some(_) => return Err(PageError::Unexpected("state", "all, live or deleted")),
    };
    let text = query.find.as_deref().unwrap_or_default().to_owned();
    let search = match (query.by.as_deref(), text.is_empty()) {
        (None | Some("key"), _) | (Some("request"), true) => Search::Latest(LatestFilter { text, deleted }),
        (Some("request"), false) => Search::Request(text),
        (Some(_), _) => return Err(PageError::Unexpected("by", "key or request")),
    };
    let segments = search.segments(app.store());
    let start = match query.page.as_deref() {
        Some(page) => {
            Position::parse(page, segments).ok_or_else(|| PageError::Unexpected("page", "the address of a page"))?
        }
        None => Position::first(segments),
    };
    let (exact, found, table) = futures::join!(
        exact(app, &search, query.page.is_none()),
        find::find(app.store(), &search, start),
        // The number is only shown, and it requires a permission of its own.
        app.store().describe(),
    );
    let Found { results, read, next } = found?;
    let results = Results {
        search: &search,
        exact: exact?,
        rows: show::rows(app, &search, results).await?,
        read,
        items: table.ok().map(|table| table.items).filter(|_| segments == SEGMENTS),
        next: next.as_ref().map(Position::text),
    };
    Ok(View {
        title: "Entities".to_owned(),
        section: Section::Entities,
        body: show::body(&query, &results),
        json: json!({
            "Entities": results.rows.iter().map(|row| row.to_json(&search)).collect::<Vec<_>>(),
            "Exact": results.exact.as_ref().map(EntityId::as_str),
            "ItemsRead": read,
            "AboutItems": results.items,
            "Next": results.next,
        }),
    })
}

/// Returns the entity with the text as its complete key, which is read directly.
async fn exact(app: &App, search: &Search, is_first: bool) -> Result<Option<EntityId>, PageError> {
    match search {
        Search::Latest(filter) if is_first && let Ok(entity) = EntityId::new(filter.text.clone()) => {
            let found = app.store().get(&entity, LATEST_KEY, false).await?;
            Ok(found.map(|_| entity))
        }
        _ => Ok(None),
    }
}
