//! How large an item is to DynamoDB, and how deep.
//!
//! The latest item must never outgrow its history: what is accepted as v0 has to fit as vN, with the marks that a version
//! item may get later. v0 has `Latest`, and vN a longer sort key in its place.

use thiserror::Error;

use super::{AttributeValue, Item, number::Decimal};

/// The most bytes of an item, names included.
pub const MAX_ITEM_BYTES: usize = 400 * 1024;
/// The most levels of a value: itself, and the lists and maps inside one another that it is made of.
pub const MAX_LEVELS: usize = 32;
/// The most bytes of the name of an attribute, or of a member of a map.
pub const MAX_NAME_BYTES: usize = 65_535;
/// What a version item may get after it was written: `TTL` in epoch seconds and `Pinned`.
pub const MARKS_BYTES: usize = 3 + 6 + 6 + 1;

/// The bytes of an item, by DynamoDB's rules ("Item sizes and formats" in its developer guide; those of numbers were
/// measured).
///
/// ```
/// use shared::domain::{Item, size};
///
/// let item: Item = serde_json::from_str(r#"{"PK": {"S": "E"}, "N": {"N": "-12.5"}, "L": {"L": [{"BOOL": true}]}}"#).unwrap();
/// assert_eq!(size::of_item(&item), 2 + 1 + 1 + 4 + 1 + 5);
/// ```
pub fn of_item(item: &Item) -> usize {
    item.iter().map(|(name, value)| name.len() + of_value(value)).sum()
}

/// The bytes of a value, without its name.
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
        M(members) => 3 + members.iter().map(|member| 1 + of_member(member)).sum::<usize>(),
    }
}

fn of_member((name, value): (&String, &AttributeValue)) -> usize {
    name.len() + of_value(value)
}

/// What is no number is as long as it is written.
fn of_number(text: &str) -> usize {
    Decimal::parse(text).map_or(text.len(), |number| number.bytes())
}

/// Checks everything about one attribute that DynamoDB judges by itself: names and levels.
pub fn check_attribute(name: &str, value: &AttributeValue) -> Result<(), OverLimit> {
    check_name(name)?;
    // A list that is empty is a level to Amazon's own DynamoDB Local.
    let mut open = vec![(value, 1)];
    while let Some((value, level)) = open.pop() {
        if level > MAX_LEVELS || (level == MAX_LEVELS && is_container(value)) {
            return Err(OverLimit::Levels);
        }
        match value {
            AttributeValue::L(values) => open.extend(values.iter().map(|value| (value, level + 1))),
            AttributeValue::M(members) => {
                for (name, value) in members {
                    check_name(name)?;
                    open.push((value, level + 1));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Checks the length of a name.
pub fn check_name(name: &str) -> Result<(), OverLimit> {
    match name.len() {
        0 => Err(OverLimit::EmptyName),
        1..=MAX_NAME_BYTES => Ok(()),
        bytes => Err(OverLimit::Name { bytes }),
    }
}

fn is_container(value: &AttributeValue) -> bool {
    matches!(value, AttributeValue::L(_) | AttributeValue::M(_))
}

/// Checks that the item of a version fits, and goes on fitting when it is marked.
pub fn check_version_item(item: &Item) -> Result<(), OverLimit> {
    check_version_bytes(of_item(item))
}

/// The same, of its size without marks.
pub(super) fn check_version_bytes(bytes: usize) -> Result<(), OverLimit> {
    let bytes = bytes + MARKS_BYTES;
    if bytes > MAX_ITEM_BYTES {
        return Err(OverLimit::Item { bytes });
    }
    Ok(())
}

/// What of an item DynamoDB does not hold. No variant tells a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum OverLimit {
    /// DynamoDB has no attributes without a name.
    #[error("a name is empty")]
    EmptyName,
    /// Longer than [`MAX_NAME_BYTES`].
    #[error("a name has {bytes} bytes, and {MAX_NAME_BYTES} are allowed")]
    Name {
        /// Its length.
        bytes: usize,
    },
    /// Deeper than [`MAX_LEVELS`].
    #[error("its lists and maps are deeper than {MAX_LEVELS} levels")]
    Levels,
    /// Above [`MAX_ITEM_BYTES`].
    #[error("the version item would have {bytes} bytes, and {MAX_ITEM_BYTES} are allowed")]
    Item {
        /// Its size, with its keys and the room for its marks.
        bytes: usize,
    },
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// As measured on Amazon's DynamoDB Local, by the largest text that fits beside each value.
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

    /// v0 has `Latest`, and vN a key with more digits and its marks: how much is left for v0 to be larger by.
    #[test]
    fn a_version_item_is_larger_than_its_latest_item_by_no_more_than_its_marks() {
        use super::super::{keys::VersionDigits, version_item::VersionItem};
        for digits in [1, 10, 20].map(|digits| VersionDigits::new(digits).unwrap()) {
            for latest in (0..19).flat_map(|power| [10u64.pow(power), 10u64.pow(power + 1) - 1]) {
                let image: Value = json!({
                    "PK": {"S": "E"}, "SK": {"S": digits.latest_key()}, "Latest": {"N": latest.to_string()}, "A": {"S": "a"},
                });
                let image: Item = serde_json::from_value(image).unwrap();
                let version = VersionItem::from_image(image.clone(), digits).unwrap();
                let (v0, vn) = (of_item(&image), of_item(version.item()));
                // Below a thousand million versions, v0 without its list of requests is the larger of the two.
                assert!(latest >= 1_000_000_000 || vn <= v0, "{latest}");
                assert!(vn <= v0 + 11, "{latest}");
            }
        }
    }
}
