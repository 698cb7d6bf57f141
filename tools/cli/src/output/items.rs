//! All items of an entity: one JSON line for each item, or one table for each kind of items.

use serde_json::{Value, json};
use shared::{
    domain::{keys::ItemKind, names, plain},
    dynamodb::read::item_collection::{CollectedItem, ItemCollection},
};

use super::{Output, cell, print, print_table, visible};
use crate::error::CliError;

/// Bookkeeping that tables leave out. JSON has it.
const NOT_IN_TABLES: [&str; 6] = [
    names::RECENT_REQUESTS,
    names::REQUESTS_SINCE,
    names::REQUESTS_CHECKPOINT,
    names::RECORDED_VERSION,
    names::RECORDED_TICK,
    names::REQUEST_PAYLOAD,
];

impl Output {
    /// Prints the items in the order of the collection.
    pub(crate) fn item_collection(&self, id: &str, collection: &ItemCollection) -> Result<(), CliError> {
        if self.is_json() {
            return collection.items.iter().try_for_each(|item| {
                print(
                    &json!({
                        "ID": id,
                        "Kind": kind(item.kind),
                        "SK": item.sort_key,
                        "Attributes": plain::attributes(&item.attributes),
                    })
                    .to_string(),
                )
            });
        }
        print(&visible(id))?;
        let sections = collection.items.chunk_by(|a, b| title(a.kind) == title(b.kind));
        sections.into_iter().try_for_each(section)
    }
}

fn section(items: &[CollectedItem]) -> Result<(), CliError> {
    print(&format!("\n{}", items.first().map_or("", |item| title(item.kind))))?;
    let mut attributes: Vec<&String> = items.iter().flat_map(|item| item.attributes.keys()).collect();
    attributes.retain(|name| !NOT_IN_TABLES.contains(&name.as_str()));
    attributes.sort();
    attributes.dedup();
    let header: Vec<_> = [names::SK]
        .into_iter()
        .chain(attributes.iter().map(|name| name.as_str()))
        .collect();
    let row = |item: &CollectedItem| {
        let value = |name: &&String| {
            let value = item.attributes.get(name.as_str());
            value.map(|value| text(&plain::attribute(value))).unwrap_or_default()
        };
        let key = [item.sort_key.clone()].into_iter();
        key.chain(attributes.iter().map(value)).collect()
    };
    print_table(&header, &items.iter().map(row).collect::<Vec<_>>())
}

/// `print_table` escapes control characters.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| cell(value), str::to_owned)
}

fn kind(kind: ItemKind) -> &'static str {
    match kind {
        ItemKind::Metadata => "Metadata",
        ItemKind::Latest => "Latest",
        ItemKind::Version => "Version",
        ItemKind::State => "State",
        ItemKind::Floor => "Floor",
        ItemKind::Request => "Request",
        ItemKind::Other => "Other",
    }
}

fn title(kind: ItemKind) -> &'static str {
    match kind {
        ItemKind::Metadata => "Metadata",
        ItemKind::Latest => "Latest item",
        ItemKind::Version => "Versions",
        ItemKind::State => "States",
        ItemKind::Floor | ItemKind::Request | ItemKind::Other => "Other items",
    }
}
