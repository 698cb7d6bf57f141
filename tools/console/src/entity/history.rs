//! A page of the history of an entity.
//!
//! A page has up to 50 versions, and reads one version more, to show what the oldest of them changed. With a filter, it reads
//! page by page until it has 50 versions that the filter selects, or has read 1,000.

use std::collections::HashMap;

use item_diff::{
    path::Path,
    versions::{Comparison, is_comparable},
};
use operations::{all_versions::paths::TracedPaths, read::version_run::version_run};
use serde_json::{Value, json};
use shared::{
    clock,
    domain::{
        entity::EntityId,
        marks::{is_expired, is_pinned},
        size,
        time::EpochMillis,
        version::Version,
        view::{VersionView, time_of},
    },
};

use super::filter::Filter;
use crate::{
    address,
    app::App,
    error::PageError,
    record, summary, time,
    timeline::{Kind, Mark},
};

pub(super) const PAGE: u64 = 50;
/// Maximum number of versions that a page with a filter reads.
const MAX_FILTERED: u64 = 1000;
const MAX_REQUESTS: usize = 2;
/// Maximum length of a key for which the dots of the time line are links, to limit the size of the page.
const MAX_LINKED_KEY: usize = 256;

pub(super) struct History {
    pub(super) entity: EntityId,
    pub(super) latest: u64,
    /// The greatest version. It is greater than the latest one if it is late.
    pub(super) newest: u64,
    pub(super) floor: u64,
    /// Lowest and highest version of the page.
    pub(super) from: u64,
    pub(super) to: u64,
    /// Versions that the filter selects, newest first.
    pub(super) rows: Vec<Row>,
    /// Number of versions of the page, up to the latest, that are not in history yet.
    pub(super) behind: u64,
    /// `true` if there may be more of them on earlier pages.
    pub(super) is_behind_further: bool,
    pub(super) filter: Filter,
    /// Paths of the filter's value.
    paths: Option<TracedPaths>,
    /// `true` if the filter selects no version before the page.
    is_end: bool,
}

pub(super) struct Row {
    pub(super) version: u64,
    pub(super) kind: Kind,
    /// Details, if the version exists.
    pub(super) details: Option<Details>,
}

pub(super) struct Details {
    /// Version without its attributes.
    pub(super) view: VersionView,
    /// Client's time.
    pub(super) time: Option<EpochMillis>,
    pub(super) size: usize,
    pub(super) is_pinned: bool,
    /// Text of the differences to the version before, `None` if that one is missing.
    pub(super) changes: Option<String>,
}

impl History {
    /// Reads the page that ends with version `to`, by default with the newest one.
    pub(super) async fn read(
        app: &App,
        newest: &VersionView,
        floor: Version,
        (last, to): (Version, Option<Version>),
        filter: Filter,
    ) -> Result<Self, PageError> {
        let latest = newest.version;
        let paths = filter.path.as_ref();
        let paths = paths.map(|path| TracedPaths::new(app.store(), path, app.consistent()));
        let to = to.map_or(last, |to| to.min(last));
        let mut history = Self {
            entity: newest.entity.clone(),
            latest: latest.get(),
            newest: last.get(),
            floor: floor.get(),
            from: to.get(),
            to: to.get(),
            rows: Vec::new(),
            behind: 0,
            is_behind_further: false,
            filter,
            paths,
            is_end: false,
        };
        // Missing versions directly below the latest are not in history yet. Any other missing version is a gap.
        let mut is_lagging = to == latest;
        let mut next = Some(to);
        while let Some(to) = next {
            history.from = history.read_run(app, newest, to, &mut is_lagging).await?;
            next = Version::new(history.from - 1).filter(|_| history.is_continued());
        }
        history.is_behind_further = is_lagging && history.from > history.floor;
        Ok(history)
    }

    /// Returns `true` if the page needs more versions to have all that the filter selects.
    fn is_continued(&self) -> bool {
        let read = self.to.saturating_sub(self.from).saturating_add(1);
        let has_room = (self.rows.len() as u64) < PAGE;
        self.filter.is_active() && !self.is_end && self.from > self.floor && has_room && read < MAX_FILTERED
    }

