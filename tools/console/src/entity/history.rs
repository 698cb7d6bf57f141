//! A page of the versions of an entity.

use maud::{Markup, html};
use serde_json::{Value, json};
use shared::{
    clock,
    domain::{
        AttributeValue, Item,
        entity::EntityId,
        marks::{is_expired, is_pinned},
        size,
        time::EpochMillis,
        version::Version,
        view::VersionView,
    },
};

use crate::{
    address,
    app::App,
    error::PageError,
    time,
    timeline::{self, Kind, Mark},
    value::{self, Much},
};

/// The versions of a page.
const PAGE: u64 = 50;
/// The most requests of a page.
const REQUESTS: usize = 2;
/// A longer key than this is not written down for each dot of the time line.
const LONG_KEY: usize = 256;

/// A page of the versions of an entity.
#[derive(Debug)]
pub(super) struct History {
    entity: EntityId,
    head: u64,
    floor: u64,
    /// The lowest and the highest version of the page.
    pub(super) from: u64,
    pub(super) to: u64,
    /// The newest first.
    pub(super) rows: Vec<Row>,
    /// How many versions up to the latest are not in history yet.
    pub(super) behind: u64,
    /// Whether there may be more of them than this page shows.
    pub(super) is_behind_further: bool,
}

/// A version of the page.
#[derive(Debug)]
pub(super) struct Row {
    version: u64,
    kind: Kind,
    /// What is there of it.
    seen: Option<Seen>,
}

/// What is told of a version.
struct Seen {
    time: Option<EpochMillis>,
    actor: Option<AttributeValue>,
    reason: Option<AttributeValue>,
    request_id: Option<String>,
    size: usize,
    is_pinned: bool,
}

impl std::fmt::Debug for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Seen").field("size", &self.size).finish_non_exhaustive()
    }
}

impl History {
    /// Reads the page that ends with this version, or with the latest.
    pub(super) async fn read(
        app: &App,
        latest: &VersionView,
        floor: Version,
        to: Option<Version>,
    ) -> Result<Self, PageError> {
        let head = latest.version;
        let to = to.map_or(head, |to| to.min(head));
        let from = Version::new(to.get().saturating_sub(PAGE - 1)).unwrap_or(Version::FIRST);
        let run = app
            .store()
            .version_run(&latest.entity, from, to, REQUESTS, app.consistent())
            .await?;
        let now = clock::since_epoch();
        let mut items = run.items;
        items.retain(|_, item| !is_expired(item, now));
        let mut history = Self {
            entity: latest.entity.clone(),
            head: head.get(),
            floor: floor.get(),
            from: run.from,
            to: to.get(),
            rows: Vec::new(),
            behind: 0,
            is_behind_further: false,
        };
        // From the latest downward, what is missing is on its way. Further down, it is a gap.
        let mut is_lagging = to == head;
        for number in (run.from..=to.get()).rev() {
            let item = items.remove(&number);
            is_lagging &= item.is_none() && number >= history.floor;
            let kind = match &item {
                Some(item) if shared::domain::view::is_deleted(item) => Kind::Tombstone,
                Some(_) => Kind::Live,
                None if number < history.floor => Kind::Pruned,
                None if is_lagging => Kind::Lagging,
                None => Kind::Gap,
            };
            history.behind += u64::from(is_lagging);
            let seen = item.map(Seen::of);
            // The latest item answers for the version it is.
            let seen = seen.or_else(|| (number == head.get()).then(|| Seen::of_latest(latest)));
            history.rows.push(Row {
                version: number,
                kind,
                seen,
            });
        }
        history.is_behind_further = is_lagging && history.from > history.floor;
        Ok(history)
    }

    pub(super) fn has_gap(&self) -> bool {
        self.rows.iter().any(|row| row.kind == Kind::Gap)
    }

    pub(super) fn has_times(&self) -> bool {
        timeline::has_times(&self.marks())
    }

    /// For the time line, the oldest first.
    pub(super) fn marks(&self) -> Vec<Mark> {
        let has_links = self.entity.as_str().len() <= LONG_KEY;
        let mark = |row: &Row| Mark {
            version: row.version,
            kind: row.kind,
            time: row.seen.as_ref().and_then(|seen| seen.time).map(EpochMillis::get),
            title: row.title(),
            link: (has_links && row.seen.is_some()).then(|| address::version(self.entity.as_str(), row.version)),
        };
        self.rows.iter().rev().map(mark).collect()
    }

