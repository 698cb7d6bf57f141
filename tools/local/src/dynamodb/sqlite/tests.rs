//! Tests of the index and of the deletion, on a database of the embedded DynamoDB.

use dynoxide::Database;
use serde_json::json;

use super::*;

const NOW: Duration = Duration::from_secs(1_800_000_000);
pub(crate) const TABLE: &str = "Changes";
const DAY: i64 = 24 * 60 * 60;

/// Creates the table [`TABLE`], and returns the ARN of its stream.
pub(crate) fn create(database: &Database) -> String {
    let create = json!({
        "TableName": TABLE,
        "KeySchema": [{"AttributeName": "PK", "KeyType": "HASH"}],
        "AttributeDefinitions": [{"AttributeName": "PK", "AttributeType": "S"}],
        "BillingMode": "PAY_PER_REQUEST",
        "StreamSpecification": {"StreamEnabled": true, "StreamViewType": "NEW_IMAGE"},
    });
    let created = database.create_table(serde_json::from_str(&create.to_string()).unwrap());
    created.unwrap().table_description.latest_stream_arn.unwrap()
}

/// A database in memory with the table [`TABLE`] and `records` stream records, numbered from 1, one a second, the last of them at [`NOW`].
fn database(records: i64) -> (Database, Sqlite) {
    let path = format!("file:{}?mode=memory&cache=shared", uuid::Uuid::new_v4());
    let database = Database::new(&path).unwrap();
    create(&database);
    let stream = Sqlite::open(&path).unwrap();
    let insert = "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ?1)
        INSERT INTO _stream_records (table_name, event_name, keys_json, sequence_number, shard_id, created_at)
        SELECT 'Changes', 'MODIFY', '{}', CAST(n AS TEXT), 'shard', ?2 - ?1 + n FROM n";
    let now = i64::try_from(NOW.as_secs()).unwrap();
    stream.connection.execute(insert, params![records, now]).unwrap();
    (database, stream)
}

/// Trims until nothing is left to delete, and returns the first number that remains.
fn first_after(stream: &mut Sqlite, processed: Option<i64>) -> i64 {
    while stream.trim(TABLE, processed, NOW).unwrap() {}
    let first = "SELECT MIN(CAST(sequence_number AS INTEGER)) FROM _stream_records";
    stream.connection.query_row(first, (), |row| row.get(0)).unwrap()
}

#[test]
fn requests_of_the_embedded_dynamodb_search_the_index() {
    let (_database, stream) = database(10);
    let check = |request: &str, index: &str, plan: &str| {
        let mut explain = stream
            .connection
            .prepare(&format!("EXPLAIN QUERY PLAN {request}"))
            .unwrap();
        let parameters = 1..=explain.parameter_count();
        parameters.for_each(|index| explain.raw_bind_parameter(index, 1).unwrap());
        let mut rows = explain.raw_query();
        let mut steps = Vec::new();
        while let Some(row) = rows.next().unwrap() {
            steps.push(row.get::<_, String>(3).unwrap());
        }
        let steps = steps.join("\n");
        assert!(steps.contains(index) && steps.contains(plan), "{request}: {steps}");
        assert!(!steps.contains("TEMP B-TREE"), "{request}: {steps}");
    };
    for (request, plan) in [
        (
            "SELECT COALESCE(MAX(CAST(sequence_number AS INTEGER)), 0) + 1 FROM _stream_records WHERE table_name = 'Changes'",
            "(table_name=?)",
        ),
        (
            "SELECT new_image FROM _stream_records WHERE table_name = 'Changes' AND shard_id = 's'
             AND CAST(sequence_number AS INTEGER) > 5 ORDER BY CAST(sequence_number AS INTEGER) ASC LIMIT 10",
            "(table_name=? AND <expr>>?)",
        ),
        (OLDEST, "(table_name=? AND <expr><?)"),
        (LAST_PROCESSED, "(table_name=?)"),
    ] {
        check(request, "INDEX stream records by number", plan);
    }
    stream.index_tables().unwrap();
    // Existing indexes are kept.
    stream.index_tables().unwrap();
    let scan = "SELECT pk, sk, item_json FROM Changes WHERE (hash_prefix, pk, sk) > ('h', 'p', 's')
        AND substr(hash_prefix, 1, 3) >= '000' AND substr(hash_prefix, 1, 3) <= '3ff'
        ORDER BY hash_prefix ASC, pk ASC, sk ASC LIMIT 10";
    check(scan, "INDEX segments of Changes", "(hash_prefix,pk,sk)>(?,?,?)");
}

#[test]
fn processed_records_are_deleted_except_the_newest() {
    let kept = i64::from(MAX_KEPT);
    let (_database, mut stream) = database(kept + 2500);
    assert_eq!(first_after(&mut stream, None), 1);
    assert_eq!(first_after(&mut stream, Some(700)), 701);
    assert_eq!(first_after(&mut stream, Some(kept)), 2501);
    assert_eq!(first_after(&mut stream, Some(kept + 2500)), 2501);
}

#[test]
fn records_older_than_a_day_are_deleted_although_no_mapping_has_read_them() {
    let (_database, mut stream) = database(DAY + 1500);
    assert_eq!(first_after(&mut stream, None), 1500);
}

#[test]
fn the_newest_record_stays() {
    let (_database, mut stream) = database(3);
    let later = NOW + 2 * RETENTION;
    assert!(!stream.trim(TABLE, Some(3), later).unwrap());
    assert_eq!(first_after(&mut stream, None), 3);
}

#[test]
fn an_iterator_before_a_deleted_record_is_recognized_also_by_the_next_process() {
    use dynoxide::actions::get_shard_iterator::encode_shard_iterator;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("database").to_string_lossy().into_owned();
    drop(Database::new(&path).unwrap());
    let precedes = |stream: &Sqlite, table: &str, position| {
        stream
            .trimmed()
            .precedes(&encode_shard_iterator(table, "shard", position))
    };
    let stream = Sqlite::open(&path).unwrap();
    assert!(!precedes(&stream, TABLE, 6));
    let trimmed = r#"INSERT INTO "trimmed streams" VALUES ('Changes', 7)"#;
    stream.connection.execute(trimmed, ()).unwrap();
    drop(stream);
    let stream = Sqlite::open(&path).unwrap();
    let check =
        |table, position, expected| assert_eq!(precedes(&stream, table, position), expected, "{table} {position}");
    // The horizon, the record before the last deleted one, and the last deleted one, after which the oldest record follows.
    check(TABLE, 0, false);
    check(TABLE, 6, true);
    check(TABLE, 7, false);
    check("Others", 6, false);
    assert!(!stream.trimmed().precedes("not an iterator"));
}
