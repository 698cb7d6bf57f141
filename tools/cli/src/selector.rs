//! The item of a command, and its versions as users write them: `7`, `v7`, `latest`, `-1` for the one before the latest, and `@` with a
//! [time](crate::times) for the one that was the latest then: `@yesterday`, `@2d`, `@2026-11-20`, `@14:05`.

use operations::{as_of::as_of, connection::Connection};
use shared::{
    domain::{entity::EntityId, recorded_at::RecordedAt, version::Version, view::VersionView},
    dynamodb::{Store, read::versions::ReadError},
    logging::chain,
};

use crate::{error::CliError, times};

const LATEST: &str = "latest";

/// The item that the arguments of a command name, in its table.
pub(crate) struct Subject<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) entity: EntityId,
    /// Its key in messages, which [`Connection::entity`] accepts: of an attached table, JSON.
    pub(crate) id: String,
    /// Its key in commands: arguments.
    pub(crate) key: String,
    /// Arguments after the key.
    pub(crate) words: &'a [String],
}

impl<'a> Subject<'a> {
    pub(crate) fn store(&self) -> &'a Store {
        &self.connection.store
    }

    /// Returns the version that an argument after the key selects: the latest if it is not there.
    pub(crate) fn word(&self, index: usize) -> &'a str {
        self.words.get(index).map_or(LATEST, String::as_str)
    }

    pub(crate) fn no_entity(&self) -> CliError {
        CliError::no_entity(&self.id)
    }

    /// Reads the version that a text selects. Its state is known.
    pub(crate) async fn select(&self, text: &str) -> Result<VersionView, CliError> {
        let view = self.find(text).await?;
        let error = || {
            format!(
                "the state of version {} of {} is not known: it did not fit, and its record is in quarantine, \
                 `vzero admin quarantine {} --output json`",
                view.version, self.id, self.key
            )
        };
        match view.is_omitted() {
            true => Err(CliError::NotFound(error())),
            false => Ok(view),
        }
    }

    /// Reads the version that a text selects, also if it does not have the state of the item.
    pub(crate) async fn find(&self, text: &str) -> Result<VersionView, CliError> {
        match text.strip_prefix('@') {
            Some(time) => return self.at("@", time).await,
            None if text == LATEST => return self.latest().await,
            None => {}
        }
        let number = self.number(text).await?;
        match self.version(number).await? {
            Some(view) => Ok(view),
            None => Err(self.missing(number).await),
        }
    }

    pub(crate) async fn latest(&self) -> Result<VersionView, CliError> {
        let latest = self.store().latest(&self.entity, self.connection.consistent).await?;
        latest.ok_or_else(|| self.no_entity())
    }

    pub(crate) async fn version(&self, number: Version) -> Result<Option<VersionView>, CliError> {
        let (entity, consistent) = (&self.entity, self.connection.consistent);
        Ok(self.store().version(entity, number, consistent).await?)
    }

    pub(crate) async fn floor(&self) -> Result<Version, CliError> {
        Ok(self.store().floor(&self.entity, self.connection.consistent).await?)
    }

    /// Returns the number of the version that a text selects. A number is not read.
    pub(crate) async fn number(&self, text: &str) -> Result<Version, CliError> {
        match text.strip_prefix('@') {
            Some(time) => return Ok(self.at("@", time).await?.version),
            None if text == LATEST => return Ok(self.latest().await?.version),
            None => {}
        }
        let back = text.strip_prefix('-');
        let digits = back.or(text.strip_prefix('v')).unwrap_or(text);
        let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
        let number: u64 = digits.parse().ok().filter(|_| is_number).ok_or_else(|| {
            let forms =
                "7, v7, latest, -1 for the one before the latest, or a time: @yesterday, @14:05, @2d, @2026-11-20";
            CliError::Usage(format!("a version is {forms}; `vzero log {}` lists them", self.key))
        })?;
        if back.is_none() {
            return Version::try_from(number).map_err(|error| CliError::Usage(error.to_string()));
        }
        let latest = self.latest().await?.version;
        let before = latest.get().checked_sub(number).and_then(Version::new);
        before.ok_or_else(|| {
            let (id, key) = (&self.id, &self.key);
            CliError::NotFound(format!(
                "{id} has no version {number} before the latest, which is version {latest}: `vzero log {key}` lists them"
            ))
        })
    }

    /// Reads the version that was the latest at a time, which follows the option that names it.
    pub(crate) async fn at(&self, option: &str, time: &str) -> Result<VersionView, CliError> {
        let time = times::until(option, time, self.store().now())?;
        let found = as_of(self.store(), &self.entity, time, self.connection.consistent).await;
        self.known(found, time).await
    }

    /// Returns the version that was found by this time, or the next step.
    pub(crate) async fn known(
        &self,
        found: Result<Option<VersionView>, ReadError>,
        time: RecordedAt,
    ) -> Result<VersionView, CliError> {
        let (id, key) = (&self.id, &self.key);
        let error = match found {
            Ok(Some(view)) => return Ok(view),
            Ok(None) => {
                self.latest().await?;
                let oldest = self.floor().await?;
                let view = self.version(oldest).await?;
                let recorded = view
                    .and_then(|view| view.recorded_at)
                    .map_or_else(String::new, |recorded| {
                        format!(", recorded at {}", times::with_offset(recorded))
                    });
                let time = times::with_offset(time);
                return Err(CliError::NotFound(format!(
                    "{id} has no version of {time} or earlier: the oldest is version {oldest}{recorded}, `vzero show {key} {oldest}`"
                )));
            }
            Err(error) => error,
        };
        let next = match &error {
            ReadError::Limit { .. } => "read more versions with a higher --limit",
            ReadError::Missing { .. } => &format!("try again, or run `vzero admin audit {key}`"),
            ReadError::Pruned { floor } => {
                &format!("read the oldest version that is left with `vzero get {key} {floor}`")
            }
            ReadError::NotRecordedAt { .. } => {
                &format!("an older release wrote it: use `vzero get {key} --effective-at TIME`, or a version")
            }
            ReadError::NoTime { .. } => &format!("use --at, or a version that `vzero log {key}` lists"),
            ReadError::Service(_) | ReadError::Latest(_) | ReadError::Uncounted => return Err(error.into()),
        };
        Err(CliError::NotFound(format!("{}; {next}", chain(&error))))
    }

    /// Returns the error of a version that does not exist: it names the versions that do.
    pub(crate) async fn missing(&self, number: Version) -> CliError {
        let (latest, floor) = match (self.latest().await, self.floor().await) {
            (Ok(latest), Ok(floor)) => (latest.version, floor),
            (Err(error), _) | (_, Err(error)) => return error,
        };
        let (id, key) = (&self.id, &self.key);
        CliError::NotFound(if number > latest {
            format!("there is no version {number} of {id}: the latest is {latest}, and `vzero log {key}` lists them")
        } else if number < floor {
            format!(
                "version {number} of {id} was pruned: its history begins at version {floor}, `vzero show {key} {floor}`"
            )
        } else {
            format!("version {number} of {id} is not in the history: try again, or run `vzero admin audit {key}`")
        })
    }
}
