//! The marker of a request: written with its update, or not at all.

use aws_sdk_dynamodb::{
    error::BuildError,
    types::{Put, ReturnValuesOnConditionCheckFailure},
};

use crate::{
    clock,
    domain::{
        ledger::{Marker, Retention, sort_key},
        names,
        update::Update,
        version::Version,
    },
    dynamodb::{Store, client::error::ServiceError, write::outcome::WriteError},
};

impl Store {
    /// What the ledger says of an update's request: the version that it made, if it was applied.
    pub(crate) async fn ledgered(&self, update: &Update) -> Result<Option<Version>, WriteError> {
        match self.marker(update).await? {
            Some(marker) => known(update, &marker).map(Some),
            None => Ok(None),
        }
    }

    async fn marker(&self, update: &Update) -> Result<Option<Marker>, ServiceError> {
        let item = self.get(&update.entity, &sort_key(&update.request_id), true).await?;
        Ok(item.as_ref().and_then(Marker::from_item))
    }
}

/// The version that a request got, if the marker is of the same update.
pub fn known(update: &Update, marker: &Marker) -> Result<Version, WriteError> {
    if marker.payload == update.payload() {
        Ok(marker.version)
    } else {
        Err(WriteError::RequestIdReused {
            version: marker.version,
        })
    }
}

/// The marker's part of the transaction, on condition that it is free.
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

/// When a marker that is written now expires, in epoch seconds.
pub fn expires(retention: Retention) -> u64 {
    (clock::since_epoch() + retention.duration()).as_secs()
}
