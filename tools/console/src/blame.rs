//! The version that set each value of an item last.
//!
//! History is read from the shown version down, until the version of each value of the page is known, a number of versions was read, or
//! time is up. The values that are not known then are those of the last version read, whose page continues the search.

use std::{
    str::FromStr as _,
    sync::Arc,
    time::{Duration, Instant},
};

use item_diff::{
    blame::Line,
    line::text_of,
    path::{Path, value_at},
};
use maud::{Markup, html};
use operations::read::blame::{Search, Setter, search};
use serde_json::{Value, json};
use shared::domain::{names, plain, version::Version, view::VersionView};

use super::{
    address,
    app::App,
    page::{View, count, form, table},
    query::Query,
    record, time,
    value::{self, DisplayLimits},
    version,
};
use crate::error::PageError;

/// Maximum number of values of a page.
const PAGE: usize = 200;
/// Maximum number of versions that a page reads, and the time after which it reads no more.
const MAX_READ: (u64, Duration) = (1000, Duration::from_secs(1));
/// Numbers of versions that are read together, first and later.
const RUNS: [Option<usize>; 2] = [Some(10), Some(100)];
/// Maximum number of characters of an actor.
const MAX_ACTOR: usize = 40;

struct Page {
    newest: VersionView,
    path: Option<String>,
    /// Index of the first value of the page, and number of all values.
    range: (usize, usize),
    lines: Vec<Line<Option<Arc<Setter>>>>,
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
    let mut blame = Search::new(&newest.attributes);
    blame.retain(|value| path.as_ref().is_none_or(|path| path.overlaps(value)));
    let (range, mut index) = ((after, blame.open().len()), 0..);
    blame.retain(|_| index.next().is_some_and(|index| index >= after && index - after < PAGE));
    let (start, first) = (Instant::now(), newest.version.get());
    let is_over = |version: Version| start.elapsed() > MAX_READ.1 || first - version.get() > MAX_READ.0;
    let reads = (app.consistent(), RUNS);
    let next = search(app.store(), &newest, &mut blame, reads, is_over).await?;
    let path = path.map(|path| path.to_string());
    // An element of a list can have another index in the version that continues.
    let next = next.and_then(|next| match blame.open().collect::<Vec<_>>()[..] {
        [] => None,
        [one] => Some((next.get(), Some(one.to_string()))),
        _ => Some((next.get(), path.clone())),
    });
    let page = Page {
        newest,
        path,
        range,
        lines: blame.finish(&None),
        next,
    };
    let title = format!("Blame of version {} of {}", page.newest.version, entity.as_str());
    Ok(View::new(title, page.body(), page.json()))
}

impl Page {
    /// Returns `{"ID": …, "Version": 7, "Values": [{"Path": …, "Value": …, "Version": 3, "RecordedAt": …, "Actor": …}]}`. A value that an
    /// earlier version can have set has `AtOrBefore`, with `After` if that is known, and no author. One whose version is not known has no
    /// `Version`. `Next` continues the search.
    fn json(&self) -> Value {
        let values = self.lines.iter().map(|line| {
            let value = value_at(&self.newest.attributes, &line.path).map(plain::attribute);
            let mut json = json!({"Path": line.path.to_string(), "Value": value});
            if let (Some(setter), Some(members)) = (&line.version, json.as_object_mut()) {
                members.extend(setter.view.record_json());
                if !setter.is_certain() {
                    let of_version = [
                        names::ACTOR,
                        names::REASON,
                        names::CHANGE_SET,
                        names::REQUEST_ID,
                        names::SENDER,
                    ];
                    members.retain(|name, _| !of_version.contains(&name.as_str()));
                    members.insert("AtOrBefore".to_owned(), true.into());
                    members.extend(setter.after.map(|after| ("After".to_owned(), after.into())));
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
            let at = [
                ("version", Some(version.to_string())),
                ("path", path.clone()),
                ("after", after),
            ];
            address::link("/blame", [("id", id)].into_iter().chain(at))
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

    fn row(&self, line: &Line<Option<Arc<Setter>>>) -> Markup {
        let (id, setter) = (self.newest.entity.as_str(), line.version.as_deref());
        let record = setter.map(|setter| &setter.view);
        let author = setter.filter(|setter| setter.is_certain()).map(|setter| &setter.view);
        html! {
            tr {
                th scope="row" { @match address::at_path(&address::of_entity("/entity", id), &line.path) {
                    Some(history) => a href=(history) title="Versions that changed it" { (value::path(&line.path)) },
                    None => (value::path(&line.path)),
                } }
                td { @if let Some(value) = value_at(&self.newest.attributes, &line.path) { (value::value(value, DisplayLimits::CELL)) } }
                td { @match setter.map(|setter| (setter.view.version.get(), setter.after)) {
                    Some((version, Some(after))) if after > 0 => {
                        a href=(address::compare(id, after, version)) { @if after + 1 < version { (after + 1) " to " } @else { "Version " } (version) }
                    }
                    Some((version, after)) => a href=(address::version("/version", id, version)) { @if after.is_none() { "At or before " } @else { "Version " } (version) },
                    None => span.muted { "Not known" },
                } }
                td { @if let Some(at) = record.and_then(|record| record.recorded_at) { (time::brief(at.floor_millis())) } }
                td { @if let Some((view, actor)) = author.and_then(|view| Some((view, view.actor.as_ref()?))) { bdi { (value::visible(&text_of(actor), MAX_ACTOR)) } (record::unchanged(view)) } }
            }
        }
    }
}
