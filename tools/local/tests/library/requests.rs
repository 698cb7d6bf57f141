//! Number of requests per read, and equal results of reads that omit requests.

use std::time::Duration;

use serde_json::{Value, json};
use shared::{
    config::WriteMode,
    domain::{keys::LATEST_KEY, recorded_at::RecordedAt, version::Version},
    dynamodb::{
        Store,
        read::{history::HistoryQuery, versions::ReadError},
    },
};
use testkit::database::{Database, delete_item, entity, history, mode, update};
use writer_fn::counter;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Present,
    /// Its TTL has passed.
    Expired,
    Deleted,
}

impl State {
    /// Returns the additional attributes of the item, or `None` if it does not exist.
    fn extra(self) -> Option<Value> {
        match self {
            Self::Present => Some(json!({})),
            Self::Expired => Some(json!({"TTL": {"N": "1"}})),
            Self::Deleted => None,
        }
    }
}

/// Puts an entity of `latest` versions, version n at n seconds; `item` returns the additional attributes of a version item.
async fn put(
    database: &Database,
    store: &Store,
    table: &str,
    id: &str,
    latest: u64,
    item: impl Fn(u64) -> Option<Value>,
) {
    let put = async |sort_key: String, number: u64, more: Value| {
        let time = format!("1970-01-01T00:{:02}:{:02}Z", number / 60, number % 60);
        let mut all =
            json!({"PK": {"S": id}, "SK": {"S": sort_key}, "n": {"N": number.to_string()}, "RecordedAt": {"S": time}});
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        database.put(table, all).await;
    };
    let digits = store.digits();
    put(
        LATEST_KEY.to_owned(),
        latest,
        json!({"Latest": {"N": latest.to_string()}, "RecordedVersion": {"N": latest.to_string()}}),
    )
    .await;
    for number in 1..=latest {
        if let Some(more) = item(number) {
            put(digits.version_key(Version::new(number).unwrap()), number, more).await;
        }
    }
}

async fn floor(database: &Database, table: &str, id: &str, floor: u64) {
    let floor = json!({"PK": {"S": id}, "SK": {"S": "floor"}, "Floor": {"N": floor.to_string()}});
    database.put(table, floor).await;
}

async fn as_of(store: &Store, id: &str, second: u64) -> Result<Option<u64>, ReadError> {
    let at = RecordedAt::since_epoch(Duration::from_secs(second));
    let found = operations::as_of::as_of(store, &entity(id), at, true).await?;
    Ok(found.map(|view| view.version.get()))
}

/// Returns the binary logarithm, rounded up.
fn log2(number: u64) -> usize {
    (u64::BITS - (number - 1).leading_zeros()) as usize
}

#[tokio::test]
async fn as_of_needs_one_read_per_bisection() {
    let database = Database::start().await;
    let store = database.store("Table", 1).await;
    let mut max_reads = 0;
    for latest in 1..=40 {
        let id = format!("E{latest}");
        put(&database, &store, "Table", &id, latest, |_| Some(json!({}))).await;
        for second in 0..=latest + 1 {
            database.consumed();
            let found = as_of(&store, &id, second).await.unwrap();
            assert_eq!(
                found,
                Some(second.min(latest)).filter(|found| *found > 0),
                "{latest} {second}"
            );
            let reads = database.consumed().len();
            assert!(reads <= log2(latest) + 1, "{latest} {second}: {reads} reads");
            max_reads = max_reads.max(reads);
        }
    }
    assert_eq!(max_reads, 7);
}

