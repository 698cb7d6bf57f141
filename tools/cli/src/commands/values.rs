//! Values of arguments.

use std::{error::Error, time::Duration};

use attach::shell::argument;
use item_diff::{
    line::path_text,
    path::{Path, Step, value_at},
};
use jiff::SpanRelativeTo;
use shared::domain::{AttributeValue, view::VersionView};

use crate::{error::CliError, next, selector::Subject};

/// Maximum number of paths that an error lists.
const MAX_PATHS: usize = 20;

/// Parses the value of an option, if it is there.
pub(crate) fn parsed<T, E: Error>(
    option: &str,
    text: Option<&str>,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<Option<T>, CliError> {
    text.map(parse)
        .transpose()
        .map_err(|error| CliError::usage(option, error))
}

/// Parses an age, such as `90d` or `12h`. A day has 24 hours.
pub(crate) fn age(text: &str) -> Result<Duration, String> {
    let span: jiff::Span = text
        .parse()
        .map_err(|_| "expected an age such as 90d, 12h or 30m".to_owned())?;
    let age = span.to_duration(SpanRelativeTo::days_are_24_hours());
    let age = age.map_err(|_| "months and years have no fixed length: use days".to_owned())?;
    Duration::try_from(age).map_err(|_| "an age is not negative".to_owned())
}

/// Returns the names of a path to a member that is sealed alone.
pub(crate) fn member_names(option: &str, verb: &str, path: &Path) -> Result<Vec<String>, CliError> {
    let name = |step: &Step| match step {
        Step::Name(name) => Some(name.clone()),
        Step::Index(_) => None,
    };
    let names: Vec<_> = path.0.iter().map_while(name).collect();
    match names.len() == path.0.len() {
        true => Ok(names),
        false => Err(below_list(option, verb, &path.to_string(), &names)),
    }
}

pub(crate) fn text_of_names(names: &[String]) -> String {
    Path(names.iter().cloned().map(Step::Name).collect()).to_string()
}

/// Returns the error that a path is inside of a list.
pub(crate) fn below_list(option: &str, verb: &str, path: &str, possible: &[String]) -> CliError {
    let possible = text_of_names(possible);
    CliError::Usage(format!(
        "{option} {path}: a list is sealed as a whole, so that only all of it can be {verb}: {option} {possible}"
    ))
}

/// Returns the value at a path of a version. The error names the paths at the first level that exists.
pub(crate) fn value_of<'a>(
    view: &'a VersionView,
    item: &Subject<'_>,
    path: &Path,
) -> Result<&'a AttributeValue, CliError> {
    value_at(&view.attributes, path).ok_or_else(|| {
        let prefixes = (0..path.0.len()).rev().map(|length| Path(path.0[..length].to_vec()));
        let mut found = prefixes.filter_map(|prefix| Some((parts(view, &prefix)?, prefix)));
        let (parts, prefix) = found.next().unwrap_or_default();
        let there = match parts.first() {
            Some(first) => {
                let mut names: Vec<_> = parts.iter().take(MAX_PATHS).map(path_text).collect();
                names.extend((parts.len() > MAX_PATHS).then(|| "…".to_owned()));
                let (command, key, first) = (next::command(), &item.key, argument(&first.to_string()));
                let names = names.join(", ");
                format!(", only at {names}: `{command} {key} {} --path {first}`", view.version)
            }
            None => format!(": {} has no parts", path_text(&prefix)),
        };
        let (number, path, id) = (view.version, path_text(path), &item.id);
        CliError::NotFound(format!("version {number} of {id} has no value at {path}{there}"))
    })
}

/// Returns the paths of the parts of a value, or of the attributes. `None` if there is no such value.
fn parts(view: &VersionView, path: &Path) -> Option<Vec<Path>> {
    let steps: Vec<_> = match value_at(&view.attributes, path) {
        Some(AttributeValue::L(list)) => (0..list.len()).map(Step::Index).collect(),
        Some(AttributeValue::M(map)) => map.keys().cloned().map(Step::Name).collect(),
        None if path.0.is_empty() => view.attributes.keys().cloned().map(Step::Name).collect(),
        value => value.map(|_| Vec::new())?,
    };
    let mut paths: Vec<_> = steps.into_iter().map(|step| path.with(step)).collect();
    paths.sort_unstable();
    Some(paths)
}
