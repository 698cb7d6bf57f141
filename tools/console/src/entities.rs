//! The entities of the table: their latest items, page by page.

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
    domain::{entity::EntityId, names, version::Version},
    dynamodb::read::{
        query_items::Cursor,
        scan_latest::{LatestFilter, LatestItem, LatestPage},
        scan_segment::Segment,
    },
};

use super::{
    app::App,
    page::{Place, View},
    query::{given, link},
    time, value,
};
use crate::error::PageError;

/// In how many parts the table is read at once.
const SEGMENTS: u32 = 4;
/// A page has about so many entities.
const PAGE: usize = 50;
/// The least and the most items that one request reads, where some of them are shown.
const LEAST: i32 = 13;
const MOST: i32 = 1000;
/// No page is waited for longer: what was found is shown, and where to go on.
const PATIENCE: Duration = Duration::from_secs(3);
/// Of so many entities at most, how far behind their history is, is looked up.
const LAGGING: usize = 10;

/// What an address asks for.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Query {
    #[serde(default, deserialize_with = "given")]
    prefix: Option<String>,
    #[serde(default, deserialize_with = "given")]
    state: Option<String>,
    #[serde(default, deserialize_with = "given")]
    page: Option<String>,
}

/// How far each segment is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Stands(Vec<Stand>);

/// How far a segment is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum Stand {
    #[serde(rename = "s")]
    Start,
    #[serde(rename = "k")]
    After(String, String),
    #[serde(rename = "e")]
    End,
}

/// What was found.
struct Found {
    heads: Vec<LatestItem>,
    read: u64,
    next: Option<Stands>,
}

/// How far the history of an entity is behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Behind {
    By(u64),
    /// It is, and nobody looked by how much.
    Somehow,
}

/// An entity, and what is known of its history.
struct Row {
    head: LatestItem,
    behind: Behind,
}

pub(super) async fn view(app: &App, query: Query) -> Result<View, PageError> {
    let wanted = LatestFilter {
        prefix: query.prefix.clone().unwrap_or_default(),
        deleted: match query.state.as_deref() {
            None | Some("all") => None,
            Some("live") => Some(false),
            Some("deleted") => Some(true),
            Some(_) => return Err(PageError::Invalid("state: it is all, live or deleted".to_owned())),
        },
    };
    let begin = match &query.page {
        Some(page) => {
            Stands::parse(page).ok_or_else(|| PageError::Invalid("page: it is none of these pages".to_owned()))?
        }
        None => Stands(vec![Stand::Start; SEGMENTS as usize]),
    };
    let is_first = query.page.is_none();
    // A whole key needs no search.
    let exact = match is_first {
        true => exact(app, &wanted).await?,
        false => None,
    };
    let Found { heads, read, next } = find(app, &wanted, begin).await?;
    let rows = rows(app, heads).await?;
    let json = json!({
        "Entities": rows.iter().map(Row::to_json).collect::<Vec<_>>(),
        "Exact": exact.as_ref().map(EntityId::as_str),
        "ItemsRead": read,
        "Next": next.as_ref().map(Stands::text),
    });
    Ok(View {
        title: "Entities".to_owned(),
        place: Place::Entities,
        body: body(&query, exact.as_ref(), &rows, read, next.as_ref()),
        json,
    })
}

async fn exact(app: &App, wanted: &LatestFilter) -> Result<Option<EntityId>, PageError> {
    let Ok(entity) = EntityId::new(wanted.prefix.clone()) else {
        return Ok(None);
    };
    let key = app.store().digits().latest_key();
    let found = app.store().get(&entity, &key, false).await?;
    Ok(found.map(|_| entity))
}

/// Reads the segments side by side, until there is a page, or no more, or no more time.
async fn find(app: &App, wanted: &LatestFilter, Stands(mut stands): Stands) -> Result<Found, PageError> {
    let began = Instant::now();
    let (mut heads, mut read) = (Vec::new(), 0);
    while stands.iter().any(|stand| *stand != Stand::End) && heads.len() < PAGE && began.elapsed() < PATIENCE {
        let limit = limit(heads.len(), read);
        let total = u32::try_from(stands.len()).unwrap_or(1);
        let pages = (0..total).zip(&stands).map(async |(index, stand)| match stand {
            Stand::End => Ok(None),
            stand => app
                .store()
                .scan_latest(Segment { index, total }, wanted, stand.cursor(), limit)
                .await
                .map(Some),
        });
        let pages = try_join_all(pages).await?;
        for (page, stand) in pages.into_iter().zip(&mut stands) {
            let Some(mut page) = page else { continue };
            read += page.read;
            // Of what is too much for this page, the next one begins behind the last that is shown.
            let room = PAGE - heads.len();
            if page.items.len() > room {
                page.items.truncate(room);
                if let Some(last) = page.items.last() {
                    *stand = Stand::After(last.entity.as_str().to_owned(), app.store().digits().latest_key());
                }
            } else {
                *stand = Stand::after(&page);
            }
            heads.extend(page.items);
        }
    }
    heads.sort_by(|a, b| a.entity.cmp(&b.entity));
    let next = stands
        .iter()
        .any(|stand| *stand != Stand::End)
        .then_some(Stands(stands));
    Ok(Found { heads, read, next })
}

/// How many items the next request of a segment reads: as many as will do, by what was found so far.
fn limit(found: usize, read: u64) -> Option<i32> {
    match (found as u64, read) {
        (_, 0) => Some(LEAST),
        // What leaves out all of it is read through in large steps.
        (0, _) => None,
        (found, read) => {
            let left = (PAGE as u64).saturating_sub(found);
            let items = left * read / found / u64::from(SEGMENTS);
            Some(i32::try_from(items).unwrap_or(MOST).clamp(LEAST, MOST))
        }
    }
}

