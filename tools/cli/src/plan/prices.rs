//! The price list: compiled in, and replaceable in part or completely.

use jiff::civil::Date;
use serde::Deserialize;
use serde_json::{Map, Value};
use shared::json::{self, InvalidJson};
use thiserror::Error;

/// Published prices of one Region.
const COMPILED_IN: &str = include_str!("prices.json");

#[derive(Debug)]
pub(super) struct Prices(Map<String, Value>);

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Entry {
    price: f64,
    /// The unit of the calculation, so it cannot be replaced.
    unit: String,
    /// The date since which the price is known to be valid.
    date: String,
    #[serde(default, rename = "Source")]
    _source: Option<String>,
}

#[derive(Debug, Error)]
pub(super) enum InvalidPrices {
    #[error("the price list is not JSON")]
    NotJson(#[from] InvalidJson),
    #[error("the price list is not a JSON object")]
    NotAnObject,
    #[error("\"{0}\" is not a price; `vzero plan --print-prices` lists all prices")]
    Unknown(String),
    #[error("the price \"{name}\" does not have the form of the list that `vzero plan --print-prices` prints")]
    Entry { name: String, source: serde_json::Error },
    #[error("the {member} of \"{name}\" is not {expected}")]
    Member {
        name: String,
        member: &'static str,
        expected: String,
    },
    /// Prices of two Regions cannot be added.
    #[error("the list of another region or currency must have every price, but \"{0}\" is missing")]
    Incomplete(String),
}

impl Prices {
    /// Returns the compiled-in list with these replacements, a JSON object of the same form.
    pub(super) fn read(replacements: Option<&str>) -> Result<Self, InvalidPrices> {
        let mut list = members(COMPILED_IN)?;
        let replacements = members(replacements.unwrap_or("{}"))?;
        let is_elsewhere = ["Currency", "Region"]
            .iter()
            .any(|name| replacements.get(*name).is_some_and(|value| *value != list[*name]));
        if is_elsewhere && let Some((name, _)) = entries(&list).find(|(name, _)| !replacements.contains_key(*name)) {
            return Err(InvalidPrices::Incomplete(name.clone()));
        }
        for (name, value) in &replacements {
            check(name, value, list.get(name))?;
        }
        list.extend(replacements);
        Ok(Self(list))
    }

    pub(super) fn list(&self) -> &Map<String, Value> {
        &self.0
    }

    /// Returns a price of the compiled-in list.
    pub(super) fn of(&self, name: &str) -> f64 {
        self.0[name]["Price"].as_f64().unwrap_or_default()
    }

    /// Returns the currency or the Region.
    pub(super) fn text(&self, name: &str) -> &str {
        self.0[name].as_str().unwrap_or_default()
    }

