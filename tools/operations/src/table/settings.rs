//! Settings of a versioned table, and their comparison with those that a table has.
//!
//! [`TableSettings::default`] has the settings of `template.yaml`; a test of the local stack compares both. Without the right
//! keys or stream, versioning does not work: these differences are [errors](TableSettings::check). The others are
//! [advice](TableSettings::missing).

use attach::attachable::{AttachableTable, attachable_table};
use aws_sdk_dynamodb::types::{
    BillingMode, PointInTimeRecoveryStatus, ScalarAttributeType, StreamViewType, TimeToLiveStatus,
};
use shared::{
    domain::names,
    dynamodb::{Store, client::error::ServiceError},
};

/// Settings of a table that is billed by request.
#[allow(clippy::struct_excessive_bools, reason = "each is a setting")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableSettings {
    /// Names and types of the key attributes, the partition key first.
    pub keys: Vec<(String, ScalarAttributeType)>,
    /// Content of the stream records, `None` for a table that needs no stream.
    pub stream: Option<StreamViewType>,
    /// Attribute of time to live.
    pub ttl: Option<String>,
    /// `true` if the table cannot be deleted.
    pub deletion_protection: bool,
    /// `true` if the table can be restored as of any time of the last days.
    pub point_in_time_recovery: bool,
    /// `true` if the AWS managed key encrypts the table, and not a key that DynamoDB owns.
    pub encryption: bool,
    /// `true` if the table has the [index by time](shared::domain::time_index).
    pub time_index: bool,
}

impl Default for TableSettings {
    /// Returns the settings of `template.yaml`.
    fn default() -> Self {
        Self {
            keys: [names::PK, names::SK]
                .map(|name| (name.to_owned(), ScalarAttributeType::S))
                .into(),
            stream: Some(StreamViewType::NewImage),
            ttl: Some(names::TTL.to_owned()),
            deletion_protection: true,
            point_in_time_recovery: true,
            encryption: true,
            time_index: false,
        }
    }
}

impl TableSettings {
    /// Returns the settings of a history table.
    #[must_use]
    pub fn of_history() -> Self {
        Self {
            stream: None,
            ..Self::default()
        }
    }

    /// Checks that a table has these keys, and a stream with the same content.
    ///
    /// # Errors
    ///
    /// Returns the first difference, in a sentence.
    pub fn check(&self, table: &AttachableTable) -> Result<(), String> {
        if table.keys != self.keys {
            let (found, expected) = (shown(&table.keys), shown(&self.keys));
            return Err(format!("its keys are {found}, not {expected}"));
        }
        match (table.stream.as_ref().map(|stream| &stream.view), &self.stream) {
            (None, Some(_)) => Err("it has no stream".to_owned()),
            (Some(found), Some(expected)) if found != expected => {
                Err(format!("the view type of its stream is {found}, not {expected}"))
            }
            _ => Ok(()),
        }
    }

    /// Returns a sentence for each other setting that a table does not have, or that cannot be read.
    pub fn missing(&self, state: &TableState) -> Vec<String> {
        let table = &state.table;
        let is_provisioned = table.billing_mode != BillingMode::PayPerRequest;
        let is_unprotected = self.deletion_protection && !table.deletion_protection;
        let is_unencrypted = self.encryption && !table.encryption;
        let ttl = match (&self.ttl, &state.ttl) {
            (Some(expected), Ok(Some(found))) if found != expected => {
                Some(format!("time to live uses the attribute {found}, not {expected}"))
            }
            (Some(_), Ok(None)) => Some("time to live is disabled".to_owned()),
            (Some(_), Err(error)) => Some(format!("time to live is not known: {error}")),
            _ => None,
        };
        let recovery = match &state.point_in_time_recovery {
            _ if !self.point_in_time_recovery => None,
            Ok(true) => None,
            Ok(false) => Some("point-in-time recovery is disabled".to_owned()),
            Err(error) if error.is_unsupported => {
                Some("this endpoint does not support point-in-time recovery".to_owned())
            }
            Err(error) => Some(format!("point-in-time recovery is not known: {error}")),
        };
        let missing = [
            is_provisioned.then(|| format!("the billing mode is {}", table.billing_mode)),
            is_unprotected.then(|| "deletion protection is disabled".to_owned()),
            is_unencrypted.then(|| "encryption with the AWS managed key is disabled".to_owned()),
            ttl,
            recovery,
        ];
        missing.into_iter().flatten().collect()
    }
}

/// Returns keys in the form `PK (S), SK (S)`.
fn shown(keys: &[(String, ScalarAttributeType)]) -> String {
    let keys = keys.iter().map(|(name, kind)| format!("{name} ({kind})"));
    keys.collect::<Vec<_>>().join(", ")
}

