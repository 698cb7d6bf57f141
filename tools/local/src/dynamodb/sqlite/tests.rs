//! Tests of the index and of the deletion, on a database of the embedded DynamoDB.

use dynoxide::Database;
use serde_json::json;

use super::*;

const NOW: Duration = Duration::from_secs(1_800_000_000);
pub(crate) const TABLE: &str = "Changes";
const DAY: i64 = 24 * 60 * 60;
/// Inserts ?1 stream records, numbered from 1, one a second, the last of them at ?2.
const INSERT: &str = "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ?1)
    INSERT INTO _stream_records (table_name, event_name, keys_json, sequence_number, shard_id, created_at)
    SELECT 'Changes', 'MODIFY', '{}', CAST(n AS TEXT), 'shard', ?2 - ?1 + n FROM n";

/// Creates the table [`TABLE`].
pub(crate) fn create(database: &Database) {
    let create = json!({
        "TableName": TABLE,
        "KeySchema": [{"AttributeName": "PK", "KeyType": "HASH"}],
        "AttributeDefinitions": [{"AttributeName": "PK", "AttributeType": "S"}],
        "BillingMode": "PAY_PER_REQUEST",
        "StreamSpecification": {"StreamEnabled": true, "StreamViewType": "NEW_IMAGE"},
    });
    let create = serde_json::from_str(&create.to_string()).unwrap();
    database.create_table(create).unwrap();
}

/// A database in memory with the table [`TABLE`] and `records` stream records, numbered from 1, one a second, the last of them at [`NOW`].
fn database(records: i64) -> (Database, Sqlite) {
    let path = format!("file:{}?mode=memory&cache=shared", uuid::Uuid::new_v4());
    let database = Database::new(&path).unwrap();
    create(&database);
    let stream = Sqlite::open(&path).unwrap();
    let now = i64::try_from(NOW.as_secs()).unwrap();
    stream.connection.execute(INSERT, params![records, now]).unwrap();
    (database, stream)
}

/// Trims until nothing is left to delete, and returns the first number that remains.
fn first_after(stream: &Sqlite, processed: Option<i64>) -> i64 {
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
        (TRIM, "(table_name=? AND <expr><?)"),
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
    let (_database, stream) = database(kept + 2500);
    assert_eq!(first_after(&stream, None), 1);
    assert_eq!(first_after(&stream, Some(700)), 701);
    assert_eq!(first_after(&stream, Some(kept)), 2501);
    assert_eq!(first_after(&stream, Some(kept + 2500)), 2501);
}

#[test]
fn records_older_than_a_day_are_deleted_although_no_mapping_has_read_them() {
    let (_database, stream) = database(DAY + 1500);
    assert_eq!(first_after(&stream, None), 1500);
}

#[test]
fn the_newest_record_stays() {
    let (_database, stream) = database(3);
    let later = NOW + 2 * RETENTION;
    assert!(!stream.trim(TABLE, Some(3), later).unwrap());
    assert_eq!(first_after(&stream, None), 3);
}

#[test]
fn an_iterator_before_a_deleted_record_is_recognized_also_by_the_next_process() {
    use dynoxide::actions::get_shard_iterator::encode_shard_iterator;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("database").to_string_lossy().into_owned();
    create(&Database::new(&path).unwrap());
    let check = |stream: &Sqlite, first: Option<i64>| {
        for (table, position) in [(TABLE, 0), (TABLE, 6), (TABLE, 7), ("Others", 6)] {
            let precedes = stream
                .trimmed()
                .precedes(&encode_shard_iterator(table, "shard", position));
            let expected = table == TABLE && position == 6 && first.is_some();
            assert_eq!(precedes, expected, "{table} {position}");
        }
        assert!(!stream.trimmed().precedes("not an iterator"));
    };
    let stream = Sqlite::open(&path).unwrap();
    check(&stream, None);
    stream.connection.execute(INSERT, params![9, 9]).unwrap();
    stream.trim(TABLE, Some(0), RETENTION + Duration::from_secs(8)).unwrap();
    check(&stream, Some(8));
    drop(stream);
    check(&Sqlite::open(&path).unwrap(), Some(8));
}
