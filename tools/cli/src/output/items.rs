//! All items of an entity, and its states: one JSON line for each item, or one table for each kind of items.

use operations::read::item_collection::{CollectedItem, ItemCollection};
use patterns::time_series::State;
use serde_json::{Value, json};
use shared::domain::{Item, keys::ItemKind, names, plain};

use super::{Output, cell, print, print_json, visible};
use crate::error::CliError;

/// Bookkeeping that tables leave out. JSON has it.
const NOT_IN_TABLES: [&str; 9] = [
    names::RECENT_REQUESTS,
    names::REQUESTS_SINCE,
    names::REQUESTS_DROPPED,
    names::REQUESTS_AHEAD,
    names::RECORDED_SINCE,
    names::RECORDED_VERSION,
    names::RECORDED_TICK,
    names::INCARNATION,
    names::REQUEST_PAYLOAD,
];

impl Output {
    /// Prints the items in the order of the collection.
    pub(crate) fn item_collection(&self, id: &str, collection: &ItemCollection) -> Result<(), CliError> {
        if self.is_json() {
            return collection.items.iter().try_for_each(|item| {
                print_json(&json!({
                    "ID": id,
                    "Kind": kind(item.kind),
                    "SK": item.sort_key,
                    "Attributes": plain::attributes(&item.attributes),
                }))
            });
        }
        print(&visible(id))?;
        let sections = collection.items.chunk_by(|a, b| title(a.kind) == title(b.kind));
        sections.into_iter().try_for_each(|items| self.section(items))
    }

    /// Prints states in the order of the slice: one JSON line for each, or one table.
    pub(crate) fn states(&self, id: &str, states: &[State]) -> Result<(), CliError> {
        if self.is_json() {
            return states.iter().try_for_each(|state| self.object(&state_json(id, state)));
        }
        if states.is_empty() {
            return Ok(());
        }
        let rows: Vec<_> = states
            .iter()
            .map(|state| (state.time.as_str(), &state.attributes))
            .collect();
        self.rows(names::TIME, &rows)
    }
}

/// Returns `{"ID": …, "Time": …, "Attributes": {…}}`.
pub(crate) fn state_json(id: &str, state: &State) -> Value {
    json!({"ID": id, "Time": state.time.as_str(), "Attributes": plain::attributes(&state.attributes)})
}

impl Output {
    fn section(&self, items: &[CollectedItem]) -> Result<(), CliError> {
        print(&format!("\n{}", items.first().map_or("", |item| title(item.kind))))?;
        let rows: Vec<_> = items
            .iter()
            .map(|item| (item.sort_key.as_str(), &item.attributes))
            .collect();
        self.rows(names::SK, &rows)
    }

    /// Prints a table with a row for each item: its key, then a column for each attribute.
    fn rows(&self, key: &str, items: &[(&str, &Item)]) -> Result<(), CliError> {
        let mut attributes: Vec<&String> = items.iter().flat_map(|(_, item)| item.keys()).collect();
        attributes.retain(|name| !NOT_IN_TABLES.contains(&name.as_str()));
        attributes.sort();
        attributes.dedup();
        let header: Vec<_> = [key]
            .into_iter()
            .chain(attributes.iter().map(|name| name.as_str()))
            .collect();
        let row = |(key, item): &(&str, &Item)| {
            let value = |name: &&String| {
                let value = item.get(name.as_str());
                value.map(|value| text(&plain::attribute(value))).unwrap_or_default()
            };
            let key = [(*key).to_owned()].into_iter();
            key.chain(attributes.iter().map(value)).collect()
        };
        self.table(&header, &items.iter().map(row).collect::<Vec<_>>())
    }
}

/// [`Output::table`] escapes hidden characters.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| cell(value), str::to_owned)
}

fn kind(kind: ItemKind) -> &'static str {
    match kind {
        ItemKind::Metadata => "Metadata",
        ItemKind::Latest => "Latest",
        ItemKind::Version => "Version",
        ItemKind::Part => "Part",
        ItemKind::State => "State",
        ItemKind::Floor => "Floor",
        ItemKind::Quarantined => "Quarantined",
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
        ItemKind::Part | ItemKind::Floor | ItemKind::Quarantined | ItemKind::Request | ItemKind::Other => "Other items",
    }
}
