//! What is true of the entity as such: the item `Metadata`, by `UpdateItem`.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::{operation::update_item::builders::UpdateItemInputBuilder, types::ReturnValue};

use crate::{
    domain::{Item, entity::EntityId, names, update::Change},
    dynamodb::{Store, client::error::ServiceError, s},
};

const OPERATION: &str = "UpdateItem";
/// Its sort key.
pub const SORT_KEY: &str = "Metadata";

impl Store {
    /// Changes the metadata of an entity, and returns all of it. It has no versions.
    pub async fn update_metadata(
        &self,
        entity: &EntityId,
        changes: &BTreeMap<String, Change>,
    ) -> Result<Item, ServiceError> {
        let answer = request(entity, changes, &self.table).send_with(&self.client).await;
        let output = answer.map_err(|error| ServiceError::new(OPERATION, &error))?;
        Ok(Item::from(output.attributes.unwrap_or_default()))
    }
}

/// The request.
pub fn request(entity: &EntityId, changes: &BTreeMap<String, Change>, table: &str) -> UpdateItemInputBuilder {
    let mut builder = UpdateItemInputBuilder::default()
        .table_name(table)
        .key(names::PK, s(entity.as_str()))
        .key(names::SK, s(SORT_KEY))
        .return_values(ReturnValue::AllNew);
    let (mut set, mut remove) = (Vec::new(), Vec::new());
    for (index, (name, change)) in changes.iter().enumerate() {
        builder = builder.expression_attribute_names(format!("#{index}"), name);
        match change {
            Change::Set(value) => {
                set.push(format!("#{index}=:{index}"));
                builder = builder.expression_attribute_values(format!(":{index}"), value.clone().into());
            }
            Change::Remove => remove.push(format!("#{index}")),
        }
    }
    let part = |word: &str, parts: &[String]| (!parts.is_empty()).then(|| format!("{word} {}", parts.join(",")));
    let parts: Vec<_> = [part("SET", &set), part("REMOVE", &remove)]
        .into_iter()
        .flatten()
        .collect();
    builder.set_update_expression((!parts.is_empty()).then(|| parts.join(" ")))
}
