//! Puts many version items: splits them into batches, inserts each batch in one request, and compares items whose key is
//! taken with the stored ones.

use std::collections::{HashMap, HashSet};

use tokio::time::{Instant, sleep_until, timeout_at};

use crate::{
    clock::Deadline,
    domain::{
        AttributeValue, Item,
        keys::{partition_key_of, sort_key_of},
        version_item::VersionItem,
    },
    dynamodb::{
        Store,
        put::{
            insert_versions::{Insert, Inserted, MAX_STATEMENTS},
            put_version::{PutError, PutOutcome},
        },
    },
};

/// Maximum text of a request in bytes. DynamoDB accepts 16 MB, escaping can multiply the length by six, and by default an
/// attempt times out after 2 s.
pub(super) const MAX_TEXT: usize = 1 << 20;

/// Outcome of a version item in a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BatchOutcome {
    /// The outcome or error of the put.
    Done(Result<PutOutcome, PutError>),
    /// The item must be put separately: its statement is too long, it has several items, or DynamoDB rejected the statement or the batch.
    Alone,
    /// The deadline passed before it was put.
    NotReached,
}

/// Splits versions into batches of indexes, each with at most [`MAX_STATEMENTS`] versions, no key twice, and no more text
/// than a request accepts. DynamoDB rejects a request in which two statements have the same key.
pub fn batches<'a>(versions: impl IntoIterator<Item = &'a VersionItem>) -> Vec<Vec<usize>> {
    // The first version of every key, then the second of each repeated key, and so on.
    let mut seen: HashMap<_, usize> = HashMap::new();
    let mut layers: Vec<Vec<(usize, usize)>> = Vec::new();
    for (index, version) in versions.into_iter().enumerate() {
        let times = seen.entry((version.entity(), version.version())).or_default();
        if layers.len() == *times {
            layers.push(Vec::new());
        }
        layers[*times].push((index, text_of_item(version.item())));
        *times += 1;
    }
    let mut batches: Vec<Vec<usize>> = Vec::new();
    for layer in layers {
        let mut batch = Vec::new();
        let mut text = 0;
        for (index, more) in layer {
            if batch.len() == MAX_STATEMENTS || (text + more > MAX_TEXT && !batch.is_empty()) {
                batches.push(std::mem::take(&mut batch));
                text = 0;
            }
            batch.push(index);
            text += more;
        }
        batches.push(batch);
    }
    batches
}

impl Store {
    /// Puts one of the [`batches`], each version unless its key is taken, and returns the outcome of each. A statement has as
    /// many attempts as the client's settings allow for a request.
    pub async fn put_versions(&self, versions: &[&VersionItem], deadline: Deadline) -> Vec<BatchOutcome> {
        let mut outcomes = vec![BatchOutcome::NotReached; versions.len()];
        let mut inserts = Vec::with_capacity(versions.len());
        let items: Vec<_> = versions.iter().map(|version| self.stored(version)).collect();
        for (index, items) in items.iter().enumerate() {
            let insert = match &items[..] {
                [item] => Insert::new(item, self.history_table()),
                _ => None,
            };
            match insert {
                Some(insert) => inserts.push((index, insert)),
                None => outcomes[index] = BatchOutcome::Alone,
            }
        }
        for failures in 0..self.max_attempts() {
            if inserts.is_empty() {
                break;
            }
            if failures > 0 {
                sleep_until((Instant::now() + self.backoff(failures)).min(deadline.finish_by)).await;
            }
            if !deadline.allows_start() {
                break;
            }
            let statements: Vec<_> = inserts.iter().map(|(_, insert)| insert).collect();
            let Ok(inserted) = timeout_at(deadline.finish_by, self.insert(&statements)).await else {
                break;
            };
            let mut again = HashSet::new();
            let mut taken = Vec::new();
            for ((index, _), inserted) in inserts.iter().zip(inserted) {
                outcomes[*index] = match inserted {
                    Inserted::Recorded => BatchOutcome::Done(Ok(PutOutcome::Recorded)),
                    Inserted::Rejected => BatchOutcome::Alone,
                    Inserted::Failed(error) => BatchOutcome::Done(Err(PutError(error))),
                    Inserted::Retry(error) => {
                        again.insert(*index);
                        BatchOutcome::Done(Err(PutError(error)))
                    }
                    Inserted::Taken => {
                        taken.push(*index);
                        BatchOutcome::NotReached
                    }
                };
            }
            if !taken.is_empty()
                && let Ok(compared) = timeout_at(deadline.finish_by, self.compare(versions, &taken)).await
            {
                for (index, outcome) in taken.into_iter().zip(compared) {
                    outcomes[index] = outcome;
                }
            }
            inserts.retain(|(index, _)| again.contains(index));
        }
        outcomes
    }

