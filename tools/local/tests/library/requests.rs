//! Number of requests per read, and equal results of reads that omit requests.

use operations::{read::history::HistoryQuery, read::items::item_collection};
use serde_json::{Value, json};
use shared::{
    domain::{keys::LATEST_KEY, version::Version},
    dynamodb::read::versions::ReadError,
};
use testkit::{database::Database, updates::WriteMode, world::World};

/// Returns the additional attributes of a version item, or `None` if it does not exist.
fn marked(state: &str) -> Option<Value> {
    match state {
        "present" => Some(json!({})),
        "expired" => Some(json!({"TTL": {"N": "1"}})),
        "pinned" => Some(json!({"Pinned": {"BOOL": true}})),
        _ => None,
    }
}

/// Puts an entity of `latest` versions, version n at n seconds; `item` returns the additional attributes of a version item.
async fn put(world: &World<'_>, id: &str, latest: u64, item: impl Fn(u64) -> Option<Value>) {
    let put = async |sort_key: String, number: u64, more: Value| {
        let time = format!("1970-01-01T00:{:02}:{:02}Z", number / 60, number % 60);
        let mut all =
            json!({"PK": {"S": id}, "SK": {"S": sort_key}, "n": {"N": number.to_string()}, "RecordedAt": {"S": time}});
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        world.put(all).await;
    };
    let count = json!({"N": latest.to_string()});
    let counted = json!({"Latest": count, "RecordedVersion": count});
    put(LATEST_KEY.to_owned(), latest, counted).await;
    for number in 1..=latest {
        if let Some(more) = item(number) {
            let key = world.store.digits().version_key(Version::new(number).unwrap());
            put(key, number, more).await;
        }
    }
}

async fn floor(world: &World<'_>, id: &str, floor: u64) {
    let floor = json!({"PK": {"S": id}, "SK": {"S": "floor"}, "Floor": {"N": floor.to_string()}});
    world.put(floor).await;
}

/// Puts an entity of which these versions below the floor are pinned, and the others there expired or deleted. A read as of any second
/// needs one request per bisection, one for the latest item, and one for the floor.
async fn check_as_of(world: &World<'_>, id: &str, latest: u64, below: u64, pins: &[u64]) {
    let is_left = |number: u64| number >= below || pins.contains(&number);
    put(world, id, latest, |number| match number {
        number if number >= below => marked("present"),
        number if is_left(number) => marked("pinned"),
        number => marked("expired").filter(|_| number % 2 == 0),
    })
    .await;
    if below > 1 {
        floor(world, id, below).await;
    }
    // The binary logarithm, rounded up.
    let bisection = (u64::BITS - (latest - 1).leading_zeros()) as usize;
    for second in 0..=latest + 1 {
        let (found, reads) = world.operations(world.as_of(id, second)).await;
        let max_reads = bisection + if below > 1 { 2 } else { 1 };
        assert!(reads.len() <= max_reads, "{id} {second}: {reads:?}");
        // A pinned version is found only if the next version is kept, too.
        let known = match second.min(latest) {
            0 => is_left(1).then_some(None),
            version if version >= below => Some(Some(version)),
            version => (is_left(version) && is_left(version + 1)).then_some(Some(version)),
        };
        let floor = Version::new(below).unwrap();
        let is_pruned = second < below && below > 1 && found == Err(ReadError::Pruned { floor });
        assert!(
            is_pruned || found == Ok(known.unwrap_or_default()) && known.is_some(),
            "{id} {second}: {found:?}"
        );
    }
}

#[tokio::test]
async fn as_of_needs_one_read_per_bisection_and_one_more_if_history_was_pruned() {
    let database = Database::start().await;
    let world = World::new(&database, "Table", 1).await;
    // Around the powers of two.
    for latest in [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33] {
        check_as_of(&world, &format!("E{latest}"), latest, 1, &[]).await;
    }
    let world = World::new(&database, "Pruned", 10).await;
    for latest in [2, 3, 5, 8, 11] {
        for below in 2..=latest {
            for (name, pins) in [("none", &[][..]), ("some", &[1, 4, 9]), ("row", &[2, 3, 4, 8, 9])] {
                check_as_of(&world, &format!("{name}{latest}/{below}"), latest, below, pins).await;
            }
        }
    }
}

