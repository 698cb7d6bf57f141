//! Hundreds of shards, or 10,000 with `VZERO_TEST_LINEAGES=2000`, with the settings of the template, and a function that takes a few
//! milliseconds.
//!
//! A lineage has five shards. The first one splits into two, and each of these is continued by another one, which stays open.
//! Its four items change once in the shard of each generation:
//!
//! ```text
//! 0 ─┬─▶ 1 ──▶ 3     items 1 and 2
//!    └─▶ 2 ──▶ 4     items 3 and 4
//! ```
//!
//! In some lineages, the records of shard 1 can never be stored, until they are too old.

use std::{collections::HashMap, sync::LazyLock};

use super::*;
use crate::template::Template;

/// Number of lineages, 100 by default.
static LINEAGES: LazyLock<usize> = LazyLock::new(|| {
    #[allow(clippy::disallowed_methods, reason = "a larger run of this test")]
    let lineages = std::env::var("VZERO_TEST_LINEAGES");
    lineages.map_or(100, |lineages| lineages.parse().unwrap())
});
/// Parent and items of each shard of a lineage.
const NODES: [(Option<usize>, &[usize]); 5] = [
    (None, &[1, 2, 3, 4]),
    (Some(0), &[1, 2]),
    (Some(0), &[3, 4]),
    (Some(1), &[1, 2]),
    (Some(2), &[3, 4]),
];
/// Number of a version item, which the filter excludes, in the sequence numbers of its shard.
const EXCLUDED: usize = 9;
/// Time from the start until the records of a failing shard are too old.
const FAILS_FOR: Duration = Duration::from_secs(120);
/// Virtual time in which all records are stored, or in failure documents.
const RUN: Duration = Duration::from_secs(150);
/// Maximum delay of a record that waits for no failing shard.
const MAX_DELAY: Duration = Duration::from_secs(30);

/// Returns the shard and the item of a record.
fn place(number: &str) -> (usize, usize) {
    let number: usize = number.parse().unwrap();
    (number / 100, number % 100)
}

fn is_failing(shard: usize) -> bool {
    shard % NODES.len() == 1 && (shard / NODES.len()).is_multiple_of(20)
}

/// Returns a shard with writes of latest items, and one of a version item.
fn shard(number: usize, max_age: Duration) -> Stored {
    let (parent, items) = NODES[number % NODES.len()];
    let created = match is_failing(number) {
        true => START.saturating_sub(max_age) + FAILS_FOR,
        false => START,
    };
    let record = |item: &usize| {
        let key = if *item == EXCLUDED { "v1" } else { "v0" };
        let keys = json!({"PK": {"S": format!("e{}-{item}", number / NODES.len())}, "SK": {"S": key}});
        let number = sequence(number * 100 + item);
        let json = json!({"dynamodb": {"Keys": keys, "NewImage": keys, "SequenceNumber": number}});
        Record::new(SequenceNumber::new(number).unwrap(), created, json)
    };
    Stored {
        parent: parent.map(|parent| number / NODES.len() * NODES.len() + parent),
        records: items.iter().chain(&[EXCLUDED]).map(record).collect(),
        is_closed: number % NODES.len() < 3,
    }
}

#[tokio::test(start_paused = true)]
async fn many_shards_are_listed_rarely_and_read_in_order() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../template.yaml");
    let settings = Template::read(path.as_ref(), &[]).unwrap().mapping;
    let max_age = settings.maximum_record_age.unwrap();
    let mut run = Run::new(settings, Vec::new());
    let shards = 0..*LINEAGES * NODES.len();
    run.shards = shards.clone().map(|number| shard(number, max_age)).collect();
    (run.failing_lists, run.lasts) = (5, RUN);
    let result = run.with_delays(|numbers, _| {
        let bad = numbers.iter().filter(|number| is_failing(place(number).0));
        (Duration::from_millis(10), failing(bad))
    });
    let result = result.await;
    // Shards of the deliveries of each item, each once.
    let mut read = HashMap::<_, Vec<usize>>::new();
    for (at, numbers) in &result.batches {
        for (shard, item) in numbers.iter().map(|number| place(number)) {
            assert_ne!(item, EXCLUDED, "the filter excludes it");
            let node = shard % NODES.len();
            let shards = read.entry((shard / NODES.len(), item)).or_default();
            if shards.last() != Some(&node) {
                shards.push(node);
            }
            let is_behind_failing = node == 3 && is_failing(shard - 2);
            assert!(!is_behind_failing || *at >= FAILS_FOR, "{shard} did not wait");
            assert!(
                is_behind_failing || is_failing(shard) || *at <= MAX_DELAY,
                "{shard} waited {at:?}"
            );
        }
    }
    let every = (0..*LINEAGES).flat_map(|lineage| {
        [1, 2, 3, 4].map(|item| ((lineage, item), vec![0, 1 + (item - 1) / 2, 3 + (item - 1) / 2]))
    });
    assert_eq!(read, every.collect());
    let numbers = result.documents.iter().flat_map(numbers_of);
    let mut given_up: Vec<_> = numbers.map(|number| place(&number)).collect();
    given_up.sort_unstable();
    let failing = shards.filter(|number| is_failing(*number));
    assert_eq!(
        given_up,
        failing.flat_map(|shard| [(shard, 1), (shard, 2)]).collect::<Vec<_>>()
    );
    // About one list every 10 s, and not one for each shard that ends.
    assert!(result.lists < 100, "{}", result.lists);
}
