//! The version that set each value of an item last.
//!
//! History is read from the shown version down, until the version of each value of the page is known, a number of versions was read, or
//! time is up. The values that are not known then are those of the last version read, whose page continues the search.

use std::{
    collections::HashMap,
    str::FromStr as _,
    time::{Duration, Instant},
};

use item_diff::{
    blame::{Blame, Line},
    change::Changes,
    line::text_of,
    path::{Path, value_at},
};
use maud::{Markup, html};
use operations::read::history::{History, HistoryQuery};
use serde_json::{Value, json};
use shared::domain::{attached::item::StateOrigin, names, plain, version::Version, view::VersionView};

use super::{
    address,
    app::App,
    page::{View, count, form, table},
    query::Query,
    time,
    value::{self, DisplayLimits},
    version,
};
use crate::error::PageError;

/// Maximum number of values of a page.
const PAGE: usize = 200;
/// Maximum number of versions that a page reads, and the time after which it reads no more.
const MAX_READ: (u64, Duration) = (1000, Duration::from_secs(1));
/// Numbers of versions that are read together, first and later.
const RUNS: (usize, usize) = (10, 100);
/// Maximum number of characters of an actor.
const MAX_ACTOR: usize = 40;

/// The last version that can have set a value, and the one before the first, `None` if that is not known.
type Setter = Option<(u64, Option<u64>)>;

struct Page {
    newest: VersionView,
    path: Option<String>,
    /// Index of the first value of the page, and number of all values.
    range: (usize, usize),
    lines: Vec<Line<Setter>>,
    /// Versions that set a value, without their attributes.
    records: HashMap<u64, VersionView>,
    /// Version, and the path in it, that continue the search.
    next: Option<(u64, Option<String>)>,
}

pub(super) async fn view(app: &App, query: &Query) -> Result<View, PageError> {
    let entity = query.entity()?;
    let path = query.parsed("path", Path::from_str)?;
    let after = query.parsed("after", usize::from_str)?.unwrap_or_default();
    let newest = match query.version("version")? {
        Some(number) => version::one(app, &entity, number).await?,
        None => version::latest(app, &entity).await?,
    };
    version::is_known(&newest)?;
    if newest.is_late() {
        let why = format!(
            "version {} arrived late and never was the state of the item",
            newest.version
        );
        return Err(PageError::NotFound(why));
    }
    let mut blame = Blame::new(&newest.attributes);
    blame.retain(|value| path.as_ref().is_none_or(|path| path.overlaps(value)));
    let mut page = Page {
        newest,
        path: path.map(|path| path.to_string()),
        range: (after, blame.open().len()),
        lines: Vec::new(),
        records: HashMap::new(),
        next: None,
    };
    let mut index = 0..;
    blame.retain(|_| index.next().is_some_and(|index| index >= after && index - after < PAGE));
    page.search(app, &mut blame).await?;
    page.lines = blame.finish(&None);
    let title = format!("Blame of version {} of {}", page.newest.version, entity.as_str());
    Ok(View::new(title, page.body(), page.json()))
}

impl Page {
    async fn search(&mut self, app: &App, blame: &mut Blame<Setter>) -> Result<(), PageError> {
        let (start, first, entity) = (Instant::now(), self.newest.version, self.newest.entity.clone());
        let (mut current, mut late, mut limit) = (self.newest.clone(), 0, RUNS.0);
        let mut next = Version::new(first.get() - 1);
        while let Some(to) = next {
            let mut query = HistoryQuery::default();
            (query.to, query.limit, query.consistent) = (Some(to), Some(limit), app.consistent());
            let history = History::read(app.store(), &entity, query)
                .await?
                .ok_or_else(|| PageError::no_entity(&entity))?;
            let views = history.collect().await?;
            limit = RUNS.1;
            next = views.last().and_then(|view| Version::new(view.version.get() - 1));
            for view in views {
                let is_over = start.elapsed() > MAX_READ.1 || first.get() - view.version.get() > MAX_READ.0;
                if blame.is_done() || is_over && current.version < first {
                    // An element of a list can have another index in the version that continues.
                    self.next = match blame.open().collect::<Vec<_>>()[..] {
                        [] => None,
                        [one] => Some((current.version.get(), Some(one.to_string()))),
                        _ => Some((current.version.get(), self.path.clone())),
                    };
                    return Ok(());
                }
                late += u64::from(view.is_late());
                if !view.is_late() && !view.is_omitted() {
                    let is_next = view.version.get() + late + 1 == current.version.get();
                    current = self.step(blame, current, Some(view), is_next);
                    late = 0;
                }
            }
        }
        let is_first = current.version.get() == late + 1;
        self.step(blame, current, None, is_first);
        Ok(())
    }

    /// Adds the changes of a version, and returns the one before. `is_next` is `false` if versions between them are not known.
    fn step(
        &mut self,
        blame: &mut Blame<Setter>,
        mut view: VersionView,
        before: Option<VersionView>,
        is_next: bool,
    ) -> VersionView {
        let version = view.version.get();
        let after = match view.change.as_ref().map(|change| change.origin) {
            // The change that these show is older than their version.
            Some(StateOrigin::Baseline | StateOrigin::Missed) => None,
            _ if is_next => Some(version - 1),
            _ => before.as_ref().map(|view| view.version.get()),
        };
        let old = before.as_ref().map(|view| &view.attributes);
        blame.step(&Changes::between(old, Some(&view.attributes)), &Some((version, after)));
        view.attributes.clear();
        self.records.insert(version, view.clone());
        before.unwrap_or(view)
    }

