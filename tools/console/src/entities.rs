//! Entities of the table, page by page.
//!
//! Four segments of the table are scanned in parallel, until the page has 50 entities, the table ends, or 3 seconds have
//! passed. The address of the next page contains the position of each segment.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use futures::future::try_join_all;
use maud::{Markup, html};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use shared::{
    domain::{entity::EntityId, keys::LATEST_KEY, names, version::Version},
    dynamodb::read::{
        query_items::Cursor,
        scan_latest::{LatestFilter, LatestItem, LatestPage},
        scan_segment::Segment,
    },
};

use super::{
    app::App,
    page::{Section, View, entity_link},
    query::{Param, link},
    time,
};
use crate::error::PageError;

/// Number of segments that are scanned in parallel.
const SEGMENTS: u32 = 4;
const PAGE: usize = 50;
/// Minimum and maximum number of items that a request reads if the filter selects some of them.
const MIN_ITEMS: i32 = 13;
const MAX_ITEMS: i32 = 1000;
const PAGE_TIMEOUT: Duration = Duration::from_secs(3);
const MAX_LAGS: usize = 10;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Query {
    prefix: Param,
    state: Param,
    page: Param,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct PageCursor(Vec<SegmentCursor>);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum SegmentCursor {
    #[serde(rename = "s")]
    Start,
    #[serde(rename = "k")]
    After(String, String),
    #[serde(rename = "e")]
    End,
}

struct Found {
    latest: Vec<LatestItem>,
    /// Number of items that were read.
    read: u64,
    next: Option<PageCursor>,
}

struct Row {
    latest: LatestItem,
    /// Number of versions that are not in history yet, `None` for an unknown number of at least one.
    lag: Option<u64>,
}

pub(super) async fn view(app: &App, query: Query) -> Result<View, PageError> {
    let filter = LatestFilter {
        prefix: query.prefix.as_deref().unwrap_or_default().to_owned(),
        deleted: match query.state.as_deref() {
            None | Some("all") => None,
            Some("live") => Some(false),
            Some("deleted") => Some(true),
            Some(_) => return Err(unexpected("state", "all, live or deleted")),
        },
    };
    let (start, exact) = match query.page.as_deref() {
        Some(page) => {
            let cursor = PageCursor::parse(page).ok_or_else(|| unexpected("page", "the address of a page"))?;
            (cursor, None)
        }
        // A complete key is read directly.
        None => (
            PageCursor(vec![SegmentCursor::Start; SEGMENTS as usize]),
            exact(app, &filter).await?,
        ),
    };
    let Found { latest, read, next } = find(app, &filter, start).await?;
    let rows = rows(app, latest).await?;
    let json = json!({
        "Entities": rows.iter().map(Row::to_json).collect::<Vec<_>>(),
        "Exact": exact.as_ref().map(EntityId::as_str),
        "ItemsRead": read,
        "Next": next.as_ref().map(PageCursor::text),
    });
    Ok(View {
        title: "Entities".to_owned(),
        section: Section::Entities,
        body: body(&query, exact.as_ref(), &rows, read, next.as_ref()),
        json,
    })
}

async fn exact(app: &App, filter: &LatestFilter) -> Result<Option<EntityId>, PageError> {
    let Ok(entity) = EntityId::new(filter.prefix.clone()) else {
        return Ok(None);
    };
    let found = app.store().get(&entity, LATEST_KEY, false).await?;
    Ok(found.map(|_| entity))
}

/// Scans the segments in parallel, until the page is full, the table ends, or the time is over.
async fn find(app: &App, filter: &LatestFilter, PageCursor(mut segments): PageCursor) -> Result<Found, PageError> {
    let started = Instant::now();
    let (mut latest, mut read) = (Vec::new(), 0);
    let has_more = |segments: &[SegmentCursor]| segments.iter().any(|segment| *segment != SegmentCursor::End);
    while has_more(&segments) && latest.len() < PAGE && started.elapsed() < PAGE_TIMEOUT {
        let limit = limit(latest.len(), read);
        let total = u32::try_from(segments.len()).unwrap_or(1);
        let pages = (0..total).zip(&segments).map(async |(index, cursor)| match cursor {
            SegmentCursor::End => Ok(None),
            cursor => app
                .store()
                .scan_latest(Segment { index, total }, filter, cursor.start_key(), limit)
                .await
                .map(Some),
        });
        let pages = try_join_all(pages).await?;
        for (page, cursor) in pages.into_iter().zip(&mut segments) {
            let Some(mut page) = page else { continue };
            read += page.read;
            // If not all fit on this page, the next page begins after the last one that does.
            let room = PAGE - latest.len();
            if page.items.len() > room {
                page.items.truncate(room);
                if let Some(last) = page.items.last() {
                    *cursor = SegmentCursor::After(last.entity.as_str().to_owned(), LATEST_KEY.to_owned());
                }
            } else {
                *cursor = SegmentCursor::after(&page);
            }
            latest.extend(page.items);
        }
    }
    latest.sort_by(|a, b| a.entity.cmp(&b.entity));
    let next = has_more(&segments).then_some(PageCursor(segments));
    Ok(Found { latest, read, next })
}

/// Returns the number of items that the next request of a segment reads, estimated from the matches so far.
fn limit(found: usize, read: u64) -> Option<i32> {
    match (found as u64, read) {
        (_, 0) => Some(MIN_ITEMS),
        // Without a match, whole pages are read.
        (0, _) => None,
        (found, read) => {
            let left = (PAGE as u64).saturating_sub(found);
            let items = left * read / found / u64::from(SEGMENTS);
            Some(i32::try_from(items).unwrap_or(MAX_ITEMS).clamp(MIN_ITEMS, MAX_ITEMS))
        }
    }
}

/// Reads the lag of the history of each entity.
async fn rows(app: &App, latest: Vec<LatestItem>) -> Result<Vec<Row>, PageError> {
    let versions: Vec<_> = latest
        .iter()
        .filter_map(|latest| Some((latest.entity.clone(), latest.version?)))
        .collect();
    let recorded: HashSet<_> = app.store().versions_in_history(&versions, app.consistent()).await?;
    let mut lags_read = 0;
    let mut rows = Vec::with_capacity(latest.len());
    for latest in latest {
        let is_behind = latest.version.is_some() && !recorded.contains(&latest.entity);
        let lag = match is_behind {
            false => Some(0),
            true if lags_read < MAX_LAGS => {
                lags_read += 1;
                let lag = app.store().lag(&latest.entity).await?;
                lag.map(|lag| lag.latest.get() - lag.through.map_or(0, Version::get))
            }
            true => None,
        };
        rows.push(Row { latest, lag });
    }
    Ok(rows)
}

impl SegmentCursor {
    fn after(page: &LatestPage) -> Self {
        let key = |name: &str| page.next.as_ref()?.get(name)?.as_s().ok().cloned();
        match (key(names::PK), key(names::SK)) {
            (Some(partition_key), Some(sort_key)) => Self::After(partition_key, sort_key),
            _ => Self::End,
        }
    }

    fn start_key(&self) -> Option<Cursor> {
        use aws_sdk_dynamodb::types::AttributeValue::S;
        match self {
            Self::After(partition_key, sort_key) => Some(Cursor::from([
                (names::PK.to_owned(), S(partition_key.clone())),
                (names::SK.to_owned(), S(sort_key.clone())),
            ])),
            Self::Start | Self::End => None,
        }
    }
}

impl PageCursor {
    fn text(&self) -> String {
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).unwrap_or_default())
    }

    fn parse(text: &str) -> Option<Self> {
        let cursor: Self = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).ok()?).ok()?;
        (cursor.0.len() == SEGMENTS as usize).then_some(cursor)
    }
}