    /// Compares versions with the stored items that have their keys.
    async fn compare(&self, versions: &[&VersionItem], taken: &[usize]) -> Vec<BatchOutcome> {
        let keys = taken.iter().map(|index| {
            let version = versions[*index];
            (version.entity(), self.digits.version_key(version.version()))
        });
        match self.batch_get_keys(keys, true).await {
            Err(error) => vec![BatchOutcome::Done(Err(PutError(error))); taken.len()],
            Ok(found) => {
                let found: HashMap<_, _> = found.iter().map(|item| (key(item), item)).collect();
                let compare = |index: &usize| match found.get(&key(versions[*index].item())) {
                    Some(stored) => BatchOutcome::Done(Ok(PutOutcome::of_existing(stored, versions[*index]))),
                    // The item was deleted in the meantime.
                    None => BatchOutcome::Alone,
                };
                taken.iter().map(compare).collect()
            }
        }
    }
}

fn key(item: &Item) -> [Option<&str>; 2] {
    [partition_key_of(item), sort_key_of(item)]
}

/// Estimates the length of an item in a request, at least a sixth of the actual length.
pub(super) fn text_of_item(item: &Item) -> usize {
    item.iter().map(text_of_member).sum()
}

fn text_of_member((name, value): (&String, &AttributeValue)) -> usize {
    name.len() + text_of_value(value)
}

fn text_of_value(value: &AttributeValue) -> usize {
    /// Length of quotes, braces, commas and the type.
    const AROUND: usize = 16;
    use AttributeValue::{B, Bool, Bs, L, M, N, Ns, Null, S, Ss};
    let texts = |texts: &[String]| texts.iter().map(|text| text.len() + AROUND).sum();
    AROUND
        + match value {
            S(text) | N(text) => text.len(),
            B(bytes) => bytes.len(),
            Bool(_) | Null(_) => 0,
            Ss(values) | Ns(values) => texts(values),
            Bs(values) => values.iter().map(|bytes| bytes.len() + AROUND).sum(),
            L(values) => values.iter().map(text_of_value).sum(),
            M(members) => members.iter().map(text_of_member).sum(),
        }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::domain::keys::VersionDigits;

    fn version(entity: u8, number: u64, text: &Value) -> VersionItem {
        let image = json!({
            "PK": {"S": format!("E{entity}")}, "SK": {"S": "v0"}, "Latest": {"N": number.to_string()}, "A": text,
        });
        VersionItem::from_image(serde_json::from_value(image).unwrap(), VersionDigits::default()).unwrap()
    }

    proptest! {
        #[test]
        fn every_version_is_in_one_batch_and_no_key_in_a_batch_twice(
            keys in prop::collection::vec((0..4u8, 1..40u64, 0..30usize), 0..300)
        ) {
            let versions = keys.iter().map(|(entity, number, tenths)| {
                version(*entity, *number, &json!({"S": "x".repeat(tenths * MAX_TEXT / 100)}))
            });
            let versions: Vec<_> = versions.collect();
            let batches = batches(&versions);
            let mut all: Vec<_> = batches.iter().flatten().copied().collect();
            all.sort_unstable();
            prop_assert_eq!(all, (0..versions.len()).collect::<Vec<_>>());
            for batch in &batches {
                let distinct: HashSet<_> = batch.iter().map(|index| (keys[*index].0, keys[*index].1)).collect();
                prop_assert_eq!(distinct.len(), batch.len());
                prop_assert!((1..=MAX_STATEMENTS).contains(&batch.len()));
                let text: usize = batch.iter().map(|index| text_of_item(versions[*index].item())).sum();
                prop_assert!(text <= MAX_TEXT || batch.len() == 1);
            }
        }
    }

    #[test]
    fn batches_are_full() {
        let of = |keys: &[(u8, u64)]| {
            let versions = keys
                .iter()
                .map(|(entity, number)| version(*entity, *number, &json!({"S": "a"})));
            batches(&versions.collect::<Vec<_>>())
                .iter()
                .map(Vec::len)
                .collect::<Vec<_>>()
        };
        let many: Vec<_> = (1..=100).map(|number| (0, number)).collect();
        assert_eq!(of(&many), [25; 4]);
        assert_eq!(of(&many[..26]), [25, 1]);
        assert_eq!(of(&[(0, 1), (0, 1), (1, 1), (0, 1), (1, 1)]), [2, 2, 1]);
        let twice: Vec<_> = many.iter().chain(&many).copied().collect();
        assert_eq!(of(&twice), [25; 8]);
        assert!(of(&[]).is_empty());
    }

    #[test]
    fn the_actual_length_is_at_most_six_times_the_estimate() {
        for value in [
            json!({"S": "\u{1}".repeat(1000)}),
            json!({"S": "\"".repeat(1000)}),
            json!({"S": ""}),
            json!({"N": format!("0.{}1", "0".repeat(129))}),
            json!({"NS": (1..500).map(|number| number.to_string()).collect::<Vec<_>>()}),
            json!({"SS": ["", "\u{1}"]}),
            json!({"B": "AAAAAAAAAAAA"}),
            json!({"BS": ["AA==", "AQ=="]}),
            json!({"L": [{"NULL": true}, {"BOOL": false}, {"M": {"\u{1}": {"L": []}}}]}),
            json!({"M": {}}),
        ] {
            let read: AttributeValue = serde_json::from_value(value.clone()).unwrap();
            let sent = value.to_string().len();
            assert!(sent <= 6 * text_of_value(&read), "{sent}: {value}");
        }
    }
}
