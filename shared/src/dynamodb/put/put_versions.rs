//! Puts many version items: splits them into batches, inserts each batch in one request, and compares items whose key is
//! taken with the stored ones.

use std::collections::HashMap;

use tokio::time::timeout_at;

use crate::{
    clock::Deadline,
    domain::{
        Item,
        keys::{partition_key_of, sort_key_of},
        size,
        version_item::VersionItem,
    },
    dynamodb::{
        Store,
        client::error::{ErrorKind, ServiceError},
        put::{batch, insert_versions::Insert, put_version::PutOutcome},
    },
};

/// Outcome of a version item in a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BatchOutcome {
    /// The outcome or error of the put.
    Done(Result<PutOutcome, ServiceError>),
    /// The item must be put separately: its statement is too long, it has several items, or DynamoDB rejected the statement or the batch.
    Alone,
    /// The deadline passed before it was put.
    NotReached,
}

/// Splits versions into batches of indexes, each of which one request can insert.
pub fn batches<'a>(versions: impl IntoIterator<Item = &'a VersionItem>) -> Vec<Vec<usize>> {
    let versions = versions.into_iter();
    let keys = versions.map(|version| ((version.entity(), version.version()), size::of_item(version.item())));
    batch::ranges(keys).into_iter().map(Iterator::collect).collect()
}

impl Store {
    /// Puts one of the [`batches`], each version unless its key is taken, and returns the outcome of each. A statement has as
    /// many attempts as the client's settings allow for a request.
    pub async fn put_versions(&self, versions: &[&VersionItem], deadline: Deadline) -> Vec<BatchOutcome> {
        let mut outcomes = vec![BatchOutcome::Alone; versions.len()];
        let mut items = Vec::with_capacity(versions.len());
        for version in versions {
            match self.stored(version).await {
                Ok(stored) => items.push(stored),
                Err(error) => return vec![BatchOutcome::Done(Err(error)); versions.len()],
            }
        }
        let inserts = items.iter().enumerate().filter_map(|(index, items)| match &items[..] {
            [item] => Some((index, Insert::new(item, self.history_table())?)),
            _ => None,
        });
        let (indexes, inserts): (Vec<_>, Vec<_>) = inserts.unzip();
        let statements: Vec<_> = inserts.iter().map(std::slice::from_ref).collect();
        let mut taken = Vec::new();
        for (index, inserted) in indexes
            .into_iter()
            .zip(self.insert_in_time(&statements, deadline).await)
        {
            outcomes[index] = match inserted {
                Some(Ok(true)) => BatchOutcome::Done(Ok(PutOutcome::Recorded)),
                Some(Ok(false)) => {
                    taken.push(index);
                    BatchOutcome::NotReached
                }
                Some(Err(error)) if error.kind == ErrorKind::Rejected => BatchOutcome::Alone,
                Some(Err(error)) => BatchOutcome::Done(Err(error)),
                None => BatchOutcome::NotReached,
            };
        }
        if !taken.is_empty()
            && let Ok(compared) = timeout_at(deadline.finish_by, self.compare(versions, &taken)).await
        {
            for (index, outcome) in taken.into_iter().zip(compared) {
                outcomes[index] = outcome;
            }
        }
        outcomes
    }

    /// Compares versions with the stored items that have their keys.
    async fn compare(&self, versions: &[&VersionItem], taken: &[usize]) -> Vec<BatchOutcome> {
        let keys = taken.iter().map(|index| {
            let version = versions[*index];
            (version.entity(), self.digits.version_key(version.version()))
        });
        match self.batch_get_only(&[], keys, true).await {
            Err(error) => vec![BatchOutcome::Done(Err(error)); taken.len()],
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

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        domain::test_values::version_item,
        dynamodb::put::{batch::MAX_BYTES, insert_versions::MAX_STATEMENTS},
    };

    fn version(entity: u8, number: u64, text: &Value) -> VersionItem {
        version_item(json!({
            "PK": {"S": format!("E{entity}")}, "SK": {"S": "v0"}, "Latest": {"N": number.to_string()}, "A": text,
        }))
    }

    proptest! {
        #[test]
        fn every_version_is_in_one_batch_and_no_key_in_a_batch_twice(
            keys in prop::collection::vec((0..4u8, 1..40u64, 0..30usize), 0..300)
        ) {
            let versions = keys.iter().map(|(entity, number, tenths)| {
                version(*entity, *number, &json!({"S": "x".repeat(tenths * MAX_BYTES / 100)}))
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
                let bytes: usize = batch.iter().map(|index| size::of_item(versions[*index].item())).sum();
                prop_assert!(bytes <= MAX_BYTES || batch.len() == 1);
            }
        }
    }

    #[test]
    fn batches_are_full() {
        let of = |keys: &[(u8, u64)]| {
            let versions = keys
                .iter()
                .map(|(entity, number)| version(*entity, *number, &json!({"S": "a"})));
            let versions: Vec<_> = versions.collect();
            batches(&versions).iter().map(Vec::len).collect::<Vec<_>>()
        };
        let many: Vec<_> = (1..=100).map(|number| (0, number)).collect();
        assert_eq!(of(&many), [25; 4]);
        assert_eq!(of(&many[..26]), [25, 1]);
        assert_eq!(of(&[(0, 1), (0, 1), (1, 1), (0, 1), (1, 1)]), [1, 2, 2]);
        let twice: Vec<_> = many.iter().chain(&many).copied().collect();
        assert_eq!(of(&twice), [25; 8]);
        assert!(of(&[]).is_empty());
    }
}
