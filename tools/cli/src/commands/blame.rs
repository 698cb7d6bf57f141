//! `vzero blame`.

use item_diff::{
    line::{path_text, value_text},
    path::{Path, value_at},
    versions::erased_lines,
};
use operations::{
    connection::Connection,
    progress::Progress as _,
    read::blame::{Search, Setter, search},
};
use serde_json::{Map, Value, json};
use shared::domain::{AttributeValue, plain};

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

impl Blame {
    pub(crate) async fn run(&self, connection: &Connection, output: &Output) -> Result<(), CliError> {
        let subject = self.target.subject(connection, 0..=1)?;
        let newest = subject.select(subject.word(0)).await?;
        if let Some(path) = &self.path {
            value_of(&newest, &subject, path)?;
        }
        let mut found = Search::new(&newest.attributes);
        found.retain(|path| self.path.as_ref().is_none_or(|wanted| path.0.starts_with(&wanted.0)));
        let (counter, mut read) = (Bar::counter("versions read", MANY), 0);
        let is_over = |_| {
            read += 1;
            counter.at(read);
            false
        };
        let reads = (connection.consistent, [None; 2]);
        search(subject.store(), &newest, &mut found, reads, is_over).await?;
        drop(counter);
        let mut table = output.listing(&["Version", "RecordedAt", "Actor", "Path", "Value"]);
        for line in found.finish(&None) {
            if let Some((setter, value)) = line.version.zip(value_at(&newest.attributes, &line.path)) {
                table.add(&self.row(&setter, &path_text(&line.path), value, output))?;
            }
        }
        // Who set an erased value is not searched.
        for (path, text) in erased_lines(&newest.erased)
            .into_iter()
            .filter(|_| self.path.is_none() && !output.is_json())
        {
            table.add(&json!({"Path": path, "Value": text}))?;
        }
        table.end(Some("(no attributes)"))
    }

    /// Returns a value with its version. Without certainty, this has `AtOrBefore` in place of the author.
    fn row(&self, setter: &Setter, path: &str, value: &AttributeValue, output: &Output) -> Value {
        let (view, is_certain) = (&setter.view, setter.is_certain());
        if !output.is_json() {
            let number = format!("{}{}", if is_certain { "" } else { "at or before " }, view.version);
            let (time, actor) = (time_text(view, self.times), who(view).filter(|_| is_certain));
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
}