#[tokio::test]
async fn as_of_needs_one_more_read_if_history_was_pruned() {
    let database = Database::start().await;
    let store = database.store("Table", 10).await;
    for latest in [2, 3, 5, 8, 11] {
        for below in 2..=latest {
            // Pinned below the floor: none, some, some in a row.
            for (name, pinned) in [("none", &[][..]), ("some", &[1, 4, 9]), ("row", &[2, 3, 4, 8, 9])] {
                let id = format!("{name}{latest}/{below}");
                put(&database, &store, "Table", &id, latest, |number| match number {
                    number if number >= below => State::Present.extra(),
                    number if pinned.contains(&number) => Some(json!({"Pinned": {"BOOL": true}})),
                    number if number % 2 == 0 => State::Expired.extra(),
                    _ => State::Deleted.extra(),
                })
                .await;
                floor(&database, "Table", &id, below).await;
                for second in 0..=latest + 1 {
                    database.consumed();
                    let found = as_of(&store, &id, second).await;
                    let reads = database.consumed().len();
                    assert!(reads <= log2(latest) + 2, "{id} {second}: {reads} reads");
                    let pruned = Err(ReadError::Pruned {
                        floor: Version::new(below).unwrap(),
                    });
                    if second >= below {
                        assert_eq!(found, Ok(Some(second.min(latest))), "{id} {second}");
                        continue;
                    }
                    // A pinned version is found only if the next version is kept, too.
                    let is_left = |number: u64| number >= below || pinned.contains(&number);
                    let known = match second {
                        0 => is_left(1).then_some(None),
                        second => (is_left(second) && is_left(second + 1)).then_some(Some(second)),
                    };
                    assert!(found == pruned || found.ok() == known, "{id} {second}");
                }
            }
        }
    }
}

#[tokio::test]
async fn as_of_distinguishes_pruned_from_missing_versions() {
    let database = Database::start().await;
    let store = database.store("Table", 1).await;
    let missing = |number| {
        Err(ReadError::Missing {
            version: Version::new(number).unwrap(),
        })
    };
    // The stream is two versions behind.
    put(&database, &store, "Table", "E", 8, |number| {
        (number < 6).then(|| json!({}))
    })
    .await;
    assert_eq!(as_of(&store, "E", 3).await, Ok(Some(3)));
    assert_eq!(as_of(&store, "E", 7).await, missing(6));
    // A version missing above the floor is still an error.
    floor(&database, "Table", "E", 4).await;
    assert_eq!(as_of(&store, "E", 7).await, missing(6));
    assert_eq!(as_of(&store, "E", 5).await, missing(6));
    // A version without a time is ignored below the floor, and an error above it.
    for (id, below) in [("Below", 6), ("Above", 5)] {
        put(&database, &store, "Table", id, 10, |number| {
            Some(if number == 5 {
                json!({"RecordedAt": {"NULL": true}})
            } else {
                json!({})
            })
        })
        .await;
        floor(&database, "Table", id, below).await;
    }
    assert_eq!(as_of(&store, "Below", 7).await, Ok(Some(7)));
    assert_eq!(as_of(&store, "Above", 3).await, Ok(Some(3)));
    let version = Version::new(5).unwrap();
    assert_eq!(
        as_of(&store, "Above", 4).await,
        Err(ReadError::NotRecordedAt { version })
    );
    // The floor was raised above the latest version.
    put(&database, &store, "Table", "Raised", 8, |_| None).await;
    floor(&database, "Table", "Raised", 20).await;
    let floor = Version::new(20).unwrap();
    assert_eq!(as_of(&store, "Raised", 3).await, Err(ReadError::Pruned { floor }));
}