    /// Returns the oldest and the newest date of a price.
    pub(super) fn dates(&self) -> (&str, &str) {
        let dates = || entries(&self.0).filter_map(|(_, entry)| entry["Date"].as_str());
        (dates().min().unwrap_or_default(), dates().max().unwrap_or_default())
    }
}

fn members(text: &str) -> Result<Map<String, Value>, InvalidPrices> {
    match json::parse(text)? {
        Value::Object(members) => Ok(members),
        _ => Err(InvalidPrices::NotAnObject),
    }
}

/// Returns the prices, without currency and Region.
fn entries(list: &Map<String, Value>) -> impl Iterator<Item = (&String, &Value)> {
    list.iter()
        .filter(|(name, _)| !["Currency", "Region"].contains(&name.as_str()))
}

/// Checks a member that replaces `compiled_in`.
fn check(name: &str, value: &Value, compiled_in: Option<&Value>) -> Result<(), InvalidPrices> {
    let name = name.to_owned();
    let Some(compiled_in) = compiled_in else {
        return Err(InvalidPrices::Unknown(name));
    };
    if compiled_in.is_string() && value.is_string() {
        return Ok(());
    }
    let entry: Entry = match serde_json::from_value(value.clone()) {
        Ok(entry) => entry,
        Err(source) => return Err(InvalidPrices::Entry { name, source }),
    };
    let (member, expected) = if compiled_in["Unit"] != *entry.unit {
        ("unit", compiled_in["Unit"].to_string())
    } else if !(0.0..=1e6).contains(&entry.price) {
        ("price", "between 0 and 1,000,000".to_owned())
    } else if entry.date.parse::<Date>().is_err() {
        ("date", "a date such as 2024-11-01".to_owned())
    } else {
        return Ok(());
    };
    Err(InvalidPrices::Member { name, member, expected })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_compiled_in_list_is_valid_as_a_file() {
        let list = Prices::read(Some(COMPILED_IN)).unwrap();
        assert_eq!(list.0, Prices::read(None).unwrap().0);
        assert_eq!(list.dates(), ("2016-11-17", "2025-05-01"));
    }

    #[test]
    fn a_list_can_replace_one_price() {
        let list = r#"{"Logs": {"Price": 0, "Unit": "GB", "Date": "2031-01-02"}}"#;
        let (before, after) = (Prices::read(None).unwrap(), Prices::read(Some(list)).unwrap());
        assert_eq!((after.of("Logs"), after.dates().1), (0.0, "2031-01-02"));
        assert_eq!(after.of("Storage").to_bits(), before.of("Storage").to_bits());
        // Currency and Region are optional.
        assert!(Prices::read(Some("{}")).is_ok());
        assert!(Prices::read(Some(r#"{"Region": "us-east-1"}"#)).is_ok());
    }

    #[test]
    fn an_invalid_list_is_rejected_with_the_name_of_the_price() {
        for (list, message) in [
            ("[]", "not a JSON object"),
            (
                r#"{"Tea": {"Price": 1, "Unit": "cup", "Date": "2024-11-01"}}"#,
                "\"Tea\" is not a price",
            ),
            (
                r#"{"logs": {"Price": 1, "Unit": "GB", "Date": "2024-11-01"}}"#,
                "\"logs\" is not a price",
            ),
            (r#"{"Logs": 0.5}"#, "\"Logs\" does not have the form"),
            (
                r#"{"Logs": {"Price": 0.5, "Unit": "GB"}}"#,
                "\"Logs\" does not have the form",
            ),
            (
                r#"{"Logs": {"Price": 0.5, "Unit": "GB", "Date": "2024-11-01", "Tier": 2}}"#,
                "\"Logs\" does not have the form",
            ),
            (
                r#"{"Logs": {"Price": "0.5", "Unit": "GB", "Date": "2024-11-01"}}"#,
                "\"Logs\" does not have the form",
            ),
            (
                r#"{"Logs": {"Price": 0.5, "Unit": "TB", "Date": "2024-11-01"}}"#,
                "the unit of \"Logs\" is not \"GB\"",
            ),
            (
                r#"{"Logs": {"Price": -0.5, "Unit": "GB", "Date": "2024-11-01"}}"#,
                "\"Logs\" is not between",
            ),
            (
                r#"{"Logs": {"Price": 2e6, "Unit": "GB", "Date": "2024-11-01"}}"#,
                "\"Logs\" is not between",
            ),
            (
                r#"{"Logs": {"Price": 0.5, "Unit": "GB", "Date": "last year"}}"#,
                "date of \"Logs\"",
            ),
            (
                r#"{"Logs": {"Price": 0.5, "Unit": "GB", "Date": "2024-13-01"}}"#,
                "date of \"Logs\"",
            ),
            (r#"{"Region": "eu-west-1"}"#, "\"WriteRequestUnits\" is missing"),
            (
                r#"{"Currency": "EUR", "Logs": {"Price": 0.5, "Unit": "GB", "Date": "2024-11-01"}}"#,
                "is missing",
            ),
        ] {
            let error = Prices::read(Some(list)).unwrap_err().to_string();
            assert!(error.contains(message), "{list}: {error}");
        }
        // Too large for an f64.
        let list = r#"{"Logs": {"Price": 1e999, "Unit": "GB", "Date": "2024-11-01"}}"#;
        assert!(Prices::read(Some(list)).is_err());
    }
}