/// Settings that a table has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableState {
    pub table: AttachableTable,
    /// Attribute of time to live, `None` if it is disabled. An error if it could not be read.
    pub ttl: Result<Option<String>, ServiceError>,
    /// `true` if point-in-time recovery is enabled. An error if it could not be read: emulators do not support the request.
    pub point_in_time_recovery: Result<bool, ServiceError>,
}

/// Reads the settings of the table: `DescribeTable`, `DescribeTimeToLive` and `DescribeContinuousBackups`. `None` if the table does not
/// exist.
///
/// # Errors
///
/// Returns [`ServiceError`] if the table cannot be described.
pub async fn table_state(store: &Store) -> Result<Option<TableState>, ServiceError> {
    let Some(table) = attachable_table(store).await? else {
        return Ok(None);
    };
    Ok(Some(TableState {
        table,
        ttl: ttl(store).await,
        point_in_time_recovery: point_in_time_recovery(store).await,
    }))
}

pub(crate) async fn ttl(store: &Store) -> Result<Option<String>, ServiceError> {
    let request = store.client().describe_time_to_live().table_name(store.latest_table());
    let output = request.send().await;
    let output = output.map_err(|error| ServiceError::new("DescribeTimeToLive", &error))?;
    let enabled = [Some(TimeToLiveStatus::Enabled), Some(TimeToLiveStatus::Enabling)];
    let ttl = output.time_to_live_description;
    let ttl = ttl.filter(|ttl| enabled.contains(&ttl.time_to_live_status));
    Ok(ttl.and_then(|ttl| ttl.attribute_name))
}

pub(crate) async fn point_in_time_recovery(store: &Store) -> Result<bool, ServiceError> {
    let request = store
        .client()
        .describe_continuous_backups()
        .table_name(store.latest_table());
    let output = request.send().await;
    let output = output.map_err(|error| ServiceError::new("DescribeContinuousBackups", &error))?;
    let backups = output.continuous_backups_description;
    let recovery = backups.and_then(|backups| backups.point_in_time_recovery_description);
    let status = recovery.and_then(|recovery| recovery.point_in_time_recovery_status);
    Ok(status == Some(PointInTimeRecoveryStatus::Enabled))
}

#[cfg(test)]
mod tests {
    use attach::attachable::Stream;
    use aws_sdk_dynamodb::types::TableDescription;

    use super::*;

    type Edit = fn(&mut TableState);

    #[test]
    fn each_difference_is_named() {
        let settings = TableSettings::default();
        let view = settings.stream.clone().unwrap();
        let fitting = TableState {
            table: AttachableTable {
                keys: settings.keys.clone(),
                billing_mode: BillingMode::PayPerRequest,
                stream: Some(Stream {
                    arn: String::new(),
                    view,
                }),
                deletion_protection: true,
                encryption: true,
                ..AttachableTable::of("Table", TableDescription::builder().build())
            },
            ttl: Ok(settings.ttl.clone()),
            point_in_time_recovery: Ok(true),
        };
        assert_eq!(
            (settings.check(&fitting.table), settings.missing(&fitting)),
            (Ok(()), vec![])
        );
        let edits: [Edit; 13] = [
            |state| state.table.keys[1].1 = ScalarAttributeType::N,
            |state| state.table.keys.truncate(1),
            |state| state.table.stream = None,
            |state| state.table.stream.as_mut().unwrap().view = StreamViewType::KeysOnly,
            |state| state.table.billing_mode = BillingMode::Provisioned,
            |state| state.table.deletion_protection = false,
            |state| state.table.encryption = false,
            |state| state.ttl = Ok(None),
            |state| state.ttl = Ok(Some("Expires".to_owned())),
            |state| state.ttl = Err(ServiceError::unprocessed("Describe")),
            |state| state.point_in_time_recovery = Ok(false),
            |state| state.point_in_time_recovery = Err(ServiceError::unprocessed("Describe")),
            |state| {
                let mut error = ServiceError::unprocessed("Describe");
                error.is_unsupported = true;
                state.point_in_time_recovery = Err(error);
            },
        ];
        let differences = [
            "its keys are PK (S), SK (N), not PK (S), SK (S)",
            "its keys are PK (S), not PK (S), SK (S)",
            "it has no stream",
            "the view type of its stream is KEYS_ONLY, not NEW_IMAGE",
            "the billing mode is PROVISIONED",
            "deletion protection is disabled",
            "encryption with the AWS managed key is disabled",
            "time to live is disabled",
            "time to live uses the attribute Expires, not TTL",
            "time to live is not known: Describe was throttled",
            "point-in-time recovery is disabled",
            "point-in-time recovery is not known: Describe was throttled",
            "this endpoint does not support point-in-time recovery",
        ];
        for (edit, difference) in edits.into_iter().zip(differences) {
            let mut state = fitting.clone();
            edit(&mut state);
            let misfit = settings.check(&state.table).err();
            let found: Vec<_> = misfit.into_iter().chain(settings.missing(&state)).collect();
            assert!(found.len() == 1 && found[0].starts_with(difference), "{found:?}");
        }
    }
}
