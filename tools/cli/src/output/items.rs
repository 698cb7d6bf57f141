//! All items of an entity, and its states: one JSON line for each item, or one table for each kind of items.

use item_diff::line::text_of;
use operations::read::items::ItemCollection;
use patterns::time_series::State;
use serde_json::{Value, json};
use shared::{
    domain::{Item, keys::ItemKind, names, plain},
    printable,
};

use super::{Grid, Output, print, print_json};
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
                    "Kind": format!("{:?}", item.kind),
                    "SK": item.sort_key,
                    "Attributes": plain::attributes(&item.attributes),
                }))
            });
        }
        print(&printable::line(id))?;
        for items in collection.items.chunk_by(|a, b| title(a.kind) == title(b.kind)) {
            print(&format!("\n{}", title(items[0].kind)))?;
            let rows = items.iter().map(|item| (item.sort_key.as_str(), &item.attributes));
            self.items(names::SK, &rows.collect::<Vec<_>>())?;
        }
        Ok(())
    }

    /// Prints states in the order of the slice: one JSON line for each, or one table.
    pub(crate) fn states(&self, id: &str, states: &[State]) -> Result<(), CliError> {
        if self.is_json() {
            return states.iter().try_for_each(|state| print_json(&state_json(id, state)));
        }
        let rows = states.iter().map(|state| (state.time.as_str(), &state.attributes));
        match rows.collect::<Vec<_>>() {
            rows if rows.is_empty() => Ok(()),
            rows => self.items(names::TIME, &rows),
        }
    }

    /// Prints a table with a row for each item: its key, then a column for each attribute.
    fn items(&self, key: &str, items: &[(&str, &Item)]) -> Result<(), CliError> {
        let mut attributes: Vec<&str> = items
            .iter()
            .flat_map(|(_, item)| item.keys().map(String::as_str))
            .collect();
        attributes.retain(|name| !NOT_IN_TABLES.contains(name));
        attributes.sort_unstable();
        attributes.dedup();
        let mut table = Grid::new(&[&[key][..], &attributes].concat());
        for (key, item) in items {
            let values = attributes
                .iter()
                .map(|name| item.get(*name).map(text_of).unwrap_or_default());
            table.add_row(std::iter::once((*key).to_owned()).chain(values));
        }
        self.grid(&table)
    }
}

/// Returns `{"ID": …, "Time": …, "Attributes": {…}}`.
pub(crate) fn state_json(id: &str, state: &State) -> Value {
    json!({"ID": id, "Time": state.time.as_str(), "Attributes": plain::attributes(&state.attributes)})
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
