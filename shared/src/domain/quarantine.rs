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
//!
//! A record that does not fit into one transaction is put by several: the first item by the last one, so that it exists only if the
//! record is complete. The keys of its other items end with a hash of the text, `quarantine#<sequence number>#2#<hash>`, and the first
//! item has it in `Hash`: two deliveries of a record whose texts differ never mix their items.

use std::collections::{BTreeMap, HashMap};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use sha2::{Digest as _, Sha256};

use super::{
    Item,
    attributes::{self, n, s, text, whole},
    entity::EntityId,
    names,
    recorded_at::RecordedAt,
    sequence::SequenceNumber,
    version::Version,
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
/// Attribute with the hash in the keys of the other items.
const HASH: &str = "Hash";
/// Maximum number of items in one transaction, which can have 4 MB.
pub const MAX_TOGETHER: usize = 11;

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
        let items = self.items();
        let keys = items.iter().filter_map(|item| text(item, names::SK));
        keys.map(str::to_owned).collect()
    }

    /// Returns the record's items in groups, each of which fits into one transaction. The last group contains the first item.
    pub fn groups(&self) -> Vec<Vec<Item>> {
        let mut items = self.items();
        let further = items.split_off(items.len().min(1));
        if further.len() < MAX_TOGETHER {
            items.extend(further);
            return vec![items];
        }
        let mut groups: Vec<_> = further.chunks(MAX_TOGETHER).map(<[Item]>::to_vec).collect();
        groups.push(items);
        groups
    }

    /// Returns the record's items.
    pub fn items(&self) -> Vec<Item> {
        let parts = self.parts();
        let hash = self.hash(parts.len());
        let item = |(part, record): (usize, &&str)| {
            let mut item = HashMap::from([
                (names::PK.to_owned(), s(self.entity.as_str())),
                (names::SK.to_owned(), s(sort_key(&self.number, part, hash.as_deref()))),
                (RECORD.to_owned(), s(*record)),
            ]);
            if part == 1 {
                item.insert(KIND.to_owned(), s(&self.kind));
                item.insert(names::REASON.to_owned(), s(&self.reason));
                if let Some(at) = self.at {
                    item.insert(QUARANTINED_AT.to_owned(), at.value());
                }
                if let Some(version) = self.version {
                    item.insert(VERSION.to_owned(), n(version));
                }
                if parts.len() > 1 {
                    item.insert(PARTS.to_owned(), n(parts.len()));
                }
                if let Some(hash) = &hash {
                    item.insert(HASH.to_owned(), s(hash));
                }
            }
            Item::from(item)
        };
        (1..).zip(&parts).map(item).collect()
    }

    /// Returns the hash in the keys of the further items. `None` if one transaction puts all of them.
    fn hash(&self, parts: usize) -> Option<String> {
        (parts > MAX_TOGETHER).then(|| URL_SAFE_NO_PAD.encode(&Sha256::digest(&self.record)[..9]))
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
crate::domain::redacted::redacted!(QuarantinedRecord, entity, number, kind, version);

/// Returns `true` if the sort key is that of the first item of a quarantined record.
pub fn is_first(sort_key: &str) -> bool {
    sort_key.strip_prefix(PREFIX).is_some_and(|rest| !rest.contains('#'))
}

/// Returns the quarantined records of which an entity has all items, by sequence number. Other items are ignored.
pub fn records_of(items: impl IntoIterator<Item = Item>) -> Vec<QuarantinedRecord> {
    let mut by_number: BTreeMap<SequenceNumber, HashMap<String, Item>> = BTreeMap::new();
    for item in items {
        let Some(key) = text(&item, names::SK).map(str::to_owned) else {
            continue;
        };
        if let Some(number) = number_in(&key) {
            by_number.entry(number).or_default().insert(key, item);
        }
    }
    let record = |(number, parts): (SequenceNumber, HashMap<String, Item>)| {
        let first = parts.get(&sort_key(&number, 1, None))?;
        let hash = text(first, HASH);
        let count = whole(first, PARTS).unwrap_or(1);
        let numbers = 1..=usize::try_from(count).ok()?;
        let texts = numbers.map(|part| text(parts.get(&sort_key(&number, part, hash))?, RECORD));
        let record = texts.collect::<Option<String>>()?;
        Some(QuarantinedRecord {
            entity: EntityId::new(text(first, names::PK)?).ok()?,
            number,
            kind: text(first, KIND).unwrap_or_default().to_owned(),
            reason: text(first, names::REASON).unwrap_or_default().to_owned(),
            version: attributes::version(first, VERSION),
            at: text(first, QUARANTINED_AT).and_then(|at| RecordedAt::parse(at).ok()),
            record,
        })
    };
    by_number.into_iter().filter_map(record).collect()
}

fn sort_key(number: &SequenceNumber, part: usize, hash: Option<&str>) -> String {
    match (part, hash) {
        (1, _) => format!("{PREFIX}{number}"),
        (part, None) => format!("{PREFIX}{number}#{part}"),
        (part, Some(hash)) => format!("{PREFIX}{number}#{part}#{hash}"),
    }
}

fn number_in(key: &str) -> Option<SequenceNumber> {
    let rest = key.strip_prefix(PREFIX)?;
    SequenceNumber::new(rest.split_once('#').map_or(rest, |(number, _)| number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::size;

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
        let texts = [0, MAX_PART_BYTES / 2 - 1, MAX_PART_BYTES / 2, 1_200_000, 3_000_000]
            // Two bytes a character, at odd positions.
            .map(|characters| format!("x{}", "\u{e9}".repeat(characters)));
        for (record, parts) in [String::new()].into_iter().chain(texts).zip([1, 1, 1, 2, 7, 18]) {
            let length = record.len();
            let record = quarantined(record);
            let items = record.items();
            assert_eq!(items.len(), parts, "{length}");
            let keys: Vec<_> = items.iter().filter_map(|item| text(item, names::SK)).collect();
            assert_eq!(keys, record.sort_keys(), "{length}");
            assert_eq!(keys.iter().filter(|key| is_first(key)).count(), 1, "{length}");
            // A transaction has at most 4 MB. The item by which the record is found is in the last one.
            let groups = record.groups();
            assert_eq!(groups.concat().len(), parts, "{length}");
            for (index, group) in groups.iter().enumerate() {
                assert!(group.iter().map(size::of_item).sum::<usize>() < 4_000_000, "{length}");
                let has_first = group.iter().filter_map(|item| text(item, names::SK)).any(is_first);
                assert_eq!(has_first, index + 1 == groups.len(), "{length}");
            }
            let restored = records_of(items.into_iter().rev());
            assert_eq!(restored, [record], "{length}");
        }
    }

    #[test]
    fn deliveries_of_a_record_with_different_texts_do_not_mix() {
        let (one, other) = (quarantined("a".repeat(6_000_000)), quarantined("b".repeat(6_000_000)));
        let keys = |record: &QuarantinedRecord| record.sort_keys().split_off(1);
        assert!(keys(&one).iter().all(|key| !keys(&other).contains(key)));
        // The first delivery ended before its last transaction.
        let begun = one.groups().into_iter().next().unwrap();
        assert_eq!(records_of(begun.clone()), []);
        assert_eq!(records_of(begun.into_iter().chain(other.items())), [other]);
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
        items.push(HashMap::from([(names::SK.to_owned(), s("v1"))]).into());
        let records = records_of(items);
        let numbers: Vec<_> = records.iter().map(|record| record.number.as_str()).collect();
        assert_eq!(numbers, ["999999999999999999999", "1000000000000000000000"]);
    }

    #[test]
    fn the_text_of_a_record_is_in_no_debug_output() {
        let shown = format!("{:?}", quarantined("secret".to_owned()));
        assert!(!shown.contains("secret"), "{shown}");
    }
}
