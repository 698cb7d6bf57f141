//! Attaches a table that other programs write: its definition, the deployment that stores its history, and the check of that history.
//!
//! | module | contents |
//! |---|---|
//! | this one | the definition for a table that exists, what has to change first, and notes |
//! | [`attachable`], [`enable_stream`] | its keys, stream and size; its stream, if it has none |
//! | [`deploy`], [`shell`] | commands that deploy `tools/attach/template.yaml`, and their arguments |
//! | [`find`] | the definition of a table that is attached already |
//! | [`definition`], [`filter`] | the attached table from the JSON that creates it; which items have a history |
//! | [`event_pattern`], [`selection`] | patterns of the event source mapping, applied to records, and to items |
//! | [`agreement`], [`check`] | an item compared with its history; a sample of items compared with theirs |
//!
//! Nothing here writes to the table. Only [`enable_stream`] changes it, for the caller who asked for that.
#![allow(
    missing_docs,
    reason = "an internal crate: comments are where a name does not say enough"
)]

pub mod agreement;
pub mod attachable;
pub mod check;
pub mod definition;
pub mod deploy;
pub mod enable_stream;
pub mod event_pattern;
pub mod filter;
pub mod find;
pub mod selection;
pub mod shell;

#[cfg(test)]
mod test_requests;

use aws_sdk_dynamodb::types::{StreamViewType, TableStatus};
use serde_json::Value;
use shared::{
    domain::attached::{AttachedTable, definition::AttachedSettings},
    dynamodb::read::describe_table::key_attributes,
};

pub use crate::definition::parse;
use crate::{
    attachable::AttachableTable,
    definition::{filter_pattern, of_table},
    event_pattern::Invalid,
    shell::argument,
};

/// Returns the definition of the table: the JSON of `create-table` with the members for its history, and what it means. The filter
/// has a form of [`filter`].
///
/// # Errors
///
/// Returns [`Invalid`] if a setting does not fit to the table.
pub fn define(
    table: &AttachableTable,
    settings: AttachedSettings,
    filter: Option<&Value>,
) -> Result<(Value, AttachedTable), Invalid> {
    let keys = key_attributes(&table.keys).map_err(of_table)?;
    let pattern = filter.map(|filter| filter_pattern(filter, &keys)).transpose()?;
    let settings = AttachedSettings {
        table: table.name.clone(),
        filter: pattern,
        ..settings
    };
    let attached = AttachedTable::new(settings, keys).map_err(of_table)?;
    let mut definition = attached.to_json();
    if let Some(filter) = filter {
        definition["Filter"] = filter.clone();
    }
    Ok((definition, attached))
}

/// Returns what has to change before the table can be attached, in sentences.
pub fn required_changes(table: &AttachableTable) -> Vec<String> {
    let mut required = Vec::new();
    if !matches!(table.status, TableStatus::Active | TableStatus::Updating) {
        required.push(format!("the status of the table is {}, not ACTIVE", table.status));
    }
    match table.stream.as_ref().map(|stream| &stream.view) {
        None => required.push("the table has no stream: enable one with --enable-stream".to_owned()),
        Some(StreamViewType::NewAndOldImages | StreamViewType::NewImage) => {}
        Some(view) => required.push(format!(
            "the stream has the view type {view}, without new images: disable it, then enable it with NEW_AND_OLD_IMAGES. The new \
             stream has another ARN; the old one stays readable for 24 hours, for its other readers"
        )),
    }
    required
}

/// Returns facts about the table that limit its history, or that need attention, in sentences.
pub fn notes(table: &AttachableTable) -> Vec<String> {
    let mut notes = Vec::new();
    let is_global = !table.replicas.is_empty();
    match table.stream.as_ref().map(|stream| &stream.view) {
        Some(StreamViewType::NewAndOldImages) => notes.push(
            "an item that exists already gets its first version, a baseline, when it changes for the first time".to_owned(),
        ),
        Some(StreamViewType::NewImage) => notes.push(
            "with the view type NEW_IMAGE, history has no state from before the attachment, and a missing record is not noticed; \
             NEW_AND_OLD_IMAGES is recommended, and needs a new stream"
                .to_owned(),
        ),
        _ => {}
    }
    if is_global {
        notes.push(format!(
            "the table is a global table, with replicas in {}: attach it in one Region only. Its view type cannot be changed",
            table.replicas.join(", ")
        ));
    }
    if let Some(stream) = &table.stream {
        let readers = if is_global { "one reader" } else { "two readers" };
        notes.push(format!(
            "at most {readers} of a stream are advised, and this history is one; `aws lambda list-event-source-mappings \
             --event-source-arn {}{}` lists the event source mappings among them",
            argument(&stream.arn),
            deploy::region(table)
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use crate::attachable::Stream;
    use aws_sdk_dynamodb::types::{BillingMode, ScalarAttributeType};

    use super::*;

    pub(super) fn table(view: Option<StreamViewType>) -> AttachableTable {
        let arn = "arn:aws:dynamodb:eu-west-1:123456789012:table/Orders";
        AttachableTable {
            name: "Orders".to_owned(),
            arn: arn.to_owned(),
            status: TableStatus::Active,
            keys: vec![
                ("customerId".to_owned(), ScalarAttributeType::S),
                ("orderNo".to_owned(), ScalarAttributeType::N),
            ],
            stream: view.map(|view| Stream {
                arn: format!("{arn}/stream/2026-11-22T06:24:48.123"),
                view,
            }),
            billing_mode: BillingMode::PayPerRequest,
            deletion_protection: false,
            encryption: false,
            replicas: Vec::new(),
            items: 0,
            bytes: 0,
            created: None,
        }
    }

    /// `each_view_type_has_its_exit_code_and_the_next_step` has all view types.
    #[test]
    fn a_table_is_attached_when_it_is_active() {
        for (status, required) in [
            (TableStatus::Active, vec![]),
            (TableStatus::Updating, vec![]),
            (
                TableStatus::Creating,
                vec!["the status of the table is CREATING, not ACTIVE"],
            ),
        ] {
            let table = AttachableTable {
                status,
                ..table(Some(StreamViewType::NewImage))
            };
            assert_eq!(required_changes(&table), required);
        }
    }
}
