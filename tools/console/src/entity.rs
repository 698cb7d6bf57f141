//! Page of an entity: its latest version, its metadata, its history page by page, and its records in quarantine.

mod filter;
mod history;
mod rows;

use std::collections::HashMap;

use maud::{Markup, html};
use operations::{error::OperationError, metadata, quarantine::to_json};
use serde_json::{Value, json};
use shared::{
    domain::{
        Item,
        entity::EntityId,
        keys::{FLOOR_KEY, LATEST_KEY, floor_of, sort_key_of},
        names, plain,
        quarantine::QuarantinedRecord,
        recorded_at::RecordedAt,
        size,
        version::Version,
        version_item::latest_of,
        view::VersionView,
    },
    dynamodb::read::versions::ReadError,
};

use self::{filter::Filter, history::History};
use super::{
    address,
    app::App,
    current,
    page::{self, View, count, deleted},
    quarantine,
    query::Query,
    record,
    value::{self, DisplayLimits},
    version,
};
use crate::error::PageError;

struct Entity {
    latest: VersionView,
    /// `false` if it was lost , so that no update can start from it.
    is_current: bool,
    latest_size: usize,
    /// Attributes of the metadata item, without its keys.
    metadata: Option<Item>,
    floor: Version,
}

pub(super) async fn view(app: &App, query: &Query) -> Result<View, PageError> {
    let id = query.entity()?;
    // The newest version of the page, and the scale of its time line.
    let to = query.version("to")?;
    let by_time = query.choice("scale", &[("time", true), ("version", false)], "time or version")?;
    let filter = Filter {
        actor: query.text("actor").map(str::to_owned),
        path: query.parsed("path", str::parse)?,
        since: query.parsed("since", RecordedAt::parse)?,
        until: query.parsed("until", RecordedAt::parse)?,
    };
    let quarantined = operations::quarantine::quarantined(app.store(), &id).await?;
    let mut entity = match read(app, &id).await {
        Ok(Some(entity)) => entity,
        // The latest item can be the reason for the quarantine.
        Ok(None) | Err(PageError::Operation(OperationError::Read(_))) if !quarantined.is_empty() => {
            return Ok(only_quarantine(&id, &quarantined));
        }
        Ok(None) => return Err(PageError::no_entity(&id)),
        Err(error) => return Err(error),
    };
    let mut newest = entity.latest.version;
    if app.store().attached_table().is_some() {
        // Late versions follow the latest one.
        let last = app.store().newest(&id, app.consistent()).await?;
        newest = last.map_or(newest, |(last, _)| last);
    }
    let history = History::read(app, &entity.latest, entity.floor, (newest, to), filter).await?;
    // The version item of another program has a time, but its latest item has none.
    match history.record_of_latest() {
        Some(record) => {
            entity.latest.recorded_at = record.recorded_at;
            entity.latest.recorded_by_stream = record.recorded_by_stream;
        }
        None => entity.latest = version::with_time(app, entity.latest).await?,
    }
    let body = html! { (body(app, &entity, &history, by_time)) (quarantine::section(&quarantined)) };
    Ok(View::new(
        current::title(&id),
        body,
        json(&entity, &history, &quarantined),
    ))
}

/// Returns the page of an entity without a valid version.
fn only_quarantine(id: &EntityId, quarantined: &[QuarantinedRecord]) -> View {
    let body = html! {
        p.crumbs { a href=(address::page("/")) { "Entities" } }
        h1.key { (page::key(id.as_str())) }
        p.note { "No version of this entity can be read." }
        (quarantine::section(quarantined))
    };
    let quarantined: Vec<_> = quarantined.iter().map(to_json).collect();
    let json = json!({"ID": id.as_str(), "Latest": Value::Null, "Quarantined": quarantined});
    View::new(current::title(id), body, json)
}