    /// The ways to other pages, of which there are none where all is on this one.
    pub(super) fn pages(&self, by_time: bool, label: &str) -> Markup {
        let (newest, first) = (self.to >= self.head, self.from <= 1);
        let newer = (self.to + PAGE).min(self.head);
        if newest && first {
            return Markup::default();
        }
        html! {
            nav.pages aria-label=(label) {
                @if !newest {
                    a href=(address::entity(&self.entity, None, by_time)) { "Newest" }
                    a rel="next" href=(address::entity(&self.entity, Some(newer), by_time)) { "Newer" }
                }
                @if !first {
                    a rel="prev" href=(address::entity(&self.entity, Some(self.from - 1), by_time)) { "Older" }
                    a href=(address::entity(&self.entity, Some(PAGE.min(self.head)), by_time)) { "First version" }
                }
            }
        }
    }

    /// The versions, a row each, and the form that compares two of them.
    pub(super) fn table(&self) -> Markup {
        let there: Vec<_> = self.rows.iter().filter(|row| row.seen.is_some()).collect();
        let newest = there.first().map(|row| row.version);
        let before = there.get(1).map(|row| row.version);
        html! {
            form method="get" action="/compare" {
                input type="hidden" name="id" value=(self.entity.as_str());
                div.scroll role="region" aria-label="Versions" tabindex="0" {
                    table {
                        caption.hidden { "Versions, the newest first" }
                        thead { tr {
                            th scope="col" { "Version" }
                            th scope="col" { "State" }
                            th scope="col" { "Time (UTC)" }
                            th scope="col" { "Who" }
                            th scope="col" { "Why" }
                            th.right scope="col" { "Size" }
                            th scope="col" { "From" }
                            th scope="col" { "To" }
                        } }
                        tbody { @for row in &self.rows { (self.row(row, before, newest)) } }
                    }
                }
                @if there.len() > 1 { button { "Compare the two" } }
            }
        }
    }

    fn row(&self, row: &Row, before: Option<u64>, newest: Option<u64>) -> Markup {
        let number = row.version;
        let choice = |name: &str, what: &str, chosen: Option<u64>| {
            html! { input type="radio" name=(name) value=(number) aria-label={ (what) " version " (number) } checked[chosen == Some(number)]; }
        };
        let Some(seen) = &row.seen else {
            return html! {
                tr class=(row.kind.class()) {
                    th scope="row" { (number) }
                    td { span.tag class=(row.kind.class()) { (row.kind.name()) } }
                    td colspan="6" {}
                }
            };
        };
        html! {
            tr class=(row.kind.class()) {
                th scope="row" { a href=(address::version(self.entity.as_str(), number)) { (number) } }
                td {
                    span.tag class=(row.kind.class()) { (row.kind.name()) }
                    @if seen.is_pinned { " " span.tag { "pinned" } }
                    @if number > 1 { " " a href=(address::compare(&self.entity, number - 1, number)) { "changes" } }
                }
                td { @if let Some(time) = seen.time { (time::shown(time)) } }
                td { @if let Some(actor) = &seen.actor { (value::value(actor, Much::LITTLE)) } }
                td { @if let Some(reason) = &seen.reason { (value::value(reason, Much::LITTLE)) } }
                td.right { (value::bytes(seen.size)) }
                td { (choice("from", "From", before)) }
                td { (choice("to", "To", newest)) }
            }
        }
    }
}

impl Row {
    fn title(&self) -> String {
        let time = self.seen.as_ref().and_then(|seen| seen.time).map(time::iso);
        let time = time.map_or(String::new(), |time| format!(", {time}"));
        format!("Version {}, {}{time}", self.version, self.kind.name())
    }

    /// `{"Version": 7, "State": "live", "Time": …, "Actor": …, "Reason": …, "RequestID": …, "Size": 120, "Pinned": false}`.
    pub(super) fn to_json(&self) -> Value {
        let mut json = json!({"Version": self.version, "State": self.kind.name()});
        if let Some(seen) = &self.seen {
            let plain = |value: &Option<AttributeValue>| value.as_ref().map(shared::domain::plain::attribute);
            json["Time"] = json!(seen.time.map(time::iso));
            json["Actor"] = json!(plain(&seen.actor));
            json["Reason"] = json!(plain(&seen.reason));
            json["RequestID"] = json!(seen.request_id);
            json["Size"] = json!(seen.size);
            json["Pinned"] = json!(seen.is_pinned);
        }
        json
    }
}

impl Seen {
    fn of(mut item: Item) -> Self {
        let request_id = match item.get(shared::domain::names::REQUEST_ID) {
            Some(AttributeValue::S(id)) => Some(id.clone()),
            _ => None,
        };
        Self {
            time: shared::domain::view::time_of(&item).ok(),
            request_id,
            size: size::of_item(&item),
            is_pinned: is_pinned(&item),
            actor: item.remove("Actor"),
            reason: item.remove("Reason"),
        }
    }

    fn of_latest(latest: &VersionView) -> Self {
        Self {
            time: latest.time().ok(),
            request_id: latest.request_id.clone(),
            size: size::of_item(&latest.attributes),
            is_pinned: false,
            actor: latest.attributes.get("Actor").cloned(),
            reason: latest.attributes.get("Reason").cloned(),
        }
    }
}
