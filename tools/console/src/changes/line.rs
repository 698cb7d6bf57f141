//! Version in the list of all versions, without its attributes.

use std::collections::BTreeSet;

use item_diff::{
    path::Path,
    versions::{Comparison, is_comparable},
};
use operations::all_versions::tally::{names_of, paths_of};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use shared::domain::{recorded_at::RecordedAt, version::Version, view::VersionView};

use crate::summary;

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Line {
    #[serde(rename = "ID")]
    pub(super) entity: String,
    pub(super) version: Version,
    pub(super) recorded_at: Option<String>,
    pub(super) actor: Option<String>,
    pub(super) actor_unchanged: bool,
    pub(super) reason: Option<String>,
    pub(super) change_set: Option<String>,
    /// `Late`, `Missed` or `Baseline`.
    pub(super) mark: Option<String>,
    pub(super) deleted: bool,
    /// Attributes that changed. `None` if they are not known.
    pub(super) paths: Option<BTreeSet<String>>,
    /// The first changes.
    pub(super) changes: Option<String>,
}

impl Line {
    /// Returns `None` if the version did not change the path.
    pub(super) fn of(view: &VersionView, previous: Option<&VersionView>, path: Option<&Path>) -> Option<Self> {
        let is_known = is_comparable(previous, view);
        let comparison = is_known.then(|| Comparison::new(previous, view));
        let comparison = match (path, comparison) {
            (Some(path), Some(comparison)) => Some(comparison.within([Some(path); 2])?),
            (_, comparison) => comparison,
        };
        let mark = view.change.as_ref().and_then(|change| change.origin.mark());
        let old = previous.map(|previous| &previous.attributes);
        let [actor, reason, change_set] = names_of(view);
        Some(Self {
            entity: view.entity.as_str().to_owned(),
            version: view.version,
            recorded_at: view.recorded_at.map(|time| time.to_string()),
            actor,
            actor_unchanged: view.actor_unchanged,
            reason,
            change_set,
            mark: mark.map(str::to_owned),
            deleted: view.deleted,
            paths: comparison.as_ref().map(paths_of),
            changes: is_known.then(|| summary::line(old, &view.attributes)),
        })
    }

    pub(super) fn time(&self) -> Option<RecordedAt> {
        RecordedAt::parse(self.recorded_at.as_ref()?).ok()
    }

    /// Returns the members of the line, `{"ID": …, "Version": 7, "RecordedAt": …, …}`.
    pub(super) fn json(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}
