//! Quarantine: stream records that can never become a version, kept beside the versions of their entity.
//!
//! A quarantined record is stored as its JSON text, so that nothing of it is lost. An item can have 400 KB, and the text of an
//! image of this size can be longer, so a long text is split:
//!
//! | sort key | attributes |
//! |---|---|
//! | `quarantine#<sequence number>` | `Kind`, `Reason`, `QuarantinedAt`, `Version` if it is known, `Record`, and `Parts` if there are more |
//! | `quarantine#<sequence number>#2`, … | `Record`: the next part of the text |
//!
//! The sequence number identifies the record, so a record that is delivered again is quarantined once.

use std::collections::{BTreeMap, HashMap};

use super::{
    AttributeValue, Item, attributes::text, entity::EntityId, names, number::Decimal, recorded_at::RecordedAt,
    sequence::SequenceNumber, version::Version,
};

/// Prefix of the sort keys of quarantined records.
pub const PREFIX: &str = "quarantine#";
/// Greater than all keys with [`PREFIX`].
pub const END: &str = "quarantine$";
/// Maximum length of the text in one item, in bytes. The rest of the limit is for the other attributes.
const MAX_PART_BYTES: usize = 350_000;

/// Attribute with the kind of the failure.
const KIND: &str = "Kind";
/// Attribute with the version that the record contains.
const VERSION: &str = "Version";
/// Attribute with the time at which the record was quarantined.
const QUARANTINED_AT: &str = "QuarantinedAt";
/// Attribute with the record, or a part of it.
const RECORD: &str = "Record";
/// Attribute with the number of items, if there is more than one.
const PARTS: &str = "Parts";

/// Stream record that can never become a version.
#[derive(Clone, PartialEq, Eq)]
pub struct QuarantinedRecord {
    /// Entity whose latest item the record is about.
    pub entity: EntityId,
    /// Sequence number of the record.
    pub number: SequenceNumber,
    /// Kind of the failure, such as `Conflict`.
    pub kind: String,
    /// Reason, without attribute values.
    pub reason: String,
    /// Version in the record, if it could be read.
    pub version: Option<Version>,
    /// Time at which the record was quarantined, `None` if the item does not have a valid one.
    pub at: Option<RecordedAt>,
    /// Record in JSON, as the event source mapping delivered it.
    pub record: String,
}

impl QuarantinedRecord {
    /// Returns the sort keys of the record's items.
    pub fn sort_keys(&self) -> Vec<String> {
        (1..=self.parts().len())
            .map(|part| sort_key(&self.number, part))
            .collect()
    }

    /// Returns the record's items.
    pub fn items(&self) -> Vec<Item> {
        let parts = self.parts();
        let s = |text: &str| AttributeValue::S(text.to_owned());
        let item = |(part, record): (usize, &&str)| {
            let mut item = HashMap::from([
                (names::PK.to_owned(), s(self.entity.as_str())),
                (names::SK.to_owned(), s(&sort_key(&self.number, part))),
                (RECORD.to_owned(), s(record)),
            ]);
            if part == 1 {
                item.insert(KIND.to_owned(), s(&self.kind));
                item.insert(names::REASON.to_owned(), s(&self.reason));
                if let Some(at) = self.at {
                    item.insert(QUARANTINED_AT.to_owned(), at.value());
                }
                if let Some(version) = self.version {
                    item.insert(VERSION.to_owned(), AttributeValue::N(version.to_string()));
                }
                if parts.len() > 1 {
                    item.insert(PARTS.to_owned(), AttributeValue::N(parts.len().to_string()));
                }
            }
            Item::from(item)
        };
        (1..).zip(&parts).map(item).collect()
    }

    fn parts(&self) -> Vec<&str> {
        let (mut parts, mut rest) = (Vec::new(), self.record.as_str());
        while rest.len() > MAX_PART_BYTES {
            let (part, next) = rest.split_at(rest.floor_char_boundary(MAX_PART_BYTES));
            parts.push(part);
            rest = next;
        }
        parts.push(rest);
        parts
    }
}

// The record holds attribute values, which logs must not contain.
impl std::fmt::Debug for QuarantinedRecord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QuarantinedRecord")
            .field("entity", &self.entity)
            .field("number", &self.number)
            .field("kind", &self.kind)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

/// Returns `true` if the sort key is that of the first item of a quarantined record.
pub fn is_first(sort_key: &str) -> bool {
    sort_key.strip_prefix(PREFIX).is_some_and(|rest| !rest.contains('#'))
}

