//! An entity: its latest version, its metadata, and its history page by page.

mod history;

use maud::{Markup, html};
use serde::Deserialize;
use serde_json::{Value, json};
use shared::{
    domain::{
        AttributeValue, Item, audit::floor_of, entity::EntityId, keys::FLOOR_KEY, names, plain, size, version::Version,
        version_item::latest_of, view::VersionView,
    },
    dynamodb::write::metadata,
};

use self::history::History;
use super::{
    address,
    app::App,
    page::{Place, View},
    query::{self, given, link},
    time, timeline,
    value::{self, Much},
    version,
};
use crate::error::PageError;

/// What an address asks for.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Query {
    #[serde(default, deserialize_with = "given")]
    id: Option<String>,
    /// The newest version of the page.
    #[serde(default, deserialize_with = "given")]
    to: Option<String>,
    /// `version`, where versions are to stand side by side.
    #[serde(default, deserialize_with = "given")]
    scale: Option<String>,
}

/// What an entity is, besides its history.
struct Entity {
    latest: VersionView,
    latest_size: usize,
    metadata: Option<Item>,
    floor: Version,
}

pub(super) async fn view(app: &App, query: Query) -> Result<View, PageError> {
    let id = query::entity(query.id.as_deref())?;
    let to = query::version("to", query.to.as_deref())?;
    let by_time = match query.scale.as_deref() {
        None | Some("time") => true,
        Some("version") => false,
        Some(_) => return Err(PageError::Invalid("scale: it is time or version".to_owned())),
    };
    let entity = read(app, &id).await?;
    let entity = entity.ok_or_else(|| PageError::NotFound(format!("there is no {}", id.as_str())))?;
    let history = History::read(app, &entity.latest, entity.floor, to).await?;
    Ok(View {
        title: id.as_str().to_owned(),
        place: Place::Entities,
        body: body(app, &entity, &history, by_time),
        json: json(&entity, &history),
    })
}

/// The latest item, the metadata and the floor, by one request.
async fn read(app: &App, id: &EntityId) -> Result<Option<Entity>, PageError> {
    let latest_key = app.store().digits().latest_key();
    let keys = [latest_key.clone(), metadata::SORT_KEY.to_owned(), FLOOR_KEY.to_owned()];
    let items: Vec<Item> = app.store().batch_get(id, &keys, app.consistent()).await?;
    let mut items: Vec<_> = items.into_iter().map(Some).collect();
    let mut take = |key: &str| {
        let is = |item: &Option<Item>| {
            matches!(item.as_ref()?.get(names::SK)?, AttributeValue::S(found) if found == key).then_some(())
        };
        let found = items.iter_mut().find(|item| is(item).is_some());
        found.and_then(Option::take)
    };
    let Some(latest) = take(&latest_key) else {
        return Ok(None);
    };
    let version = latest_of(&latest).map_err(shared::dynamodb::read::versions::ReadError::from)?;
    Ok(Some(Entity {
        latest_size: size::of_item(&latest),
        latest: VersionView::new(id.clone(), version, latest),
        metadata: take(metadata::SORT_KEY),
        floor: take(FLOOR_KEY).as_ref().and_then(floor_of).unwrap_or(Version::FIRST),
    }))
}

fn json(entity: &Entity, history: &History) -> Value {
    let mut latest = entity.latest.to_json();
    latest["Time"] = json!(entity.latest.time().ok().map(time::iso));
    let metadata = entity.metadata.as_ref().map(|item| {
        let mut metadata = plain::attributes(item);
        metadata.remove(names::PK);
        metadata.remove(names::SK);
        metadata
    });
    json!({
        "ID": entity.latest.entity.as_str(),
        "Latest": latest,
        "Metadata": metadata,
        "Floor": entity.floor,
        "Behind": history.behind,
        "From": history.from,
        "To": history.to,
        "Versions": history.rows.iter().map(history::Row::to_json).collect::<Vec<_>>(),
    })
}

fn body(app: &App, entity: &Entity, history: &History, by_time: bool) -> Markup {
    let (latest, id) = (&entity.latest, &entity.latest.entity);
    let own = || Some(id.as_str().to_owned());
    html! {
        p.crumbs { a href="/" { "Entities" } }
        h1.key { (value::word(id.as_str())) @if latest.deleted { " " span.tag.dead { "deleted" } } }
        nav.pages aria-label="Of this entity" {
            a href=(address::version(id.as_str(), latest.version.get())) { "Latest version, whole" }
            a href=(link("/as-of", [("id", own())])) { "As of a time…" }
            @if app.writes.is_some() && latest.deleted { a href=(link("/undelete", [("id", own())])) { "Undelete…" } }
            @if history.has_gap() { a href=(link("/repair", [("id", own())])) { "Repair…" } }
        }
        div.columns {
            section aria-labelledby="latest" {
                h2 #latest { "Latest: version " (latest.version) }
                (version::attributes(&latest.attributes, Much::SOME))
            }
            section aria-labelledby="about" {
                h2 #about { "About" }
                dl.facts {
                    dt { "Last change" } dd { @match latest.time() { Ok(time) => (time::shown(time)), Err(_) => span.muted { "not said" } } }
                    dt { "History behind by" }
                    dd { @if history.behind == 0 { span.good { "none" } } @else { span.warn { (history.behind) @if history.is_behind_further { " or more" } @if history.behind == 1 { " version" } @else { " versions" } } } }
                    @if entity.floor > Version::FIRST { dt { "History begins at" } dd { "version " (entity.floor) ", the rest was pruned" } }
                    @if let Some(request) = &latest.request_id { dt { "Last request" } dd { (value::word(request)) } }
                    dt { "Size of the latest item" } dd { (value::bytes(entity.latest_size)) }
                    dt { "Called in logs" } dd { code { (id.digest()) } }
                }
                h2 { "Metadata" }
                @match &entity.metadata {
                    Some(metadata) => (version::attributes(&without_keys(metadata), Much::SOME)),
                    None => p.muted { "It has none." },
                }
            }
        }
        h2 #history { "History, versions " (history.from) " to " (history.to) " of " (latest.version) }
        (timeline::drawing(&history.marks(), timeline::Whole { head: latest.version.get(), floor: entity.floor.get(), by_time: by_time && history.has_times() }))
        @if history.has_times() {
            p.legend { a href=(address::entity(id, Some(history.to), !by_time)) { @if by_time { "Side by side" } @else { "By their times" } } }
        }
        (history.pages(by_time, "Pages of the history"))
        (history.table())
        (history.pages(by_time, "Pages of the history, again"))
    }
}

fn without_keys(item: &Item) -> Item {
    let mut item = item.clone();
    item.remove(names::PK);
    item.remove(names::SK);
    item
}
