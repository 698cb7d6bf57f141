//! Marker of a request, written in the same transaction as its update.

use std::time::Duration;

use aws_sdk_dynamodb::{
    error::BuildError,
    types::{Put, ReturnValuesOnConditionCheckFailure},
};

use crate::{
    domain::{
        ledger::{Marker, Retention, sort_key},
        names,
        update::Update,
        version::Version,
    },
    dynamodb::{Store, client::error::ServiceError, write::outcome::WriteError},
};

impl Store {
    /// Returns the version that an update's request created, if the ledger has its marker.
    pub(crate) async fn version_in_ledger(&self, update: &Update) -> Result<Option<Version>, WriteError> {
        match self.marker(update).await? {
            Some(marker) => applied_version(update, &marker).map(Some),
            None => Ok(None),
        }
    }

    async fn marker(&self, update: &Update) -> Result<Option<Marker>, ServiceError> {
        let item = self.get(&update.entity, &sort_key(&update.request_id), true).await?;
        Ok(item.as_ref().and_then(Marker::from_item))
    }
}

/// Returns the marker's version, if the marker belongs to the same update.
///
/// # Errors
///
/// Returns [`WriteError::RequestIdReused`] if the marker belongs to another update.
pub fn applied_version(update: &Update, marker: &Marker) -> Result<Version, WriteError> {
    if marker.payload == update.payload() {
        Ok(marker.version)
    } else {
        Err(WriteError::RequestIdReused {
            version: marker.version,
        })
    }
}

/// Builds the put of the marker, on condition that its key is free.
///
/// # Errors
///
/// Returns [`BuildError`] if the SDK rejects the put.
pub fn request(update: &Update, version: Version, expires: u64, table: &str) -> Result<Put, BuildError> {
    let marker = Marker {
        version,
        payload: update.payload(),
    };
    Put::builder()
        .table_name(table)
        .set_item(Some(marker.item(update, expires).into()))
        .condition_expression("attribute_not_exists(#pk)")
        .expression_attribute_names("#pk", names::PK)
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
        .build()
}

/// Returns the expiry of a marker that is written at a time since 1970, in epoch seconds.
pub fn expires(retention: Retention, now: Duration) -> u64 {
    (now + retention.duration()).as_secs()
}