/// Returns the quarantined records of which an entity has all items, by sequence number. Other items are ignored.
pub fn records_of(items: impl IntoIterator<Item = Item>) -> Vec<QuarantinedRecord> {
    let mut by_number: BTreeMap<SequenceNumber, BTreeMap<usize, Item>> = BTreeMap::new();
    for item in items {
        let Some((number, part)) = text(&item, names::SK).and_then(parse_key) else {
            continue;
        };
        by_number.entry(number).or_default().insert(part, item);
    }
    let record = |(number, parts): (SequenceNumber, BTreeMap<usize, Item>)| {
        let first = parts.get(&1)?;
        let count = number_of(first, PARTS).unwrap_or(1);
        let texts = (1..=usize::try_from(count).ok()?).map(|part| text(parts.get(&part)?, RECORD));
        Some(QuarantinedRecord {
            entity: EntityId::new(text(first, names::PK)?).ok()?,
            number,
            kind: text(first, KIND).unwrap_or_default().to_owned(),
            reason: text(first, names::REASON).unwrap_or_default().to_owned(),
            version: number_of(first, VERSION).and_then(Version::new),
            at: text(first, QUARANTINED_AT).and_then(|at| RecordedAt::parse(at).ok()),
            record: texts.collect::<Option<String>>()?,
        })
    };
    by_number.into_iter().filter_map(record).collect()
}

fn sort_key(number: &SequenceNumber, part: usize) -> String {
    match part {
        1 => format!("{PREFIX}{number}"),
        part => format!("{PREFIX}{number}#{part}"),
    }
}

fn parse_key(key: &str) -> Option<(SequenceNumber, usize)> {
    let (number, part) = match key.strip_prefix(PREFIX)?.split_once('#') {
        None => (key.strip_prefix(PREFIX)?, 1),
        Some((number, part)) => (number, part.parse().ok()?),
    };
    Some((SequenceNumber::new(number)?, part))
}

fn number_of(item: &Item, name: &str) -> Option<u64> {
    match item.get(name)? {
        AttributeValue::N(number) => Decimal::parse(number).ok()?.to_u64(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quarantined(record: String) -> QuarantinedRecord {
        QuarantinedRecord {
            entity: EntityId::new("E").unwrap(),
            number: SequenceNumber::new("300000000000000000042").unwrap(),
            kind: "Conflict".to_owned(),
            reason: "a different item is stored as this version".to_owned(),
            version: Version::new(7),
            at: RecordedAt::parse("2026-11-22T06:24:48.123456000Z").ok(),
            record,
        }
    }

    #[test]
    fn a_record_of_any_length_is_restored_from_its_items() {
        let texts = [0, MAX_PART_BYTES / 2 - 1, MAX_PART_BYTES / 2, 1_200_000]
            // Two bytes a character, at odd positions.
            .map(|characters| format!("x{}", "\u{e9}".repeat(characters)));
        for (record, parts) in [String::new()].into_iter().chain(texts).zip([1, 1, 1, 2, 7]) {
            let length = record.len();
            let record = quarantined(record);
            let items = record.items();
            assert_eq!(items.len(), parts, "{length}");
            let keys: Vec<_> = items.iter().filter_map(|item| text(item, names::SK)).collect();
            assert_eq!(keys, record.sort_keys(), "{length}");
            assert_eq!(keys.iter().filter(|key| is_first(key)).count(), 1, "{length}");
            let restored = records_of(items.into_iter().rev());
            assert_eq!(restored, [record], "{length}");
        }
    }

    #[test]
    fn records_are_in_the_order_of_their_numbers_and_incomplete_ones_are_ignored() {
        let of = |number: &str, length| QuarantinedRecord {
            number: SequenceNumber::new(number).unwrap(),
            ..quarantined("a".repeat(length))
        };
        let mut items = of("1000000000000000000000", 1).items();
        items.extend(of("999999999999999999999", 1).items());
        items.extend(of("5", MAX_PART_BYTES + 1).items().into_iter().take(1));
        items.extend(of("6", MAX_PART_BYTES + 1).items().into_iter().skip(1));
        items.push(Item::from(HashMap::from([(
            names::SK.to_owned(),
            AttributeValue::S("v1".to_owned()),
        )])));
        let numbers: Vec<_> = records_of(items)
            .into_iter()
            .map(|record| record.number.to_string())
            .collect();
        assert_eq!(numbers, ["999999999999999999999", "1000000000000000000000"]);
    }

    #[test]
    fn the_text_of_a_record_is_in_no_debug_output() {
        let shown = format!("{:?}", quarantined("secret".to_owned()));
        assert!(!shown.contains("secret"), "{shown}");
    }
}