impl Row {
    fn to_json(&self) -> Value {
        json!({
            "ID": self.latest.entity.as_str(),
            "Version": self.latest.version,
            "Deleted": self.latest.deleted,
            "RecordedAt": self.latest.recorded_at.map(|time| time.to_string()),
            "Behind": self.lag,
        })
    }

    fn html(&self) -> Markup {
        let LatestItem {
            entity,
            version,
            deleted,
            recorded_at,
        } = &self.latest;
        html! {
            tr {
                th scope="row" { (entity_link(entity.as_str())) }
                td.right {
                    @match version { Some(version) => { (version) } None => { span.bad { "None" } } }
                }
                td { @if *deleted { span.tag.dead { "deleted" } } @else { span.tag { "live" } } }
                td { @if let Some(time) = recorded_at { (time::recorded(*time)) } @else { span.muted { "Unknown" } } }
                td {
                    @match self.lag {
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

fn body(query: &Query, exact: Option<&EntityId>, rows: &[Row], read: u64, next: Option<&PageCursor>) -> Markup {
    let state = query.state.as_deref().unwrap_or("all");
    let next = next.map(|next| {
        link(
            "/",
            [
                ("prefix", query.prefix.0.clone()),
                ("state", query.state.0.clone()),
                ("page", Some(next.text())),
            ],
        )
    });
    html! {
        h1 { "Entities" }
        form.row method="get" action="/" {
            label { "Key prefix " input type="search" name="prefix" value=[query.prefix.as_deref()] spellcheck="false" autocomplete="off" maxlength="2048"; }
            fieldset {
                legend.hidden { "State" }
                @for (name, label) in [("all", "All"), ("live", "Live"), ("deleted", "Deleted")] {
                    label { input type="radio" name="state" value=(name) checked[state == name]; " " (label) }
                }
            }
            button { "Show" }
        }
        @if let Some(exact) = exact {
            p.note { "Exact match: " (entity_link(exact.as_str())) }
        }
        @if rows.is_empty() {
            p.note role="status" {
                @if next.is_some() { "No match in " (read) " items so far. Choose Next to search further." }
                @else { "No matching entities. Items read: " (read) "." }
            }
        } @else {
            div.scroll role="region" aria-label="Entities" tabindex="0" {
                table {
                    caption { (rows.len()) " entities. Items read: " (read) }
                    thead { tr {
                        th scope="col" { "Entity" }
                        th.right scope="col" { "Version" }
                        th scope="col" { "State" }
                        th scope="col" { "Last change (UTC)" }
                        th scope="col" { "History lag" }
                    } }
                    tbody { @for row in rows { (row.html()) } }
                }
            }
        }
        nav.pages aria-label="Pages" {
            @if query.page.is_some() {
                a href=(link("/", [("prefix", query.prefix.0.clone()), ("state", query.state.0.clone())])) { "First page" }
            }
            @if let Some(next) = next { a rel="next" href=(next) { "Next" } }
        }
    }
}

fn unexpected(field: &'static str, expected: &'static str) -> PageError {
    PageError::Unexpected { field, expected }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_sizes_follow_the_share_of_matches() {
        for (found, read, expected) in [
            (0, 0, Some(13)),
            (0, 52, None),
            (25, 50, Some(13)),
            (5, 500, Some(1000)),
            (10, 200, Some(200)),
            (1, 1_000_000, Some(1000)),
        ] {
            assert_eq!(limit(found, read), expected, "{found} of {read}");
        }
    }

    #[test]
    fn page_cursors_survive_a_round_trip() {
        let cursor = PageCursor(vec![
            SegmentCursor::Start,
            SegmentCursor::After("Equipment#1 \"ü\"".to_owned(), "v10".to_owned()),
            SegmentCursor::End,
            SegmentCursor::End,
        ]);
        assert_eq!(PageCursor::parse(&cursor.text()), Some(cursor));
        for text in ["", "x", "bnVsbA", "W10"] {
            assert_eq!(PageCursor::parse(text), None, "{text}");
        }
    }
}
