//! Values of arguments.

use std::time::Duration;

use jiff::SpanRelativeTo;
use shared::domain::version::Version;

use crate::error::CliError;

pub(super) fn version(number: u64) -> Result<Version, CliError> {
    Version::try_from(number).map_err(|error| CliError::Usage(error.to_string()))
}

/// Parses an age, such as `90d` or `12h`. A day has 24 hours.
pub(super) fn age(text: &str) -> Result<Duration, String> {
    let span: jiff::Span = text
        .parse()
        .map_err(|_| "expected an age such as 90d, 12h or 30m".to_owned())?;
    let age = span.to_duration(SpanRelativeTo::days_are_24_hours());
    let age = age.map_err(|_| "months and years have no fixed length: use days".to_owned())?;
    Duration::try_from(age).map_err(|_| "an age is not negative".to_owned())
}
