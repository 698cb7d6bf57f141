//! Size and nesting of items, by DynamoDB's rules.
//!
//! A latest item that is accepted must also fit as a version item, which has a longer sort key instead of `Latest`, and can
//! get marks later.

use std::collections::HashMap;

use thiserror::Error;

use super::{AttributeValue, Item, number::Decimal};

/// Maximum size of an item in bytes, with attribute names, see
/// [Constraints](https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html).
pub const MAX_ITEM_BYTES: usize = 400 * 1024;
/// Maximum nesting of a value: the value itself is level 1.
pub const MAX_LEVELS: usize = 32;
/// Maximum length in bytes of the name of an attribute or of a map's member.
pub const MAX_NAME_BYTES: usize = 65_535;
/// Size of the marks that a version item can get later: `TTL` in epoch seconds and `Pinned`.
pub const MARKS_BYTES: usize = 3 + 6 + 6 + 1;

/// Returns the size of an item in bytes, see
/// [Item sizes and formats](https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html).
/// The sizes of numbers were measured.
///
/// ```
/// use shared::domain::{Item, size};
///
/// let item: Item = serde_json::from_str(r#"{"PK": {"S": "E"}, "N": {"N": "-12.5"}, "L": {"L": [{"BOOL": true}]}}"#).unwrap();
/// assert_eq!(size::of_item(&item), 2 + 1 + 1 + 4 + 1 + 5);
/// ```
pub fn of_item(item: &Item) -> usize {
    of_attributes(item)
}

pub(super) fn of_attributes(attributes: &HashMap<String, AttributeValue>) -> usize {
    attributes
        .iter()
        .map(|(name, value)| name.len() + of_value(value))
        .sum()
}

/// Returns the size of a value in bytes, without its name.
pub fn of_value(value: &AttributeValue) -> usize {
    use AttributeValue::{B, Bool, Bs, L, M, N, Ns, Null, S, Ss};
    match value {
        S(text) => text.len(),
        N(number) => of_number(number),
        B(bytes) => bytes.len(),
        Bool(_) | Null(_) => 1,
        Ss(texts) => texts.iter().map(String::len).sum(),
        Ns(numbers) => numbers.iter().map(|number| of_number(number)).sum(),
        Bs(values) => values.iter().map(Vec::len).sum(),
        L(values) => 3 + values.iter().map(|value| 1 + of_value(value)).sum::<usize>(),
        M(members) => of_members(members.iter().map(|(name, value)| (name.as_str(), value))),
    }
}

/// Returns the size of a map with these members, in bytes.
pub(super) fn of_members<'a>(members: impl Iterator<Item = (&'a str, &'a AttributeValue)>) -> usize {
    let members = members.map(|(name, value)| 1 + name.len() + of_value(value));
    3 + members.sum::<usize>()
}

/// A text that is not a number has its own length.
fn of_number(text: &str) -> usize {
    Decimal::parse(text).map_or(text.len(), |number| number.bytes())
}

/// Checks the names and the nesting of one attribute.
///
/// # Errors
///
/// Returns [`OverLimit`] if a name is empty or too long, or the nesting is too deep.
pub fn check_attribute(name: &str, value: &AttributeValue) -> Result<(), OverLimit> {
    check_name(name)?;
    if levels(value) > MAX_LEVELS {
        return Err(OverLimit::Levels);
    }
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        match value {
            AttributeValue::L(values) => open.extend(values),
            AttributeValue::M(members) => {
                members.keys().try_for_each(|name| check_name(name))?;
                open.extend(members.values());
            }
            _ => {}
        }
    }
    Ok(())
}

/// Checks the length of a name.
///
/// # Errors
///
/// Returns [`OverLimit::EmptyName`] or [`OverLimit::Name`].
pub fn check_name(name: &str) -> Result<(), OverLimit> {
    match name.len() {
        0 => Err(OverLimit::EmptyName),
        1..=MAX_NAME_BYTES => Ok(()),
        bytes => Err(OverLimit::Name(bytes)),
    }
}