#[tokio::test]
async fn a_history_read_without_the_latest_item_is_the_same() {
    const LATEST: u64 = 3;
    const ORDERS: [(bool, Option<usize>); 5] = [
        (true, None),
        (false, Some(2)),
        (false, None),
        (true, Some(1)),
        (true, Some(2)),
    ];
    let database = Database::start().await;
    let version = |number: u64| Version::new(number);
    for digits in [1, 2] {
        // Width 1 always reads the latest item: two orders suffice for comparison.
        let orders = if digits == 1 { &ORDERS[..2] } else { &ORDERS };
        let table = format!("Table{digits}");
        let store = database.store(&table, digits).await;
        for left in 0..3_u32.pow(3) {
            let item = |number: u64| match left / 3_u32.pow(u32::try_from(number - 1).unwrap()) % 3 {
                0 => State::Present,
                1 => State::Expired,
                _ => State::Deleted,
            };
            let id = format!("E{left}");
            put(&database, &store, &table, &id, LATEST, |number| item(number).extra()).await;
            for (from, to) in (0..=LATEST + 1).flat_map(|from| (0..=LATEST + 1).map(move |to| (from, to))) {
                for (oldest_first, limit) in orders.iter().copied() {
                    let query = HistoryQuery {
                        from: version(from),
                        to: version(to),
                        oldest_first,
                        limit,
                        consistent: true,
                    };
                    let is_there = |number: &u64| *number == LATEST || item(*number) == State::Present;
                    let last = if to == 0 { LATEST } else { to.min(LATEST) };
                    let mut expected: Vec<_> = (from.max(1)..=last).filter(is_there).collect();
                    if !oldest_first {
                        expected.reverse();
                    }
                    expected.truncate(limit.unwrap_or(usize::MAX));
                    let found = history(&store, &id, query).await.unwrap();
                    assert_eq!(
                        found,
                        expected,
                        "{digits} {query:?} {:?}",
                        (1..=LATEST).map(item).collect::<Vec<_>>()
                    );
                }
            }
        }
        for oldest_first in [true, false] {
            for (to, limit) in [(None, None), (version(3), None), (None, Some(0)), (None, Some(1))] {
                let query = HistoryQuery {
                    to,
                    limit,
                    oldest_first,
                    ..HistoryQuery::default()
                };
                assert!(history(&store, "F", query).await.is_none(), "{query:?}");
            }
        }
    }
}

/// A read of the latest item excludes version items above the latest version. Without a latest item, all versions are read.
#[tokio::test]
async fn strays_are_not_in_history_and_orphans_are() {
    let database = Database::start().await;
    let store = database.store("Table", 10).await;
    let large = || json!({"Large": {"S": "x".repeat(390_000)}});
    put(&database, &store, "Table", "E", 8, |_| Some(large())).await;
    let latest = json!({"PK": {"S": "E"}, "SK": {"S": LATEST_KEY}, "Latest": {"N": "5"}});
    database.put("Table", latest).await;
    put(&database, &store, "Table", "Orphan", 2, |_| Some(json!({}))).await;
    delete_item(&database.client, &database.table_name("Table"), "Orphan", LATEST_KEY).await;
    for (to, oldest_first) in [(0, true), (0, false), (20, true), (20, false)] {
        let query = HistoryQuery {
            to: Version::new(to),
            oldest_first,
            consistent: true,
            ..HistoryQuery::default()
        };
        let mut found = history(&store, "E", query).await.unwrap();
        found.sort_unstable();
        // Pages contain three items, and the latest item is read with the last page only.
        let expected: &[u64] = if oldest_first {
            &[1, 2, 3, 4, 5, 6]
        } else {
            &[1, 2, 3, 4, 5]
        };
        assert_eq!(found, expected, "{query:?}");
        let mut orphans = history(&store, "Orphan", query).await.unwrap();
        orphans.sort_unstable();
        assert_eq!(orphans, [1, 2], "{query:?}");
    }
}