    /// Returns `{"ID": …, "Version": 7, "Values": [{"Path": …, "Value": …, "Version": 3, "RecordedAt": …, "Actor": …}]}`. A value that an
    /// earlier version can have set has `AtOrBefore`, with `After` if that is known, and no author. One whose version is not known has no
    /// `Version`. `Next` continues the search.
    fn json(&self) -> Value {
        let values = self.lines.iter().map(|line| {
            let value = value_at(&self.newest.attributes, &line.path).map(plain::attribute);
            let mut json = json!({"Path": line.path.to_string(), "Value": value});
            if let (Some((version, after)), Some(members)) = (line.version, json.as_object_mut()) {
                let record = self.records.get(&version).map(VersionView::record_json);
                members.extend(record.unwrap_or_default());
                if after != Some(version - 1) {
                    let of_version = [names::ACTOR, names::REASON, names::REQUEST_ID, names::SENDER];
                    members.retain(|name, _| !of_version.contains(&name.as_str()));
                    members.insert("AtOrBefore".to_owned(), true.into());
                    members.extend(after.map(|after| ("After".to_owned(), after.into())));
                }
            }
            json
        });
        let (next, values) = (self.next.as_ref(), values.collect::<Value>());
        let next = next.map(|(version, path)| json!({"Version": version, "Path": path}));
        json!({"ID": self.newest.entity.as_str(), "Version": self.newest.version, "Values": values, "Of": self.range.1, "Next": next})
    }

    fn body(&self) -> Markup {
        let (id, version, (after, total)) = (self.newest.entity.as_str(), self.newest.version.get(), self.range);
        let end = after + self.lines.len();
        let link = |version: u64, path: &Option<String>, after: usize| {
            let (id, after) = (Some(id.to_owned()), (after > 0).then(|| after.to_string()));
            let version = Some(version.to_string());
            address::link(
                "/blame",
                [
                    ("id", id),
                    ("version", version),
                    ("path", path.clone()),
                    ("after", after),
                ],
            )
        };
        let fields = html! {
            label { "Version " input type="number" name="version" min="1" value=(version) required; }
            label { "Path " input type="text" name="path" value=[&self.path] placeholder="Lines[2].Price" autocomplete="off" spellcheck="false"; }
            button { "Show" }
        };
        let unknown = self.lines.iter().filter(|line| line.version.is_none()).count();
        html! {
            (version::breadcrumbs(&self.newest.entity))
            h1 { "Blame of version " (version) }
            (form("/blame", id, &fields))
            nav.pages aria-label="Versions" {
                @if version > 1 { a rel="prev" href=(link(version - 1, &self.path, 0)) { "Version " (version - 1) } }
                a href=(address::version("/version", id, version)) { "View version " (version) }
                a href=(link(version, &self.path, after) + "&format=json") { "JSON" }
            }
            @if let Some((before, path)) = &self.next {
                p.note {
                    (count(unknown as u64, "value")) " of this page: set in version " (before) " or before. "
                    @if *before < version { a href=(link(*before, path, 0)) { "Continue from version " (before) } }
                }
            }
            @if total == 0 { p.muted { "No values." } } @else {
                div.blame { (table("Values", &["Path", "Value", "Version", "Time", "Actor"], &html! { @for line in &self.lines { (self.row(line)) } })) }
            }
            nav.pages aria-label="Pages of values" {
                @if after > 0 { a href=(link(version, &self.path, after.saturating_sub(PAGE))) { "Previous values" } }
                @if end < total { a href=(link(version, &self.path, end)) { "Values " (end + 1) " to " (total.min(end + PAGE)) " of " (total) } }
            }
        }
    }

    fn row(&self, line: &Line<Setter>) -> Markup {
        let id = self.newest.entity.as_str();
        let record = line.version.and_then(|(version, _)| self.records.get(&version));
        let is_exact = line.version.is_some_and(|(version, after)| after == Some(version - 1));
        let actor = record.filter(|_| is_exact).and_then(|record| record.actor.as_ref());
        html! {
            tr {
                th scope="row" { @match address::at_path(&address::of_entity("/entity", id), &line.path) {
                    Some(history) => a href=(history) title="Versions that changed it" { (value::path(&line.path)) },
                    None => (value::path(&line.path)),
                } }
                td { @if let Some(value) = value_at(&self.newest.attributes, &line.path) { (value::value(value, DisplayLimits::CELL)) } }
                td { @match line.version {
                    Some((version, Some(after))) if after > 0 => {
                        a href=(address::compare(id, after, version)) { @if after + 1 < version { (after + 1) " to " } @else { "Version " } (version) }
                    }
                    Some((version, after)) => a href=(address::version("/version", id, version)) { @if after.is_none() { "At or before " } @else { "Version " } (version) },
                    None => span.muted { "Not known" },
                } }
                td { @if let Some(at) = record.and_then(|record| record.recorded_at) { (time::brief(at.floor_millis())) } }
                td { @if let Some(actor) = actor { bdi { (value::visible(&text_of(actor), MAX_ACTOR)) } (record.map(crate::record::unchanged).unwrap_or_default()) } }
            }
        }
    }
}