#[tokio::test]
async fn as_of_distinguishes_pruned_from_missing_versions() {
    let database = Database::start().await;
    let world = World::new(&database, "Table", 1).await;
    let version = |number: u64| Version::new(number).unwrap();
    let missing = || Err(ReadError::Missing { version: version(6) });
    // The stream is two versions behind. A version missing above the floor is an error.
    let behind = |number: u64| marked("present").filter(|_| number < 6);
    // A version without a time is ignored below the floor, and an error above it.
    let timeless = |number: u64| match number {
        5 => Some(json!({"RecordedAt": {"NULL": true}})),
        _ => marked("present"),
    };
    put(&world, "Behind", 8, behind).await;
    put(&world, "Pruned", 8, behind).await;
    put(&world, "Below", 10, timeless).await;
    put(&world, "Above", 10, timeless).await;
    // The floor was raised above the latest version.
    put(&world, "Raised", 8, |_| None).await;
    for (id, to) in [("Pruned", 4), ("Below", 6), ("Above", 5), ("Raised", 20)] {
        floor(&world, id, to).await;
    }
    for (id, second, expected) in [
        ("Behind", 3, Ok(Some(3))),
        ("Behind", 7, missing()),
        ("Pruned", 7, missing()),
        ("Pruned", 5, missing()),
        ("Below", 7, Ok(Some(7))),
        ("Above", 3, Ok(Some(3))),
        ("Above", 4, Err(ReadError::NotRecordedAt { version: version(5) })),
        ("Raised", 3, Err(ReadError::Pruned { floor: version(20) })),
    ] {
        assert_eq!(world.as_of(id, second).await, expected, "{id} {second}");
    }
}

fn query(from: u64, to: u64, oldest_first: bool, limit: Option<usize>) -> HistoryQuery {
    HistoryQuery {
        from: Version::new(from),
        to: Version::new(to),
        oldest_first,
        limit,
        consistent: true,
    }
}

/// Returns the versions of a history, oldest first.
async fn sorted(world: &World<'_>, id: &str, query: HistoryQuery) -> Vec<u64> {
    let mut found = Box::pin(world.history_of(id, query)).await.unwrap();
    if !query.oldest_first {
        found.reverse();
    }
    found
}

#[tokio::test]
async fn every_range_of_a_history_is_read() {
    const LATEST: u64 = 3;
    let orders = [(true, None), (false, Some(2)), (false, None), (true, Some(1))];
    let database = Database::start().await;
    for digits in [1, 2] {
        // Keys of width 1 are read by number.
        let orders = if digits == 1 { &orders[..2] } else { &orders };
        let world = World::new(&database, &format!("Table{digits}"), digits).await;
        for left in 0..3_u32.pow(3) {
            let item = |number: u64| match left / 3_u32.pow(u32::try_from(number - 1).unwrap()) % 3 {
                0 => marked("present"),
                1 => marked("expired"),
                _ => None,
            };
            let id = format!("E{left}");
            put(&world, &id, LATEST, item).await;
            let is_there = |number: &u64| *number == LATEST || item(*number) == marked("present");
            for (from, to) in (0..=LATEST).flat_map(|from| (0..=LATEST + 1).map(move |to| (from, to))) {
                for (oldest_first, limit) in orders.iter().copied() {
                    let last = if to == 0 { LATEST } else { to.min(LATEST) };
                    let mut expected: Vec<_> = (from.max(1)..=last).filter(is_there).collect();
                    if !oldest_first {
                        expected.reverse();
                    }
                    expected.truncate(limit.unwrap_or(usize::MAX));
                    let query = query(from, to, oldest_first, limit);
                    let found = world.history_of(&id, query).await.unwrap();
                    assert_eq!(found, expected, "{digits} {query:?} {left}");
                }
            }
        }
        for oldest_first in [true, false] {
            for (to, limit) in [(0, None), (3, None), (0, Some(0)), (0, Some(1))] {
                let query = query(0, to, oldest_first, limit);
                assert!(world.history_of("F", query).await.is_none(), "{query:?}");
            }
        }
    }
}

/// Version items above the latest version are left out.
#[tokio::test]
async fn strays_are_not_in_history() {
    let database = Database::start().await;
    let world = World::new(&database, "Table", 10).await;
    put(&world, "E", 8, |_| Some(json!({"Large": {"S": "x".repeat(390_000)}}))).await;
    world
        .put(json!({"PK": {"S": "E"}, "SK": {"S": LATEST_KEY}, "Latest": {"N": "5"}}))
        .await;
    for (to, oldest_first) in [(0, true), (0, false), (20, true), (20, false)] {
        let query = query(0, to, oldest_first, None);
        assert_eq!(sorted(&world, "E", query).await, [1, 2, 3, 4, 5], "{query:?}");
    }
}

