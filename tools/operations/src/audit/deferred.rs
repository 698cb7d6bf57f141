//! Checks of an audit that are decided after the lag. They are part of the progress from which a later run continues.

use serde::{Deserialize, Serialize};

use shared::{
    domain::{entity::EntityId, version::Version},
    dynamodb::client::error::ServiceError,
};

use crate::version_set::VersionSet;

/// Part of an audit of an entity that is decided after the lag.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, rename_all_fields = "PascalCase")]
pub enum DeferredCheck {
    /// Missing versions, which may still arrive.
    Missing {
        #[serde(rename = "ID")]
        id: String,
        #[serde(alias = "Head")]
        latest: Version,
        versions: VersionSet,
    },
    /// The counter does not fit the versions. Higher versions may still arrive.
    Counter {
        #[serde(rename = "ID")]
        id: String,
        highest: Option<Version>,
        missing: VersionSet,
        rounds: u32,
    },
    /// The item of an attached table differs from its newest state in history. The record of its change may still arrive.
    Item {
        #[serde(rename = "ID")]
        id: String,
        /// Newest version when the item was first compared.
        first: Version,
        /// Newest version when the item was compared last.
        newest: Version,
        rounds: u32,
    },
}

impl DeferredCheck {
    /// Returns the entity. Its id was valid when the check was deferred.
    pub(super) fn entity(&self) -> Result<EntityId, ServiceError> {
        let (Self::Missing { id, .. } | Self::Counter { id, .. } | Self::Item { id, .. }) = self;
        EntityId::new(id.as_str()).map_err(|_| ServiceError::not_built("GetItem"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn checks_are_read_as_they_were_written() {
        for (json, expected) in [
            (json!({"ID": "E", "Latest": 1, "Versions": [[3, 4]]}), "Missing"),
            // The state file of an earlier release.
            (json!({"ID": "E", "Head": 1, "Versions": [[3, 4]]}), "Missing"),
            (
                json!({"ID": "E", "Highest": null, "Missing": [[3, 4]], "Rounds": 2}),
                "Counter",
            ),
            (json!({"ID": "E", "Highest": 1, "Missing": [], "Rounds": 0}), "Counter"),
            (json!({"ID": "E", "First": 1, "Newest": 2, "Rounds": 2}), "Item"),
        ] {
            let check: DeferredCheck = serde_json::from_value(json.clone()).unwrap();
            assert!(format!("{check:?}").starts_with(expected), "{check:?}");
            let written = serde_json::to_string(&check).unwrap();
            assert_eq!(
                written.replace("Latest", "Head"),
                json.to_string().replace("Latest", "Head")
            );
        }
    }
}