    /// Adds the versions down from `to`, and returns the lowest.
    async fn read_run(
        &mut self,
        app: &App,
        newest: &VersionView,
        to: Version,
        is_lagging: &mut bool,
    ) -> Result<u64, PageError> {
        let first = to.get().saturating_sub(PAGE - 1).max(1);
        // The version before the first shows what the first one changed.
        let before = Version::new(first - 1).unwrap_or(Version::FIRST);
        let run = version_run(app.store(), &self.entity, before, to, MAX_REQUESTS, app.consistent()).await?;
        let from = match run.from {
            // Not all of the range was read.
            reached if reached > before.get() => reached.saturating_add(1).min(to.get()),
            _ => first,
        };
        let now = clock::since_epoch();
        let items = run.items.into_iter().filter(|(_, item)| !is_expired(item, now));
        let mut versions: HashMap<_, _> = items
            .filter_map(|(number, item)| {
                let (size, is_pinned) = (size::of_item(&item), is_pinned(&item));
                let view = app.store().view(&self.entity, Version::new(number)?, item);
                Some((number, Details::new(view, size, is_pinned)))
            })
            .collect();
        for number in (from..=to.get()).rev() {
            let found = versions.remove(&number);
            *is_lagging &= found.is_none() && number >= self.floor;
            let kind = match found.as_ref().map(|details| &details.view) {
                Some(view) if view.deleted => Kind::Tombstone,
                Some(view) if view.restored_from.is_some() => Kind::Restored,
                Some(_) => Kind::Live,
                None if number < self.floor => Kind::Pruned,
                None if *is_lagging => Kind::Lagging,
                None => Kind::Gap,
            };
            self.behind += u64::from(*is_lagging);
            // If the latest version is missing, its details come from the latest item.
            let of_latest = || Details::new(newest.clone(), size::of_item(&newest.attributes), false);
            let mut details = found.or_else(|| (number == self.latest).then(of_latest));
            let paths = match (&mut self.paths, &details) {
                (Some(paths), Some(details)) => Some(paths.of(&details.view).await?),
                _ => None,
            };
            let previous = versions.get(&(number - 1)).map(|previous| &previous.view);
            let is_selected = match &mut details {
                Some(details) => self.selects(details, previous, paths),
                None => !self.filter.is_active(),
            };
            if is_selected {
                self.rows.push(Row {
                    version: number,
                    kind,
                    details,
                });
            }
        }
        Ok(from)
    }

    /// Compares a version with the one before, in which the value of the filter has these paths. Returns `true` if the filter selects it.
    fn selects(
        &mut self,
        details: &mut Details,
        previous: Option<&VersionView>,
        paths: Option<[Option<Path>; 2]>,
    ) -> bool {
        let view = &mut details.view;
        let (old, is_known) = (
            previous.map(|previous| &previous.attributes),
            is_comparable(previous, view),
        );
        let is_changed = paths.is_none_or(|[from, to]| {
            let within = || Comparison::new(previous, view).within([from.as_ref(), to.as_ref()]);
            is_known && within().is_some()
        });
        self.is_end |= self.filter.ends_before(view.recorded_at);
        let is_selected = is_changed && self.filter.selects(view.actor.as_ref(), view.recorded_at);
        details.changes = (is_selected && is_known).then(|| summary::line(old, &view.attributes));
        // The page shows the attributes of no other version than the latest.
        view.attributes.clear();
        is_selected
    }

    /// Returns the latest version without its attributes, if it is on the page.
    pub(super) fn record_of_latest(&self) -> Option<&VersionView> {
        let row = self.rows.iter().find(|row| row.version == self.latest)?;
        Some(&row.details.as_ref()?.view)
    }

    /// Returns the marks of the time line, oldest first. If no version has a time at which it was recorded, they have the times of
    /// the client.
    pub(super) fn marks(&self) -> Vec<Mark> {
        let has_links = self.entity.as_str().len() <= MAX_LINKED_KEY;
        let recorded = |details: &Details| Some(details.view.recorded_at?.floor_millis().get());
        let details = || self.rows.iter().filter_map(|row| row.details.as_ref());
        let is_recorded = details().any(|details| recorded(details).is_some());
        let time = |details: &Details| match is_recorded {
            true => recorded(details),
            false => details.time.map(EpochMillis::get),
        };
        let mark = |row: &Row| Mark {
            version: row.version,
            kind: row.kind,
            exists: row.details.is_some(),
            time: row.details.as_ref().and_then(time),
            title: row.title(),
            link: (has_links && row.details.is_some())
                .then(|| address::version("/version", self.entity.as_str(), row.version)),
        };
        self.rows.iter().rev().map(mark).collect()
    }

    /// Returns the address of the page that ends with a version.
    pub(super) fn address(&self, to: Option<u64>, by_time: bool) -> String {
        let parameters = [
            ("id", Some(self.entity.as_str().to_owned())),
            ("to", to.map(|to| to.to_string())),
            ("scale", (!by_time).then(|| "version".to_owned())),
        ];
        address::link("/entity", parameters.into_iter().chain(self.filter.pairs()))
    }

    /// Returns `true` if there may be selected versions before the page.
    pub(super) fn has_older(&self) -> bool {
        self.from > 1 && !(self.filter.is_active() && (self.is_end || self.from <= self.floor))
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
    /// "Pinned": false, "Changes": "State: OK → BAD"}`. `Changes` is missing if the version before is.
    pub(super) fn to_json(&self) -> Value {
        let kind = if self.kind == Kind::Restored {
            Kind::Live
        } else {
            self.kind
        };
        let mut json = json!({"Version": self.version, "State": kind.name()});
        if let (Some(details), Some(members)) = (&self.details, json.as_object_mut()) {
            members.extend(details.view.record_json());
            members.insert("Time".to_owned(), json!(details.time.map(time::iso)));
            members.insert("Size".to_owned(), details.size.into());
            members.insert("Pinned".to_owned(), details.is_pinned.into());
            let changes = details.changes.iter();
            members.extend(changes.map(|changes| ("Changes".to_owned(), changes.as_str().into())));
        }
        json
    }
}

impl Details {
    fn new(view: VersionView, size: usize, is_pinned: bool) -> Self {
        Self {
            time: time_of(&view.attributes).ok(),
            view,
            size,
            is_pinned,
            changes: None,
        }
    }
}
