//! `vzero blame`.

use std::sync::Arc;

use item_diff::{
    blame::Blame as Search,
    change::Changes,
    line::{path_text, value_text},
    path::{Path, Step, value_at},
};
use operations::{
    connection::Connection,
    progress::Progress as _,
    read::history::{History, HistoryQuery},
};
use serde_json::{Map, Value, json};
use shared::domain::{AttributeValue, Item, attached::item::StateOrigin, plain, view::VersionView};

use super::values::value_of;
use crate::{
    error::CliError,
    output::{Output, time_text, who},
    progress::Bar,
    target::Target,
    times::TimeFormat,
};

/// Number of versions from which the progress of the read is shown.
const MANY: u64 = 1000;

#[derive(Debug, clap::Args)]
#[command(after_help = "Example: vzero blame Order#1 @yesterday --path 'Lines[2].Price'")]
pub(crate) struct Blame {
    #[command(flatten)]
    target: Target,
    /// Show only the value at this path, or its parts
    #[arg(long)]
    path: Option<Path>,
    #[command(flatten)]
    times: TimeFormat,
}

/// A version without its attributes, and `true` if it is certain that it set a value. Otherwise, a version before it can have set it.
type Origin = Arc<(VersionView, bool)>;

impl Blame {
    pub(crate) async fn run(&self, connection: &Connection, output: &Output) -> Result<(), CliError> {
        let subject = self.target.subject(connection, 0..=1)?;
        let newest = subject.select(subject.word(0)).await?;
        let number = newest.version;
        if let Some(path) = &self.path {
            value_of(&newest, &subject, path)?;
        }
        let query = HistoryQuery {
            to: Some(number),
            consistent: connection.consistent,
            ..HistoryQuery::default()
        };
        let mut history = History::read(subject.store(), &subject.entity, query).await?;
        let (mut newer, item) = self.parts(newest);
        let (mut newer_item, mut search) = (item.clone(), Search::new(&item));
        let (counter, mut read, mut late) = (Bar::counter("versions read", MANY), 0, 0);
        while let Some(history) = history.as_mut().filter(|_| !search.is_done())
            && let Some(views) = history.next_page().await?
        {
            for view in views.into_iter().filter(|view| view.version < number) {
                (read, late) = (read + 1, late + u64::from(view.is_late()));
                counter.at(read);
                // A late version never was the state of the item.
                if !view.is_late() && !view.is_omitted() {
                    let (older, older_item) = self.parts(view);
                    let origin = origin(newer, older.version.get() + late);
                    search.step(&Changes::between(Some(&older_item), Some(&newer_item)), &origin);
                    (newer, newer_item, late) = (older, older_item, 0);
                }
            }
        }
        drop(counter);
        let mut table = output.listing(&["Version", "RecordedAt", "Actor", "Path", "Value"]);
        for line in search.finish(&origin(newer, late)) {
            let is_shown = self.path.as_ref().is_none_or(|path| line.path.0.starts_with(&path.0));
            if let Some(value) = value_at(&item, &line.path).filter(|_| is_shown) {
                table.add(&self.row(&line.version, &path_text(&line.path), value, output))?;
            }
        }
        table.end(Some("(no attributes)"))
    }

    /// Returns a value with its version. Without certainty, this has `AtOrBefore` in place of the author.
    fn row(
        &self,
        (view, is_certain): &(VersionView, bool),
        path: &str,
        value: &AttributeValue,
        output: &Output,
    ) -> Value {
        if !output.is_json() {
            let number = format!("{}{}", if *is_certain { "" } else { "at or before " }, view.version);
            let (time, actor) = (time_text(view, self.times), who(view).filter(|_| *is_certain));
            let value = output.shortened(&value_text(value));
            return json!({"Version": number, "RecordedAt": time, "Actor": actor, "Path": path, "Value": value});
        }
        let mut row = Map::from_iter([
            ("Path".to_owned(), path.into()),
            ("Value".to_owned(), plain::attribute(value)),
        ]);
        row.extend(view.record_json());
        if !is_certain {
            row.retain(|name, _| ["Path", "Value", "Version", "RecordedAt"].contains(&name.as_str()));
            row.insert("AtOrBefore".to_owned(), true.into());
        }
        row.into()
    }

    /// Returns a version without its attributes, and those that are searched.
    fn parts(&self, mut view: VersionView) -> (VersionView, Item) {
        let mut item = std::mem::take(&mut view.attributes);
        if let Some(Step::Name(first)) = self.path.as_ref().and_then(|path| path.0.first()) {
            item.retain(|name, _| name == first);
        }
        (view, item)
    }
}

/// Returns the origin of the values that a version has, and the states up to version `known` do not have. The change that a baseline or a
/// missed state shows is older than its version.
fn origin(view: VersionView, known: u64) -> Origin {
    let origin = view.change.as_ref().map(|change| change.origin);
    let is_change = !matches!(origin, Some(StateOrigin::Baseline | StateOrigin::Missed));
    let is_next = known + 1 == view.version.get();
    Arc::new((view, is_change && is_next))
}