/// One request reads a page of keys that sort as versions, and one the latest item, unless the page begins with the last version.
#[tokio::test]
async fn a_page_of_wide_keys_is_one_request() {
    let database = Database::start().await;
    let world = World::new(&database, "Table", 2).await;
    for (id, latest) in [("E60", 60), ("E105", 105)] {
        put(&world, id, latest, |_| marked("present")).await;
    }
    put(&world, "Behind", 9, |number| marked("present").filter(|_| number < 7)).await;
    let pruned = |number| marked(if number < 7 { "expired" } else { "present" });
    put(&world, "Pruned", 9, pruned).await;
    let numbers = |from: u64, to: u64| (from..=to).collect::<Vec<_>>();
    for (id, from, to, oldest_first, limit, requests, expected) in [
        ("E60", 0, 0, true, 50, 2, numbers(1, 50)),
        ("E60", 5, 20, true, 10, 2, numbers(5, 14)),
        ("E60", 61, 0, true, 50, 1, vec![]),
        ("E60", 0, 0, false, 50, 2, numbers(11, 60)),
        ("E60", 0, 60, false, 50, 1, numbers(11, 60)),
        ("E60", 10, 20, false, 50, 1, numbers(10, 20)),
        ("E60", 0, 70, false, 5, 3, numbers(56, 60)),
        // The latest item provides a version, or does not.
        ("Behind", 0, 0, true, 50, 2, vec![1, 2, 3, 4, 5, 6, 9]),
        ("Behind", 0, 8, true, 50, 2, numbers(1, 6)),
        ("Behind", 0, 0, true, 0, 1, vec![]),
        ("Behind", 0, 9, false, 3, 3, vec![5, 6, 9]),
        ("Behind", 0, 8, false, 3, 3, vec![4, 5, 6]),
        // A page of expired items is empty.
        ("Pruned", 0, 0, true, 1, 8, vec![7]),
        ("Pruned", 0, 9, true, 50, 2, numbers(7, 9)),
        // Some versions exceed the width. `v100` to `v105` lie between `v10` and `v11`, and use space in a page.
        ("E105", 0, 0, true, 50, 3, numbers(1, 50)),
        ("E105", 90, 0, true, 20, 3, numbers(90, 105)),
        ("E105", 95, 103, false, 20, 3, numbers(95, 103)),
        ("E105", 0, 99, false, 50, 1, numbers(50, 99)),
        ("E105", 100, 103, true, 2, 2, numbers(100, 101)),
    ] {
        let query = query(from, to, oldest_first, Some(limit));
        let (found, sent) = world.operations(sorted(&world, id, query)).await;
        assert_eq!((found, sent.len()), (expected, requests), "{id} {query:?}");
    }
}

#[tokio::test]
async fn a_long_history_is_read_to_its_end() {
    let database = Database::start().await;
    if database.endpoint.differs(&["page"]) {
        return;
    }
    for digits in [1, 10] {
        let world = World::new(&database, &format!("Table{digits}"), digits).await;
        let world = world.in_mode(WriteMode::Inline);
        for number in 1..=12 {
            world
                .writes(json!({"n": number, "Large": "x".repeat(200_000)}), number)
                .await;
        }
        // More than 1 MB requires three pages, and the latest item one more request.
        for (oldest_first, to, requests) in [(true, 0, 4), (true, 12, 4), (false, 12, 3), (false, 0, 4)] {
            let query = query(0, to, oldest_first, None);
            let (found, sent) = world.operations(sorted(&world, "E", query)).await;
            assert_eq!(found, (1..=12).collect::<Vec<_>>(), "{digits} {query:?}");
            // Keys of width 1 are read by number.
            assert!(digits == 1 || sent.len() == requests, "{query:?}");
        }
        let mut counts = Vec::new();
        let collection = item_collection(&world.store, &world.entity(), true, |read| counts.push(read)).await;
        assert_eq!(collection.unwrap().items.len(), 13);
        assert!(counts.len() > 1 && counts.last() == Some(&13), "{counts:?}");
    }
}
