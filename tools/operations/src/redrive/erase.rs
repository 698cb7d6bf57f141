//! Erasure of values from failure documents.

use serde_json::json;
use shared::{
    domain::{
        attached::key, attributes::item_from_dynamodb_json, entity::EntityId, erased::Erasures, keys::partition_key_of,
        layout,
    },
    dynamodb::Store,
    json,
};
use stream_fn::{record::to_json, redaction::without_erased};

use super::{
    Services,
    places::{self, Places},
};
use crate::{
    connection::Connection,
    error::OperationError,
    failures::{document, source::Source, table_id::TableId},
};

/// What was changed in failure documents.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ErasedDocuments {
    /// Number of documents that have records of the entity with one of the values.
    pub documents: u64,
    /// Objects of which a version with the values is still there.
    pub old_versions: Vec<String>,
    /// Files and objects that are no documents.
    pub others: Vec<String>,
}

/// Removes values from the records that an entity has in failure documents. `is_dry` only counts them.
///
/// # Errors
///
/// Returns [`OperationError`] if a source is neither a folder nor a bucket, or cannot be read or written.
pub async fn erase_documents(
    connection: &Connection,
    services: &Services,
    sources: &[Source],
    (entity, erasures): (&EntityId, &Erasures),
    is_dry: bool,
) -> Result<ErasedDocuments, OperationError> {
    let (access, store) = (Places::new(connection, services), &connection.store);
    let mut done = ErasedDocuments::default();
    for source in sources {
        let found = match source {
            Source::Path(path) => places::files(path)?,
            Source::Bucket { bucket, prefix } => access.objects(bucket, prefix).await?,
            Source::Queue(_) | Source::Quarantine(_) | Source::Stream => {
                let why = "failure documents are in a folder or in s3://BUCKET: messages of a queue cannot be changed";
                return Err(OperationError::Invalid(why.to_owned()));
            }
        };
        for place in found {
            let Ok(text) = access.text(&place).await? else {
                done.others.push(place.to_string());
                continue;
            };
            let Ok(document) = document::parse(&text) else {
                done.others.push(place.to_string());
                continue;
            };
            let is_ours = document.stream_arn.is_none_or(|arn| {
                let name = layout::table_name(store.latest_table());
                TableId::of_arn(&arn).is_none_or(|table| table.name == name)
            });
            let change = |record: &str| {
                let is_of_entity = entity_of(store, record).as_ref() == Some(entity);
                is_of_entity.then(|| without_erased(record, erasures, store.attached_table()))
            };
            let Some(erased) = changed(&text, change).filter(|_| is_ours) else {
                continue;
            };
            done.documents += 1;
            if !is_dry && access.replace(&place, erased).await? {
                done.old_versions.push(place.to_string());
            }
        }
    }
    Ok(done)
}

/// Returns the entity of a stream record, by the keys of its item.
fn entity_of(store: &Store, record: &str) -> Option<EntityId> {
    let keys = item_from_dynamodb_json(&to_json(record)["dynamodb"]["Keys"].to_string()).ok()?;
    match store.attached_table() {
        Some(table) => key::of_item(table, &keys).ok(),
        None => EntityId::new(partition_key_of(&keys)?).ok(),
    }
}

/// Returns a document with changed records, `None` if none changes. The payload is an object, or a string that contains it.
fn changed(text: &str, change: impl Fn(&str) -> Option<String>) -> Option<String> {
    let payload = json::members(text).ok()?.value("payload")?;
    let inner = json::string(payload);
    let event = inner.as_deref().unwrap_or(payload);
    let records = json::members(event).ok()?.get("Records")?;
    let (mut all, mut is_changed) = (Vec::new(), false);
    for record in json::elements(records).ok()? {
        let new = change(record).filter(|new| new != record);
        is_changed |= new.is_some();
        all.push(new.unwrap_or_else(|| record.to_owned()));
    }
    let new = replaced(event, records, &format!("[{}]", all.join(",")))?;
    let new = if inner.is_some() { json!(new).to_string() } else { new };
    replaced(text, payload, &new).filter(|_| is_changed)
}

/// Returns a text with another part in the place of one of its own.
fn replaced(text: &str, part: &str, new: &str) -> Option<String> {
    let start = (part.as_ptr() as usize).checked_sub(text.as_ptr() as usize)?;
    let (before, after) = (text.get(..start)?, text.get(start + part.len()..)?);
    Some([before, new, after].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_replaced_in_their_place() {
        let change = |record: &str| record.contains("secret").then(|| record.replace("secret", "-"));
        let event = r#"{"Records": [ {"a":  1.10}, {"b": "secret"}], "x": "secret"}"#;
        let expected = r#"{"Records": [{"a":  1.10},{"b": "-"}], "x": "secret"}"#;
        for (payload, new) in [
            (event.to_owned(), expected.to_owned()),
            (json!(event).to_string(), json!(expected).to_string()),
        ] {
            let document = |payload: &str| format!(r#" {{"version": "1.0", "payload": {payload} , "n": 7}}"#);
            assert_eq!(changed(&document(&payload), change), Some(document(&new)));
            assert_eq!(changed(&document(&new), change), None);
        }
        for other in ["", "{}", r#"{"payload": 7}"#, r#"{"payload": {"Records": 7}}"#] {
            assert_eq!(changed(other, change), None, "{other}");
        }
    }
}
