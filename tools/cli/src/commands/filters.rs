//! Options that select versions by what is recorded of them.

use operations::all_versions::filter::VersionFilter;
use shared::domain::recorded_at::RecordedAt;

use crate::{error::CliError, times};

#[derive(Debug, Clone, clap::Args)]
pub(super) struct Filters {
    /// Only versions that were recorded at this time or later
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only versions that were recorded at this time or before
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Only versions with this Actor, also those where it is uncertain
    #[arg(long)]
    actor: Option<String>,
    /// Only versions with this Reason
    #[arg(long)]
    reason: Option<String>,
    /// Only versions of this change set
    #[arg(long, value_name = "ID")]
    pub(super) change_set: Option<String>,
}

impl Filters {
    /// Returns the options that are given, with their names.
    pub(super) fn conditions(&self) -> impl Iterator<Item = (&'static str, &String)> {
        let conditions = [
            ("actor", &self.actor),
            ("reason", &self.reason),
            ("change set", &self.change_set),
            ("since", &self.since),
            ("until", &self.until),
        ];
        conditions
            .into_iter()
            .filter_map(|(name, value)| Some((name, value.as_ref()?)))
    }

    /// Returns the filter. Times such as `yesterday` are relative to `now`.
    pub(super) fn filter(&self, now: RecordedAt) -> Result<VersionFilter, CliError> {
        let since = self.since.as_ref().map(|time| times::since("--since", time, now));
        let until = self.until.as_ref().map(|time| times::until("--until", time, now));
        let (since, until) = (since.transpose()?, until.transpose()?);
        if since.zip(until).is_some_and(|(since, until)| since > until) {
            let usage = "--since is after --until, so no version is selected: exchange the times";
            return Err(CliError::Usage(usage.to_owned()));
        }
        Ok(VersionFilter {
            since,
            until,
            actor: self.actor.clone(),
            reason: self.reason.clone(),
            change_set: self.change_set.clone(),
            entity_prefix: None,
        })
    }
}
