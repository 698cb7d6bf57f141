//! Every request to DynamoDB: one file an operation, each in three parts — build the request (pure), send it, read the
//! outcome (pure).

pub mod audit;
pub mod audit_segment;
pub mod backfill;
pub mod batch_get_items;
pub mod capacity;
pub mod client;
pub mod describe_table;
pub mod error;
pub mod get_item;
pub mod history;
pub mod insert_versions;
pub mod latest_versions;
pub mod ledger;
pub mod memory;
pub mod optimistic_lock;
pub mod pace;
pub mod prune;
pub mod purge;
pub mod query_items;
pub mod raise_latest;
pub mod ratchet;
pub mod reads;
mod recollect;
pub mod record_version;
pub mod record_versions;
pub mod recorded;
pub mod request_spans;
pub mod restore;
pub mod revive_latest;
pub mod scan_items;
pub mod scan_latest;
pub mod scan_segment;
pub mod table_config;
pub mod time_series;
pub mod two_tables;
pub mod update_metadata;
pub mod version_run;
pub mod write;
pub mod write_inline;
pub mod write_transaction;
pub mod write_version;

use aws_sdk_dynamodb::Client;

use crate::domain::keys::VersionDigits;

/// A versioned table, and how to reach it.
#[derive(Debug, Clone)]
pub struct Store {
    client: Client,
    table: String,
    digits: VersionDigits,
}

impl Store {
    /// A table whose version keys have this width.
    pub fn new(client: Client, table: impl Into<String>, digits: VersionDigits) -> Self {
        Self {
            client,
            table: table.into(),
            digits,
        }
    }

    /// The width of the table's version keys.
    pub fn digits(&self) -> VersionDigits {
        self.digits
    }
}

/// A string attribute value.
fn s(text: impl Into<String>) -> aws_sdk_dynamodb::types::AttributeValue {
    aws_sdk_dynamodb::types::AttributeValue::S(text.into())
}

/// A number attribute value.
fn n(number: impl ToString) -> aws_sdk_dynamodb::types::AttributeValue {
    aws_sdk_dynamodb::types::AttributeValue::N(number.to_string())
}

#[cfg(test)]
mod test_requests;
