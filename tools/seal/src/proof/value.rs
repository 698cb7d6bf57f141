//! A value in a proof: DynamoDB JSON in one form only, so that a text shows exactly one value.

use serde::{Deserialize, Deserializer, Serialize, Serializer, ser::Error as _};
use serde_json::{Map, Value, json};
use shared::domain::{AttributeValue, number::Decimal};

/// A value that a proof shows. Numbers are written without an exponent and unnecessary zeros, sets and the names of maps are sorted.
#[derive(Debug, Clone, PartialEq)]
pub struct ShownValue(pub AttributeValue);

impl Serialize for ShownValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let value = ordered(&self.0).ok_or_else(|| S::Error::custom("a number cannot be stored by DynamoDB"))?;
        value.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ShownValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        AttributeValue::deserialize(deserializer).map(Self)
    }
}

/// Returns the value in its one form, `None` if it has an invalid number.
fn ordered(value: &AttributeValue) -> Option<Value> {
    Some(match value {
        AttributeValue::N(text) => json!({"N": plain(text)?}),
        AttributeValue::Ss(texts) => {
            let mut texts = texts.clone();
            texts.sort_unstable();
            json!({"SS": texts})
        }
        AttributeValue::Ns(texts) => {
            let mut numbers: Vec<_> = texts.iter().map(|text| plain(text)).collect::<Option<_>>()?;
            numbers.sort_unstable();
            json!({"NS": numbers})
        }
        AttributeValue::Bs(all) => {
            let mut all = all.clone();
            all.sort_unstable();
            serde_json::to_value(AttributeValue::Bs(all)).ok()?
        }
        AttributeValue::L(values) => json!({"L": values.iter().map(ordered).collect::<Option<Vec<_>>>()?}),
        AttributeValue::M(map) => {
            let mut members: Vec<_> = map.iter().collect();
            members.sort_unstable_by_key(|(name, _)| *name);
            let members = members
                .into_iter()
                .map(|(name, value)| Some((name.clone(), ordered(value)?)));
            json!({"M": members.collect::<Option<Map<_, _>>>()?})
        }
        AttributeValue::Null(_) => json!({"NULL": true}),
        other => serde_json::to_value(other).ok()?,
    })
}

/// Returns a number in the notation in which DynamoDB returns it, without an exponent.
fn plain(text: &str) -> Option<String> {
    let canonical = Decimal::parse(text).ok()?.canonical();
    let (digits, exponent) = canonical.split_once('e')?;
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits), |digits| ("-", digits));
    let exponent: i32 = exponent.parse().ok()?;
    if digits.is_empty() {
        return Some("0".to_owned());
    }
    let Ok(whole) = usize::try_from(exponent + 1) else {
        let zeros = "0".repeat(usize::try_from(-exponent - 1).ok()?);
        return Some(format!("{sign}0.{zeros}{digits}"));
    };
    Some(match digits.split_at_checked(whole) {
        Some(("", fraction)) => format!("{sign}0.{fraction}"),
        Some((digits, "")) => format!("{sign}{digits}"),
        Some((digits, fraction)) => format!("{sign}{digits}.{fraction}"),
        None => format!("{sign}{digits}{}", "0".repeat(whole - digits.len())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_plain() {
        for (text, expected) in [
            ("0", "0"),
            ("-0.00", "0"),
            ("007", "7"),
            ("1.50", "1.5"),
            ("-12.5e1", "-125"),
            ("1e3", "1000"),
            ("12e-1", "1.2"),
            ("0.5", "0.5"),
            ("-5e-3", "-0.005"),
            ("100", "100"),
        ] {
            assert_eq!(plain(text).as_deref(), Some(expected), "{text}");
        }
        assert_eq!(plain("x"), None);
        assert_eq!(plain("1e125").map(|text| text.len()), Some(126));
    }

    #[test]
    fn a_value_has_one_text() {
        for (value, expected) in [
            (r#"{"NS":["10","9.0"]}"#, r#"{"NS":["10","9"]}"#),
            (r#"{"SS":["b","a"]}"#, r#"{"SS":["a","b"]}"#),
            (r#"{"BS":["Yg==","YQ=="]}"#, r#"{"BS":["YQ==","Yg=="]}"#),
            (
                r#"{"M":{"b":{"L":[{"N":"1.0"}]},"a":{"NULL":true}}}"#,
                r#"{"M":{"a":{"NULL":true},"b":{"L":[{"N":"1"}]}}}"#,
            ),
            (r#"{"BOOL":false}"#, r#"{"BOOL":false}"#),
            (r#"{"NULL":false}"#, r#"{"NULL":true}"#),
            (r#"{"B":"YQ=="}"#, r#"{"B":"YQ=="}"#),
        ] {
            let shown: ShownValue = serde_json::from_str(value).unwrap();
            assert_eq!(serde_json::to_string(&shown).unwrap(), expected);
        }
    }
}
