//! The price list: compiled in, and replaceable in parts or as a whole.

use jiff::civil::Date;
use serde::Deserialize;
use serde_json::{Map, Value};
use thiserror::Error;

/// What goes by default: the published prices of one Region.
const COMPILED_IN: &str = include_str!("prices.json");

/// What things cost.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub(super) struct Prices {
    pub(super) currency: String,
    pub(super) region: String,
    pub(super) write_request_units: Price,
    pub(super) read_request_units: Price,
    pub(super) provisioned_write_units: Price,
    pub(super) storage: Price,
    pub(super) backup: Price,
    pub(super) lambda_requests: Price,
    pub(super) lambda_arm64: Price,
    pub(super) lambda_x86: Price,
    pub(super) queue_requests: Price,
    pub(super) logs: Price,
}

/// One price, with the date from which it is known to hold.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub(super) struct Price {
    #[serde(rename = "Price")]
    pub(super) amount: f64,
    /// What it is for. It cannot be replaced, or the arithmetic would be another.
    unit: String,
    pub(super) date: String,
    #[serde(default, rename = "Source")]
    _source: Option<String>,
}

/// Why a price list is refused.
#[derive(Debug, Error)]
pub(super) enum InvalidPrices {
    /// It is no JSON object.
    #[error("the price list is no JSON object")]
    Form(#[source] serde_json::Error),
    /// There is no such member.
    #[error("\"{0}\" is no price; `vzero plan --print-prices` shows all that there are")]
    Unknown(String),
    /// Price, unit or date are not there, or something else is.
    #[error("the price \"{name}\" has not the form of the list that `vzero plan --print-prices` shows")]
    Entry {
        /// Which price.
        name: String,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// The arithmetic is in other units.
    #[error("the unit of \"{name}\" is \"{unit}\"")]
    Unit {
        /// Which price.
        name: String,
        /// What it has to be.
        unit: String,
    },
    /// Neither nothing nor an amount.
    #[error("the price \"{0}\" is not between 0 and 1,000,000")]
    Amount(String),
    /// Not a day.
    #[error("the date of \"{0}\" is no date such as 2024-11-01")]
    Date(String),
    /// Prices of two places cannot be added up.
    #[error("a list of another region or currency has to have every price, and \"{0}\" is not there")]
    Mixed(String),
}

/// The compiled-in list with what another one replaces, as JSON.
pub(super) fn merged(replacements: Option<&str>) -> Result<Map<String, Value>, InvalidPrices> {
    let mut merged: Map<String, Value> = serde_json::from_str(COMPILED_IN).map_err(InvalidPrices::Form)?;
    let Some(text) = replacements else {
        return Ok(merged);
    };
    let replacements: Map<String, Value> = serde_json::from_str(text).map_err(InvalidPrices::Form)?;
    if let Some(name) = replacements.keys().find(|name| !merged.contains_key(*name)) {
        return Err(InvalidPrices::Unknown(name.clone()));
    }
    let elsewhere = ["Currency", "Region"]
        .iter()
        .any(|name| replacements.get(*name).is_some_and(|value| *value != merged[*name]));
    if elsewhere && let Some((name, _)) = prices(&merged).find(|(name, _)| !replacements.contains_key(*name)) {
        return Err(InvalidPrices::Mixed(name.clone()));
    }
    for (name, value) in prices(&replacements) {
        let entry = |source| InvalidPrices::Entry {
            name: name.clone(),
            source,
        };
        let price: Price = serde_json::from_value(value.clone()).map_err(entry)?;
        let unit = merged[name]["Unit"].as_str().unwrap_or_default();
        if price.unit != unit {
            return Err(InvalidPrices::Unit {
                name: name.clone(),
                unit: unit.to_owned(),
            });
        }
        if !(0.0..=1e6).contains(&price.amount) {
            return Err(InvalidPrices::Amount(name.clone()));
        }
        if price.date.parse::<Date>().is_err() {
            return Err(InvalidPrices::Date(name.clone()));
        }
    }
    merged.extend(replacements);
    Ok(merged)
}

/// All but the place and the currency.
fn prices(list: &Map<String, Value>) -> impl Iterator<Item = (&String, &Value)> {
    list.iter()
        .filter(|(name, _)| !["Currency", "Region"].contains(&name.as_str()))
}

impl Prices {
    pub(super) fn read(replacements: Option<&str>) -> Result<Self, InvalidPrices> {
        serde_json::from_value(Value::Object(merged(replacements)?)).map_err(InvalidPrices::Form)
    }

    /// The oldest and the newest date of a price.
    pub(super) fn dates(&self) -> (&str, &str) {
        let mut dates = [
            &self.write_request_units,
            &self.read_request_units,
            &self.provisioned_write_units,
            &self.storage,
            &self.backup,
            &self.lambda_requests,
            &self.lambda_arm64,
            &self.lambda_x86,
            &self.queue_requests,
            &self.logs,
        ]
        .map(|price| price.date.as_str());
        dates.sort_unstable();
        (dates[0], dates[dates.len() - 1])
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refusal(list: Value) -> String {
        merged(Some(&list.to_string())).unwrap_err().to_string()
    }

    #[test]
    fn the_compiled_in_list_would_be_accepted_as_a_file() {
        let list = merged(Some(COMPILED_IN)).unwrap();
        assert_eq!(list, merged(None).unwrap());
        assert_eq!(Prices::read(None).unwrap().dates(), ("2016-11-17", "2025-05-01"));
    }

    #[test]
    fn one_price_is_replaced_and_all_others_stay() {
        let list = json!({"Logs": {"Price": 0, "Unit": "GB", "Date": "2031-01-02"}}).to_string();
        let (before, after) = (Prices::read(None).unwrap(), Prices::read(Some(&list)).unwrap());
        assert_eq!((after.logs.amount, after.dates().1), (0.0, "2031-01-02"));
        assert_eq!(after.storage.amount.to_bits(), before.storage.amount.to_bits());
        // Prices only: no member is needed.
        assert!(Prices::read(Some("{}")).is_ok());
        assert!(Prices::read(Some(r#"{"Region": "us-east-1"}"#)).is_ok());
    }

    #[test]
    fn what_is_no_price_list_is_refused_by_its_name() {
        let price = |price: Value, unit: &str, date: &str| json!({"Price": price, "Unit": unit, "Date": date});
        for (list, said) in [
            (json!([]), "no JSON object"),
            (
                json!({"Tea": price(json!(1), "cup", "2024-11-01")}),
                "\"Tea\" is no price",
            ),
            (
                json!({"logs": price(json!(1), "GB", "2024-11-01")}),
                "\"logs\" is no price",
            ),
            (json!({"Logs": 0.5}), "\"Logs\" has not the form"),
            (
                json!({"Logs": {"Price": 0.5, "Unit": "GB"}}),
                "\"Logs\" has not the form",
            ),
            (
                json!({"Logs": {"Price": 0.5, "Unit": "GB", "Date": "2024-11-01", "Tier": 2}}),
                "\"Logs\" has not the form",
            ),
            (
                json!({"Logs": price(json!("0.5"), "GB", "2024-11-01")}),
                "\"Logs\" has not the form",
            ),
            (
                json!({"Logs": price(json!(0.5), "TB", "2024-11-01")}),
                "the unit of \"Logs\" is \"GB\"",
            ),
            (
                json!({"Logs": price(json!(-0.5), "GB", "2024-11-01")}),
                "\"Logs\" is not between",
            ),
            (
                json!({"Logs": price(json!(2e6), "GB", "2024-11-01")}),
                "\"Logs\" is not between",
            ),
            (
                json!({"Logs": price(json!(0.5), "GB", "last year")}),
                "date of \"Logs\"",
            ),
            (
                json!({"Logs": price(json!(0.5), "GB", "2024-13-01")}),
                "date of \"Logs\"",
            ),
            (json!({"Region": "eu-west-1"}), "\"WriteRequestUnits\" is not there"),
            (
                json!({"Currency": "EUR", "Logs": price(json!(0.5), "GB", "2024-11-01")}),
                "is not there",
            ),
        ] {
            let refusal = refusal(list.clone());
            assert!(refusal.contains(said), "{list}: {refusal}");
        }
        // What no f64 holds.
        let list = r#"{"Logs": {"Price": 1e999, "Unit": "GB", "Date": "2024-11-01"}}"#;
        assert!(merged(Some(list)).is_err());
    }
}
