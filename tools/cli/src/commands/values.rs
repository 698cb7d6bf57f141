//! Values of arguments.

use std::{error::Error, time::Duration};

use item_diff::{
    line::path_text,
    path::{Path, value_at},
};
use jiff::SpanRelativeTo;
use shared::domain::{AttributeValue, view::VersionView};

use crate::{error::CliError, selector::Subject};

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

/// Returns the value at a path of a version.
pub(crate) fn value_of<'a>(
    view: &'a VersionView,
    item: &Subject<'_>,
    path: &Path,
) -> Result<&'a AttributeValue, CliError> {
    value_at(&view.attributes, path).ok_or_else(|| {
        let (number, path, id, key) = (view.version, path_text(path), &item.id, &item.key);
        CliError::NotFound(format!(
            "version {number} of {id} has no value at {path}: `vzero get {key} {number}` shows all"
        ))
    })
}
