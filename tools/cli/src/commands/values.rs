//! Values of arguments.

use std::{error::Error, time::Duration};

use jiff::SpanRelativeTo;
use operations::connection::Connection;
use shared::domain::{entity::EntityId, version::Version};

use crate::error::CliError;

pub(super) fn version(number: u64) -> Result<Version, CliError> {
    Version::try_from(number).map_err(|error| CliError::Usage(error.to_string()))
}

/// Parses the value of an option, if it is there.
pub(super) fn parsed<T, E: Error>(
    option: &str,
    text: Option<&str>,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<Option<T>, CliError> {
    text.map(parse)
        .transpose()
        .map_err(|error| CliError::usage(option, error))
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

/// Returns the error of a version that does not exist: it names the versions that do.
pub(super) async fn missing(connection: &Connection, entity: &EntityId, id: &str, number: u64) -> CliError {
    let (store, consistent) = (&connection.store, connection.consistent);
    let found = async {
        let latest = store.latest(entity, consistent).await?;
        Ok::<_, CliError>((latest, store.floor(entity, consistent).await?))
    };
    CliError::NotFound(match found.await {
        Err(error) => return error,
        Ok((None, _)) => return CliError::no_entity(id),
        Ok((Some(latest), _)) if number > latest.version.get() => {
            format!("there is no version {number} of {id}: the latest is {}", latest.version)
        }
        Ok((_, floor)) if number < floor.get() => {
            format!("version {number} of {id} was pruned: its history begins at version {floor}")
        }
        Ok(_) => format!("version {number} of {id} is not in the history: try again, or run `vzero audit {id}`"),
    })
}
