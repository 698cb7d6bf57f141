//! A page of the history of an entity.

use maud::{Markup, html};
use serde_json::{Value, json};
use shared::{
    clock,
    domain::{
        Item,
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
    record, time,
    timeline::{self, Kind, Mark},
    value::{self, DisplayLimits},
};

const PAGE: u64 = 50;
const MAX_REQUESTS: usize = 2;
/// Maximum length of a key for which the dots of the time line are links, to limit the size of the page.
const MAX_LINKED_KEY: usize = 256;

pub(super) struct History {
    entity: EntityId,
    latest: u64,
    floor: u64,
    /// Lowest and highest version of the page.
    pub(super) from: u64,
    pub(super) to: u64,
    /// Versions, newest first.
    pub(super) rows: Vec<Row>,
    /// Number of versions of the page, up to the latest, that are not in history yet.
    pub(super) behind: u64,
    /// `true` if there may be more of them on earlier pages.
    pub(super) is_behind_further: bool,
}

pub(super) struct Row {
    version: u64,
    kind: Kind,
    /// Details, if the version exists.
    details: Option<Details>,
}

struct Details {
    /// Version without its attributes.
    view: VersionView,
    /// Client's time.
    time: Option<EpochMillis>,
    size: usize,
    is_pinned: bool,
}

impl History {
    /// Reads the page that ends with version `to`, by default with the latest.
    pub(super) async fn read(
        app: &App,
        newest: &VersionView,
        floor: Version,
        to: Option<Version>,
    ) -> Result<Self, PageError> {
        let latest = newest.version;
        let to = to.map_or(latest, |to| to.min(latest));
        let from = Version::new(to.get().saturating_sub(PAGE - 1)).unwrap_or(Version::FIRST);
        let run = app
            .store()
            .version_run(&newest.entity, from, to, MAX_REQUESTS, app.consistent())
            .await?;
        let now = clock::since_epoch();
        let mut items = run.items;
        items.retain(|_, item| !is_expired(item, now));
        let mut history = Self {
            entity: newest.entity.clone(),
            latest: latest.get(),
            floor: floor.get(),
            from: run.from,
            to: to.get(),
            rows: Vec::new(),
            behind: 0,
            is_behind_further: false,
        };
        // Missing versions directly below the latest are not in history yet. Any other missing version is a gap.
        let mut is_lagging = to == latest;
        for number in (run.from..=to.get()).rev() {
            let item = items.remove(&number);
            is_lagging &= item.is_none() && number >= history.floor;
            let kind = match &item {
                Some(item) if shared::domain::tombstone::is_deleted(item) => Kind::Tombstone,
                Some(_) => Kind::Live,
                None if number < history.floor => Kind::Pruned,
                None if is_lagging => Kind::Lagging,
                None => Kind::Gap,
            };
            history.behind += u64::from(is_lagging);
            let version = Version::new(number);
            let details = item
                .zip(version)
                .map(|(item, version)| Details::of(&newest.entity, version, item));
            // If the latest version is missing, its details come from the latest item.
            let details = details.or_else(|| (number == latest.get()).then(|| Details::of_latest(newest)));
            history.rows.push(Row {
                version: number,
                kind,
                details,
            });
        }
        history.is_behind_further = is_lagging && history.from > history.floor;
        Ok(history)
    }

    /// Returns the latest version without its attributes, if it is on the page.
    pub(super) fn record_of_latest(&self) -> Option<&VersionView> {
        let row = self.rows.iter().find(|row| row.version == self.latest)?;
        Some(&row.details.as_ref()?.view)
    }

    pub(super) fn has_gap(&self) -> bool {
        self.rows.iter().any(|row| row.kind == Kind::Gap)
    }

    pub(super) fn has_times(&self) -> bool {
        timeline::has_times(&self.marks())
    }

    /// Returns the marks of the time line, oldest first.
    pub(super) fn marks(&self) -> Vec<Mark> {
        let has_links = self.entity.as_str().len() <= MAX_LINKED_KEY;
        let mark = |row: &Row| Mark {
            version: row.version,
            kind: row.kind,
            time: row
                .details
                .as_ref()
                .and_then(|details| details.view.recorded_at)
                .map(|recorded| recorded.floor_millis().get()),
            title: row.title(),
            link: (has_links && row.details.is_some())
                .then(|| address::version("/version", self.entity.as_str(), row.version)),
        };
        self.rows.iter().rev().map(mark).collect()
    }

    pub(super) fn pages(&self, by_time: bool, label: &str) -> Markup {
        let (newest, first) = (self.to >= self.latest, self.from <= 1);
        let newer = self.to.saturating_add(PAGE).min(self.latest);
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
                    a href=(address::entity(&self.entity, Some(PAGE.min(self.latest)), by_time)) { "Oldest" }
                }
            }
        }
    }

    /// Renders the table of versions, and the form that compares two of them.
    pub(super) fn table(&self) -> Markup {
        let existing: Vec<_> = self.rows.iter().filter(|row| row.details.is_some()).collect();
        let newest = existing.first().map(|row| row.version);
        let previous = existing.get(1).map(|row| row.version);
        html! {
            form method="get" action="/compare" {
                input type="hidden" name="id" value=(self.entity.as_str());
                div.scroll role="region" aria-label="Versions" tabindex="0" {
                    table {
                        caption.hidden { "Versions, newest first" }
                        thead { tr {
                            th scope="col" { "Version" }
                            th scope="col" { "State" }
                            th scope="col" { "Created (UTC)" }
                            th scope="col" { "Actor" }
                            th scope="col" { "Reason" }
                            th scope="col" { "Request ID" }
                            th.right scope="col" { "Size" }
                            th scope="col" { "From" }
                            th scope="col" { "To" }
                        } }
                        tbody { @for row in &self.rows { (self.row(row, previous, newest)) } }
                    }
                }
                @if existing.len() > 1 { button { "Compare selected" } }
            }
        }
    }

    fn row(&self, row: &Row, previous: Option<u64>, newest: Option<u64>) -> Markup {
        let number = row.version;
        let choice = |name: &str, label: &str, selected: Option<u64>| {
            html! { input type="radio" name=(name) value=(number) aria-label={ (label) " version " (number) } checked[selected == Some(number)]; }
        };
        let Some(details) = &row.details else {
            return html! {
                tr class=(row.kind.class()) {
                    th scope="row" { (number) }
                    td { span.tag class=(row.kind.class()) { (row.kind.name()) } }
                    td colspan="7" {}
                }
            };
        };
        let view = &details.view;
        html! {
            tr class=(row.kind.class()) {
                th scope="row" { a href=(address::version("/version", self.entity.as_str(), number)) { (number) } }
                td {
                    span.tag class=(row.kind.class()) { (row.kind.name()) }
                    @if details.is_pinned { " " span.tag { "pinned" } }
                    @if number > 1 { " " a href=(address::compare(&self.entity, number - 1, number)) { "changes" } }
                    @if let Some(from) = view.restored_from { br; small { "restored from " (record::restored_from(view, from)) } }
                }
                td {
                    (record::created(view))
                    @if let Some(time) = details.time { br; small.muted { "Time (client) " (time::shown(time)) } }
                }
                td {
                    @if let Some(actor) = &view.actor { (value::value(actor, DisplayLimits::CELL)) }
                    @if let Some(sender) = &view.sender { br; small.muted { "Sender " (value::text(sender, DisplayLimits::CELL)) } }
                }
                td { @if let Some(reason) = &view.reason { (value::value(reason, DisplayLimits::CELL)) } }
                td { @if let Some(request) = &view.request_id { (value::text(request, DisplayLimits::CELL)) } }
                td.right { (value::bytes(details.size)) }
                td { (choice("from", "From", previous)) }
                td { (choice("to", "To", newest)) }
            }
        }
    }
}

