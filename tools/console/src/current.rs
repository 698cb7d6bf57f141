//! The table of the current request, a value of its task: every link of a page stays on it, and keys are shown as its writers know them.

use std::sync::Arc;

use item_diff::line::text_of;
use operations::error::OperationError;
use serde_json::Value;
use shared::{
    domain::{
        AttributeValue,
        attached::{AttachedTable, key},
        entity::EntityId,
    },
    dynamodb::Store,
};

/// Start of an id that stands for a long key.
const HASHED: &str = "sha256:";

#[derive(Debug, Default)]
pub(super) struct Current {
    /// Name of the table in addresses. The table that the console was started for needs none.
    pub(super) parameter: Option<String>,
    pub(super) attached: Option<AttachedTable>,
}

impl Current {
    /// Returns the table of a store. `parameter` is its name in addresses.
    pub(super) fn of(store: &Store, parameter: Option<&str>) -> Self {
        Self {
            parameter: parameter.map(str::to_owned),
            attached: store.attached_table().cloned(),
        }
    }
}

tokio::task_local! {
    static CURRENT: Arc<Current>;
}

/// Serves a request of a table.
pub(super) async fn serve<F: Future>(current: Arc<Current>, work: F) -> F::Output {
    CURRENT.scope(current, work).await
}

pub(super) fn parameter() -> Option<String> {
    CURRENT.try_with(|current| current.parameter.clone()).ok().flatten()
}

pub(super) fn is_attached() -> bool {
    of_attached(|_| Some(())).is_some()
}

fn of_attached<T>(read: impl FnOnce(&AttachedTable) -> Option<T>) -> Option<T> {
    let read = |current: &Arc<Current>| current.attached.as_ref().and_then(read);
    CURRENT.try_with(read).ok().flatten()
}

/// Returns the names of the key attributes, `None` for a table of entities.
pub(super) fn key_names() -> Option<Vec<String>> {
    of_attached(|table| Some(table.keys().map(|key| key.name.clone()).collect()))
}

/// Parses the id of an entity: the key of an item of an attached table in JSON, or its values with spaces between them.
pub(super) fn entity(text: &str) -> Result<EntityId, OperationError> {
    let names = key_names().filter(|_| !text.starts_with(HASHED)).unwrap_or_default();
    let words: Vec<_> = if names.len() == 1 {
        vec![text]
    } else {
        text.split_whitespace().collect()
    };
    let is_json = text.starts_with('{') || words.len() != names.len();
    let values = || words.iter().map(|word| Value::from(*word));
    let json = || Value::Object(names.iter().cloned().zip(values()).collect()).to_string();
    let parse = |table: &AttachedTable| Some(key::parse(table, &if is_json { text.to_owned() } else { json() }));
    match of_attached(parse).filter(|_| !names.is_empty()) {
        Some(parsed) => Ok(parsed?),
        None => Ok(EntityId::new(text)?),
    }
}

/// Returns the key attributes of an item of an attached table, in their order. `None` for another entity, and for a long key.
pub(super) fn key(id: &str) -> Option<Vec<(String, AttributeValue)>> {
    of_attached(|table| {
        let mut attributes = key::attributes(table, id).ok()?;
        let attribute = |name: &String| Some((name.clone(), attributes.remove(name)?));
        table.keys().map(|key| &key.name).map(attribute).collect()
    })
}

/// Returns the name of an entity for a title.
pub(super) fn title(entity: &EntityId) -> String {
    let id = entity.as_str();
    let attributes = key(id).unwrap_or_default().into_iter();
    let parts: Vec<_> = attributes
        .map(|(name, value)| format!("{name} {}", text_of(&value)))
        .collect();
    if parts.is_empty() {
        id.to_owned()
    } else {
        parts.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn keys_are_read_in_each_form_and_shown_with_their_names() {
        let definition = r#"{
            "TableName": "Orders", "KeySchema": [{"AttributeName": "c", "KeyType": "HASH"}, {"AttributeName": "no", "KeyType": "RANGE"}],
            "AttributeDefinitions": [{"AttributeName": "c", "AttributeType": "S"}, {"AttributeName": "no", "AttributeType": "N"}]
        }"#;
        let attached = Some(attach::parse(definition).unwrap());
        let current = Arc::new(Current {
            attached,
            ..Current::default()
        });
        let shown = async |written: &str| {
            entity(written)
                .ok()
                .map(|entity| (entity.as_str().to_owned(), title(&entity)))
        };
        let hash = format!("{HASHED}{}", "0".repeat(64));
        for (written, expected) in [
            ("c1 7", Some((r#"{"c":"c1","no":7}"#, "c c1, no 7"))),
            (
                r#"{"no": 7.0, "c": "c 1"}"#,
                Some((r#"{"c":"c 1","no":7}"#, "c c 1, no 7")),
            ),
            (&hash, Some((&hash, &hash))),
            ("c1", None),
            ("c1 7 8", None),
            ("c1 x", None),
        ] {
            let expected = expected.map(|(id, title)| (id.to_owned(), title.to_owned()));
            assert_eq!(serve(Arc::clone(&current), shown(written)).await, expected, "{written}");
        }
        assert_eq!(shown("c1 7").await.unwrap().0, "c1 7");
    }
}