/// Looks whether the latest versions are in history.
async fn rows(app: &App, heads: Vec<LatestItem>) -> Result<Vec<Row>, PageError> {
    let versions: Vec<_> = heads
        .iter()
        .filter_map(|head| Some((head.entity.clone(), head.version?)))
        .collect();
    let recorded: HashSet<_> = app.store().versions_in_history(&versions, app.consistent()).await?;
    let mut looked = 0;
    let mut rows = Vec::with_capacity(heads.len());
    for head in heads {
        let is_behind = head.version.is_some() && !recorded.contains(&head.entity);
        let behind = match is_behind {
            false => Behind::By(0),
            true if looked < LAGGING => {
                looked += 1;
                match app.store().lag(&head.entity).await? {
                    Some(lag) => Behind::By(lag.latest.get() - lag.through.map_or(0, Version::get)),
                    None => Behind::Somehow,
                }
            }
            true => Behind::Somehow,
        };
        rows.push(Row { head, behind });
    }
    Ok(rows)
}

impl Stand {
    fn after(page: &LatestPage) -> Self {
        let key = |name: &str| page.next.as_ref()?.get(name)?.as_s().ok().cloned();
        match (key(names::PK), key(names::SK)) {
            (Some(partition_key), Some(sort_key)) => Self::After(partition_key, sort_key),
            _ => Self::End,
        }
    }

    fn cursor(&self) -> Option<Cursor> {
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

impl Stands {
    fn text(&self) -> String {
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).unwrap_or_default())
    }

    fn parse(text: &str) -> Option<Self> {
        let place: Self = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).ok()?).ok()?;
        (place.0.len() == SEGMENTS as usize).then_some(place)
    }
}

impl Row {
    fn to_json(&self) -> Value {
        json!({
            "ID": self.head.entity.as_str(),
            "Version": self.head.version,
            "Deleted": self.head.deleted,
            "Time": self.head.time.map(time::iso),
            "Behind": match self.behind { Behind::By(versions) => json!(versions), Behind::Somehow => Value::Null },
        })
    }

    fn html(&self) -> Markup {
        let LatestItem {
            entity,
            version,
            deleted,
            time,
        } = &self.head;
        html! {
            tr {
                th scope="row" { a.key href=(link("/entity", [("id", Some(entity.as_str().to_owned()))])) { (value::word(entity.as_str())) } }
                td.right {
                    @match version { Some(version) => { (version) } None => { span.bad { "none" } } }
                }
                td { @if *deleted { span.tag.dead { "deleted" } } @else { span.tag { "live" } } }
                td { @if let Some(time) = time { (time::shown(*time)) } @else { span.muted { "not said" } } }
                td {
                    @match self.behind {
                        Behind::By(0) => span.good { "none" },
                        Behind::By(versions) => span.warn { (versions) @if versions == 1 { " version" } @else { " versions" } },
                        Behind::Somehow => span.warn { "some" },
                    }
                }
            }
        }
    }
}

fn body(query: &Query, exact: Option<&EntityId>, rows: &[Row], read: u64, next: Option<&Stands>) -> Markup {
    let state = query.state.as_deref().unwrap_or("all");
    let next = next.map(|next| {
        link(
            "/",
            [
                ("prefix", query.prefix.clone()),
                ("state", query.state.clone()),
                ("page", Some(next.text())),
            ],
        )
    });
    html! {
        h1 { "Entities" }
        form.row method="get" action="/" {
            label { "Key begins with " input type="search" name="prefix" value=[query.prefix.as_deref()] spellcheck="false" autocomplete="off" maxlength="2048"; }
            fieldset {
                legend.hidden { "State" }
                @for (name, label) in [("all", "All"), ("live", "Live"), ("deleted", "Deleted")] {
                    label { input type="radio" name="state" value=(name) checked[state == name]; " " (label) }
                }
            }
            button { "Show" }
        }
        @if let Some(exact) = exact {
            p.note { "There is an entity of this very key: " a.key href=(link("/entity", [("id", Some(exact.as_str().to_owned()))])) { (value::word(exact.as_str())) } }
        }
        @if rows.is_empty() {
            p.note role="status" {
                @if next.is_some() { "Nothing so far, among " (read) " items. There is more to look through." }
                @else { "There is no such entity, among " (read) " items." }
            }
        } @else {
            div.scroll role="region" aria-label="Entities" tabindex="0" {
                table {
                    caption { (rows.len()) " entities, of " (read) " items that were read" }
                    thead { tr {
                        th scope="col" { "Entity" }
                        th.right scope="col" { "Version" }
                        th scope="col" { "State" }
                        th scope="col" { "Last change (UTC)" }
                        th scope="col" { "History behind by" }
                    } }
                    tbody { @for row in rows { (row.html()) } }
                }
            }
        }
        nav.pages aria-label="Pages" {
            @if query.page.is_some() {
                a href=(link("/", [("prefix", query.prefix.clone()), ("state", query.state.clone())])) { "To the beginning" }
            }
            @if let Some(next) = next { a rel="next" href=(next) { "Go on" } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_read_than_will_do() {
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
    fn a_page_is_found_again() {
        let place = Stands(vec![
            Stand::Start,
            Stand::After("Equipment#1 \"ü\"".to_owned(), "v10".to_owned()),
            Stand::End,
            Stand::End,
        ]);
        assert_eq!(Stands::parse(&place.text()), Some(place));
        for text in ["", "x", "bnVsbA", "W10"] {
            assert_eq!(Stands::parse(text), None, "{text}");
        }
    }
}
