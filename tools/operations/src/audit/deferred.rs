//! Checks of an audit that are decided after the lag. They are part of the progress from which a later run continues.

use serde::{Deserialize, Serialize};

use shared::{
    domain::{entity::EntityId, version::Version, version_set::VersionSet},
    dynamodb::client::error::ServiceError,
};

/// Part of an audit that is decided after the lag.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum DeferredCheck {
    /// Missing versions.
    Missing(MissingVersions),
    /// Counter that does not fit the versions.
    Counter(DoubtfulCounter),
    /// Item of an attached table that differs from its history.
    Item(DifferentItem),
}

/// Missing versions of an entity, which may still arrive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct MissingVersions {
    #[serde(rename = "ID")]
    pub(crate) id: String,
    #[serde(rename = "Latest", alias = "Head")]
    pub(super) latest: Version,
    pub(super) versions: VersionSet,
}

/// Entity whose counter does not fit its versions. Higher versions may still arrive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct DoubtfulCounter {
    #[serde(rename = "ID")]
    pub(crate) id: String,
    pub(super) highest: Option<Version>,
    pub(super) missing: VersionSet,
    pub(super) rounds: u32,
}

/// Item of an attached table that differs from its newest state in history. The record of its change may still arrive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct DifferentItem {
    #[serde(rename = "ID")]
    pub(crate) id: String,
    /// Newest version when the item was first compared.
    pub(crate) first: Version,
    /// Newest version when the item was compared last.
    pub(crate) newest: Version,
    pub(crate) rounds: u32,
}

/// Returns the entity of a deferred check. Its id was valid when the check was deferred.
pub(crate) fn entity_of(id: &str) -> Result<EntityId, ServiceError> {
    EntityId::new(id).map_err(|_| ServiceError::not_built("GetItem"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn checks_are_read_as_they_were_written() {
        let versions = VersionSet::from_iter([3, 4]);
        let missing = DeferredCheck::Missing(MissingVersions {
            id: "E".to_owned(),
            latest: Version::FIRST,
            versions: versions.clone(),
        });
        let counter = |highest| {
            DeferredCheck::Counter(DoubtfulCounter {
                id: "E".to_owned(),
                highest,
                missing: versions.clone(),
                rounds: 2,
            })
        };
        let item = DeferredCheck::Item(DifferentItem {
            id: "E".to_owned(),
            first: Version::FIRST,
            newest: Version::FIRST,
            rounds: 2,
        });
        for check in [missing.clone(), counter(None), counter(Some(Version::FIRST)), item] {
            let text = serde_json::to_string(&check).unwrap();
            assert_eq!(serde_json::from_str::<DeferredCheck>(&text).unwrap(), check, "{text}");
        }
        // The state file of an earlier release.
        let earlier = json!({"ID": "E", "Head": 1, "Versions": [[3, 4]]});
        assert_eq!(serde_json::from_value::<DeferredCheck>(earlier).unwrap(), missing);
    }
}
