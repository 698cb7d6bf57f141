//! The price list of one Region.

use serde_json::Value;

pub(super) struct Prices(Value);

impl Prices {
    pub(super) fn read() -> Self {
        Self(serde_json::from_str(include_str!("prices.json")).unwrap_or_default())
    }

    /// Returns a price, in its unit.
    pub(super) fn of(&self, name: &str) -> f64 {
        self.0[name]["Price"].as_f64().unwrap_or(f64::NAN)
    }

    /// Returns the currency or the Region.
    pub(super) fn text(&self, name: &str) -> &str {
        self.0[name].as_str().unwrap_or_default()
    }

    /// Returns the oldest and the newest date since which a price is known to be valid.
    pub(super) fn dates(&self) -> (&str, &str) {
        let entries = self.0.as_object().into_iter().flat_map(|list| list.values());
        let dates = entries.filter_map(|entry| entry["Date"].as_str());
        let (oldest, newest) = (dates.clone().min(), dates.max());
        (oldest.unwrap_or_default(), newest.unwrap_or_default())
    }
}