#[tokio::test]
async fn a_page_of_wide_keys_is_one_request() {
    let database = Database::start().await;
    let store = database.store("Table", 2).await;
    for (id, latest) in [("E10", 10), ("E60", 60), ("E105", 105)] {
        put(&database, &store, "Table", id, latest, |_| Some(json!({}))).await;
    }
    put(&database, &store, "Table", "Behind", 9, |number| {
        (number < 7).then(|| json!({}))
    })
    .await;
    put(&database, &store, "Table", "Pruned", 9, |number| {
        if number < 7 { State::Expired } else { State::Present }.extra()
    })
    .await;
    let numbers = |from: u64, to: u64| (from..=to).collect::<Vec<_>>();
    for (id, from, to, oldest_first, limit, requests, expected) in [
        // The limit is reached.
        ("E60", 0, 0, true, 50, 1, numbers(1, 50)),
        ("E60", 11, 0, true, 50, 1, numbers(11, 60)),
        ("E60", 5, 20, true, 10, 1, numbers(5, 14)),
        // The range is complete.
        ("E60", 5, 20, true, 50, 1, numbers(5, 20)),
        ("E60", 0, 60, true, 100, 1, numbers(1, 60)),
        // More versions may exist.
        ("E10", 0, 0, true, 50, 2, numbers(1, 10)),
        ("E10", 0, 20, true, 50, 2, numbers(1, 10)),
        ("E10", 10, 0, true, 50, 2, vec![10]),
        ("E10", 11, 0, true, 50, 2, vec![]),
        // Newest first, from a version that exists.
        ("E60", 0, 60, false, 50, 1, numbers(11, 60)),
        ("E60", 0, 50, false, 50, 1, numbers(1, 50)),
        ("E60", 10, 20, false, 50, 1, numbers(10, 20)),
        // From a version that does not exist.
        ("E10", 0, 20, false, 5, 3, numbers(6, 10)),
        // From the latest version, which requires the latest item.
        ("E60", 0, 0, false, 50, 2, numbers(11, 60)),
        // The latest item provides a version, or does not.
        ("Behind", 0, 0, true, 50, 3, vec![1, 2, 3, 4, 5, 6, 9]),
        ("Behind", 0, 8, true, 50, 3, numbers(1, 6)),
        ("Behind", 0, 0, true, 6, 1, numbers(1, 6)),
        ("Behind", 0, 9, false, 3, 3, vec![5, 6, 9]),
        ("Behind", 0, 8, false, 3, 3, vec![4, 5, 6]),
        ("Behind", 0, 0, true, 0, 1, vec![]),
        ("Pruned", 0, 0, true, 50, 2, numbers(7, 9)),
        ("Pruned", 0, 9, true, 50, 1, numbers(7, 9)),
        // A page of expired items does not show that the entity exists, so the read starts again.
        ("Pruned", 0, 0, true, 1, 9, vec![7]),
        // Some versions exceed the width.
        ("E105", 0, 0, true, 9, 1, numbers(1, 9)),
        // `v100` to `v105` lie between `v10` and `v11`, and use space in a page.
        ("E105", 0, 0, true, 50, 2, numbers(1, 50)),
        ("E105", 90, 0, true, 10, 1, numbers(90, 99)),
        ("E105", 90, 0, true, 20, 3, numbers(90, 105)),
        ("E105", 95, 103, true, 20, 3, numbers(95, 103)),
        ("E105", 95, 103, false, 20, 3, numbers(95, 103)),
        ("E105", 100, 103, true, 2, 2, numbers(100, 101)),
        ("E105", 0, 99, false, 50, 1, numbers(50, 99)),
    ] {
        let query = HistoryQuery {
            from: Version::new(from),
            to: Version::new(to),
            oldest_first,
            limit: Some(limit),
            consistent: true,
        };
        database.consumed();
        let mut found = history(&store, id, query).await.unwrap();
        if !oldest_first {
            found.reverse();
        }
        assert_eq!(
            (found, database.consumed().len()),
            (expected, requests),
            "{id} {query:?}"
        );
    }
}

#[tokio::test]
async fn a_long_history_is_read_to_its_end_without_the_latest_item() {
    let database = Database::start().await;
    if database
        .endpoint
        .differs("a_long_history_is_read_to_its_end_without_the_latest_item", &["page"])
    {
        return;
    }
    for digits in [1, 10] {
        let store = database.store(&format!("Table{digits}"), digits).await;
        for number in 1..=12 {
            let update = update(json!({"ID": "E", "n": number, "Large": "x".repeat(200_000)}));
            counter::write(&store, &update, mode(WriteMode::Inline)).await.unwrap();
        }
        // More than 1 MB requires several pages, and the latest item one more request.
        for (oldest_first, to, requests) in [(true, 0, 4), (true, 12, 3), (false, 12, 3), (false, 0, 4)] {
            let query = HistoryQuery {
                to: Version::new(to),
                oldest_first,
                consistent: true,
                ..HistoryQuery::default()
            };
            database.consumed();
            let mut found = history(&store, "E", query).await.unwrap();
            if !oldest_first {
                found.reverse();
            }
            assert_eq!(found, (1..=12).collect::<Vec<_>>(), "{digits} {query:?}");
            // Keys of width 1 are read by number.
            assert!(digits == 1 || database.consumed().len() == requests, "{query:?}");
        }
    }
}