/// Reads the latest item, the metadata and the floor, with one request.
async fn read(app: &App, id: &EntityId) -> Result<Option<Entity>, PageError> {
    let keys = [
        LATEST_KEY.to_owned(),
        metadata::SORT_KEY.to_owned(),
        FLOOR_KEY.to_owned(),
    ];
    let items: Vec<Item> = app.store().batch_get(id, &keys, app.consistent()).await?;
    let mut items: HashMap<_, _> = items
        .into_iter()
        .filter_map(|item| Some((sort_key_of(&item)?.to_owned(), item)))
        .collect();
    let latest = items
        .remove(LATEST_KEY)
        .filter(|latest| latest.contains_key(names::LATEST));
    let is_current = latest.is_some();
    let newest = match latest {
        Some(latest) => Some((latest_of(&latest).map_err(ReadError::from)?, latest)),
        // It was lost, or written by another program.
        None => app.store().newest(id, app.consistent()).await?,
    };
    let Some((version, latest)) = newest else {
        return Ok(None);
    };
    let mut metadata = items.remove(metadata::SORT_KEY);
    for name in [names::PK, names::SK] {
        metadata.as_mut().map(|metadata| metadata.remove(name));
    }
    Ok(Some(Entity {
        is_current,
        latest_size: size::of_item(&latest),
        latest: app.store().view(id, version, latest),
        metadata,
        floor: items.get(FLOOR_KEY).and_then(floor_of).unwrap_or(Version::FIRST),
    }))
}

fn json(entity: &Entity, history: &History, quarantined: &[QuarantinedRecord]) -> Value {
    json!({
        "ID": entity.latest.entity.as_str(),
        "Latest": record::view_json(&entity.latest),
        "Metadata": entity.metadata.as_ref().map(plain::attributes),
        "Floor": entity.floor,
        "Behind": history.behind,
        "From": history.from,
        "To": history.to,
        "Versions": history.rows.iter().map(history::Row::to_json).collect::<Vec<_>>(),
        "Quarantined": quarantined.iter().map(to_json).collect::<Vec<_>>(),
    })
}

fn body(app: &App, entity: &Entity, history: &History, by_time: bool) -> Markup {
    let (latest, id) = (&entity.latest, &entity.latest.entity);
    let link = |path: &str| address::of_entity(path, id.as_str());
    html! {
        p.crumbs { a href=(address::page("/")) { "Entities" } }
        h1.key { (page::key(id.as_str())) (deleted(latest.deleted)) " " (page::copy(id.as_str(), "key")) }
        nav.pages aria-label="Entity" {
            a href=(address::version("/version", id.as_str(), latest.version.get())) { "View latest version" }
            a href=(link("/as-of")) { "View a point in time" }
            a href=(link("/blame")) { "Blame" }
            a href={ (link("/entity")) "&format=json" } { "JSON" }
            a href=(link("/entity/report")) { "Evidence report" }
            @if app.allows_writes() && latest.deleted && entity.is_current { a href=(link("/undelete")) { "Undelete…" } }
        }
        h2 #history { "History, versions " (history.from) " to " (history.to) " of " (history.newest) }
        (rows::filters(history))
        (rows::list(history, by_time))
        div.columns {
            section aria-labelledby="latest" {
                h2 #latest { "Latest: version " (latest.version) }
                (value::attributes(&latest.attributes, DisplayLimits::ITEM, DisplayLimits::ITEM.members))
            }
            section aria-labelledby="details" {
                h2 #details { "Details" }
                dl.facts {
                    (record::facts(latest, "Last change"))
                    @if !current::is_attached() { dt { "History lag" } dd { @if history.behind == 0 { span.good { "None" } } @else { span.warn { (count(history.behind, "version")) @if history.is_behind_further { " or more" } } } } }
                    @if entity.floor > Version::FIRST { dt { "Oldest version" } dd { (entity.floor) ", earlier versions were pruned" } }
                    dt { "Latest item size" } dd { (value::bytes(entity.latest_size)) }
                    dt { "Log ID" } dd { code { (id.digest()) } " " (page::copy(&id.digest(), "log ID")) }
                }
                @if !current::is_attached() {
                    h2 { "Metadata" }
                    @match &entity.metadata {
                        Some(metadata) => (value::attributes(metadata, DisplayLimits::ITEM, DisplayLimits::ITEM.members)),
                        None => p.muted { "No metadata." },
                    }
                }
            }
        }
    }
}