impl Row {
    fn title(&self) -> String {
        let record = self.details.as_ref().map(|details| record::title(&details.view));
        format!(
            "Version {}, {}{}",
            self.version,
            self.kind.name(),
            record.unwrap_or_default()
        )
    }

    /// Returns `{"Version": 7, "State": "live", "RecordedAt": …, "RequestId": …, "Actor": …, "Reason": …, "Time": …, "Size": 120,
    /// "Pinned": false}`.
    pub(super) fn to_json(&self) -> Value {
        let mut json = json!({"Version": self.version, "State": self.kind.name()});
        if let (Some(details), Some(members)) = (&self.details, json.as_object_mut()) {
            members.extend(details.view.record_json());
            members.insert("Time".to_owned(), json!(details.time.map(time::iso)));
            members.insert("Size".to_owned(), details.size.into());
            members.insert("Pinned".to_owned(), details.is_pinned.into());
        }
        json
    }
}

impl Details {
    fn of(entity: &EntityId, version: Version, item: Item) -> Self {
        let (size, is_pinned) = (size::of_item(&item), is_pinned(&item));
        Self::new(VersionView::new(entity.clone(), version, item), size, is_pinned)
    }

    fn of_latest(latest: &VersionView) -> Self {
        Self::new(latest.clone(), size::of_item(&latest.attributes), false)
    }

    fn new(mut view: VersionView, size: usize, is_pinned: bool) -> Self {
        let time = view.time().ok();
        // The page shows the attributes of no other version than the latest.
        view.attributes.clear();
        Self {
            view,
            time,
            size,
            is_pinned,
        }
    }
}