/// Returns the nesting of a value: 1 for a value without values in it. An empty list or map counts as if it had one, as in DynamoDB Local.
pub fn levels(value: &AttributeValue) -> usize {
    let (mut open, mut deepest) = (vec![(value, 1)], 0);
    while let Some((value, level)) = open.pop() {
        let is_container = matches!(value, AttributeValue::L(_) | AttributeValue::M(_));
        deepest = deepest.max(level + usize::from(is_container));
        match value {
            AttributeValue::L(values) => open.extend(values.iter().map(|value| (value, level + 1))),
            AttributeValue::M(members) => open.extend(members.values().map(|value| (value, level + 1))),
            _ => {}
        }
    }
    deepest
}

/// Checks the size of a version item without the marks that it can get later.
///
/// # Errors
///
/// Returns [`OverLimit::Item`] if it does not fit with them.
pub fn check_version_bytes(bytes: usize) -> Result<(), OverLimit> {
    let bytes = bytes + MARKS_BYTES;
    if bytes > MAX_ITEM_BYTES {
        return Err(OverLimit::Item(bytes));
    }
    Ok(())
}

/// Limit of DynamoDB that an item exceeds. No variant holds a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum OverLimit {
    /// A name is empty.
    #[error("a name is empty")]
    EmptyName,
    /// A name is longer than [`MAX_NAME_BYTES`].
    #[error("a name has {0} bytes, and {MAX_NAME_BYTES} are allowed")]
    Name(usize),
    /// The nesting is deeper than [`MAX_LEVELS`].
    #[error("its lists and maps are deeper than {MAX_LEVELS} levels")]
    Levels,
    /// The item is larger than [`MAX_ITEM_BYTES`].
    #[error("the version item would have {0} bytes, and {MAX_ITEM_BYTES} are allowed")]
    Item(usize),
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Measured on DynamoDB Local, by the largest text that fits next to each value.
    #[test]
    fn the_bytes_of_a_value() {
        for (value, bytes) in [
            (json!({"S": ""}), 0),
            (json!({"S": "é"}), 2),
            (json!({"N": "1234"}), 3),
            (json!({"B": "Zm9v"}), 3),
            (json!({"BOOL": true}), 1),
            (json!({"NULL": true}), 1),
            (json!({"L": []}), 3),
            (json!({"L": [{"NULL": true}]}), 5),
            (json!({"L": [{"NULL": true}, {"NULL": true}]}), 7),
            (json!({"L": [{"L": []}]}), 7),
            (json!({"M": {}}), 3),
            (json!({"M": {"k": {"NULL": true}}}), 6),
            (json!({"M": {"k": {"NULL": true}, "l": {"NULL": true}}}), 9),
            (json!({"SS": ["a", "b"]}), 2),
            (json!({"NS": ["1", "2"]}), 4),
            (json!({"BS": ["YQ==", "Yg=="]}), 2),
        ] {
            let read: AttributeValue = serde_json::from_value(value.clone()).unwrap();
            assert_eq!(of_value(&read), bytes, "{value}");
        }
    }

    /// v0 has `Latest` and its recent requests; vN has a longer key and its marks.
    #[test]
    fn a_version_item_with_its_marks_fits_if_its_latest_item_with_recent_requests_fits() {
        use super::super::{keys::VersionDigits, test_values::item, version_item::VersionItem};
        for digits in [1, 10, 20].map(|digits| VersionDigits::new(digits).unwrap()) {
            for latest in (0..18).flat_map(|power| [10u64.pow(power), 10u64.pow(power + 1) - 1]) {
                let latest = json!({"N": latest.to_string()});
                let image = json!({"PK": {"S": "E"}, "SK": {"S": "v0"}, "Latest": latest, "A": {"S": "a"}});
                let version = VersionItem::from_image(item(image.clone()), digits).unwrap();
                let (v0, vn) = (of_item(&item(image.clone())), of_item(version.item()));
                assert!(vn <= v0 + 11, "{digits}: {latest}");
                let mut image = image;
                image["RecentRequests"] = json!({"M": {"AAAAAAAAAAA": latest}});
                assert!(vn + MARKS_BYTES <= of_item(&item(image)), "{digits}: {latest}");
            }
        }
    }
}
