//! Version items put individually and in batches on a real table: both produce the same items.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use shared::clock::Deadline;
use stream_fn::HistoryWriter;

use testkit::database::{Database, rows};

/// Table and number of records per invocation: one, which is put individually, or all.
const BATCH_SIZES: [(&str, usize); 2] = [("Individual", 1), ("Batched", usize::MAX)];

async fn writers(database: &Database) -> Vec<(&'static str, (HistoryWriter, usize))> {
    let mut writers = Vec::new();
    for (table, records) in BATCH_SIZES {
        let writer = HistoryWriter::from_store(database.store(table, 1).await);
        writers.push((table, (writer, records)));
    }
    writers
}

fn image(entity: &str, latest: u64, attributes: Value) -> Value {
    let mut image = attributes;
    image["PK"] = json!({"S": entity});
    image["SK"] = json!({"S": "v0"});
    image["Latest"] = json!({"N": latest.to_string()});
    image
}

/// Puts latest items that count the versions of these images.
async fn count(database: &Database, table: &str, images: &[Value]) {
    let entities: BTreeSet<_> = images.iter().filter_map(|image| image["PK"]["S"].as_str()).collect();
    for entity in entities {
        database.put(table, image(entity, 1000, json!({}))).await;
    }
}

/// Returns the items besides the latest items.
async fn history(database: &Database, table: &str) -> Vec<Value> {
    let mut rows = rows(database, table).await;
    rows.retain(|row| row["SK"]["S"] != "v0");
    rows
}

/// Invokes the history writer with these images, and returns the indexes of those that failed.
async fn failed((writer, batch_size): &(HistoryWriter, usize), images: &[Value]) -> Vec<usize> {
    let record = |(index, image): (usize, &Value)| {
        let keys = json!({"PK": image["PK"], "SK": image["SK"]});
        json!({"eventName": "MODIFY", "dynamodb": {"Keys": keys, "NewImage": image, "SequenceNumber": index.to_string()}})
    };
    let records: Vec<_> = images.iter().enumerate().map(record).collect();
    let mut failed = Vec::new();
    for records in records.chunks(*batch_size) {
        let event = json!({"Records": records}).to_string();
        let deadline = Deadline::after(std::time::Duration::from_secs(60));
        let response = writer.handle(&event, "lambda", deadline).await.unwrap();
        let failures = response.batch_item_failures.into_iter();
        failed.extend(failures.map(|failure| failure.item_identifier.unwrap().parse::<usize>().unwrap()));
    }
    failed
}

/// Returns attributes of every type, and attributes with names that a statement must quote.
fn odd_attributes() -> Value {
    let mut attributes = json!({
        "S": {"S": ""}, "Emoji": {"S": "😀 '\"\\ ? é"}, "N": {"N": "-0.12345678901234567890123456789012345678"},
        "Large": {"N": "9.9999999999999999999999999999999999999E+125"}, "Small": {"N": "1E-130"}, "Scale": {"N": "1.50"},
        "B": {"B": "AP8="}, "BE": {"B": ""}, "BOOL": {"BOOL": false}, "NULL": {"NULL": true},
        "L": {"L": [{"L": []}, {"M": {}}, {"N": "1"}, {"NS": ["1"]}]}, "M": {"M": {"a'b": {"SS": ["a"]}, "Ü": {"S": ""}}},
        "SS": {"SS": ["", "b"]}, "NS": {"NS": ["1", "2.5", "-3e5"]}, "BS": {"BS": ["YQ==", ""]},
    });
    for name in [
        "it's",
        "''",
        "'",
        "a b",
        "a.b[0]",
        "\"q\"",
        "?",
        "{",
        "}",
        "\\",
        "new\nline",
        "\u{0}",
        "--",
        "/*",
        ";",
        "é",
        "😀",
        "SELECT",
        "value",
        "pk",
        "Pk",
        "#n",
        ":v",
        "$",
        "`",
        " ",
    ] {
        attributes[name] = json!({"S": name});
    }
    attributes
}

async fn same_rows(database: &Database) -> Vec<Value> {
    let individual = history(database, "Individual").await;
    assert_eq!(individual, history(database, "Batched").await);
    individual
}

#[tokio::test]
async fn both_batch_sizes_write_the_same_items() {
    let database = Database::start().await;
    if database
        .endpoint
        .differs("both_batch_sizes_write_the_same_items", &["inserted-number"])
    {
        return;
    }
    // More than one request accepts, including items that fit in no statement, and items that are not versions.
    let mut images: Vec<_> = (1..=70).map(|latest| image("E", latest, odd_attributes())).collect();
    images[3] = image("Long name", 1, json!({"n".repeat(9000): {"S": "a"}}));
    let longest = database.longest_name("names above 50,000 characters");
    images[4] = image("Longest name", 1, json!({"'é".repeat(longest / 3): {"S": "a"}}));
    let many = (0..900).map(|number| (format!("attribute {number}"), json!({"N": number.to_string()})));
    images[5] = image("Many names", 1, Value::Object(many.collect()));
    images[6] = image("Malformed", 1, json!({"N": {"N": "no number"}, "Latest": {"N": "1"}}));
    images[6]["Latest"] = json!({"S": "no number"});
    images[7]["SK"] = json!({"S": "v9"});
    for (table, writer) in writers(&database).await {
        count(&database, table, &images).await;
        assert_eq!(failed(&writer, &images).await, [6], "{table}");
    }
    let written = same_rows(&database).await;
    assert_eq!(written.len(), 68);
    let mut expected = odd_attributes();
    expected["PK"] = json!({"S": "E"});
    let names = |row: &Value| row.as_object().unwrap().len();
    assert!(
        written
            .iter()
            .filter(|row| row["PK"] == expected["PK"])
            .all(|row| names(row) == names(&expected) + 1)
    );
}

#[tokio::test]
async fn both_batch_sizes_detect_recorded_versions() {
    let database = Database::start().await;
    if database
        .endpoint
        .differs("both_batch_sizes_detect_recorded_versions", &["inserted-number"])
    {
        return;
    }
    let images: Vec<_> = (1..=60)
        .map(|latest| image("E", latest, json!({"A": {"N": "1.0"}})))
        .collect();
    for (table, writer) in writers(&database).await {
        count(&database, table, &images).await;
        // An equal item in another notation with a TTL, and three different items.
        let stored = |sk: &str, a: Value| json!({"PK": {"S": "E"}, "SK": {"S": sk}, "A": a});
        let mut marked = stored("v2", json!({"N": "1"}));
        marked["TTL"] = json!({"N": "4000000000"});
        database.put(table, marked).await;
        database.put(table, stored("v3", json!({"S": "1"}))).await;
        database.put(table, stored("v30", json!({"N": "2"}))).await;
        let mut more = stored("v60", json!({"N": "1"}));
        more["B"] = json!({"NULL": true});
        database.put(table, more).await;
        let conflicts = [2, 29, 59];
        assert_eq!(failed(&writer, &images).await, conflicts, "{table}");
        let before = history(&database, table).await;
        assert_eq!(failed(&writer, &images).await, conflicts, "{table}");
        assert_eq!(history(&database, table).await, before, "{table}");
    }
    assert_eq!(same_rows(&database).await.len(), 60);
}

#[tokio::test]
async fn the_same_version_can_occur_twice() {
    let database = Database::start().await;
    let v = |latest, a: &str| image("E", latest, json!({"A": {"S": a}}));
    // Version 2 occurs with two contents; either can be written first.
    let images = [v(1, "a"), v(1, "a"), v(2, "a"), v(1, "a"), v(2, "b"), v(3, "a")];
    for (table, writer) in writers(&database).await {
        count(&database, table, &images).await;
        let failed = failed(&writer, &images).await;
        let kept = history(&database, table).await;
        assert_eq!(kept.len(), 3, "{table}");
        let second = kept.iter().find(|row| row["SK"]["S"] == "v2").unwrap();
        let expected = if second["A"]["S"] == "a" { 4 } else { 2 };
        assert_eq!(failed, [expected], "{table}");
    }
}

#[tokio::test]
async fn a_version_whose_plain_form_is_rejected_is_stored_compressed() {
    let database = Database::start().await;
    if database.endpoint.differs(
        "a_version_whose_plain_form_is_rejected_is_stored_compressed",
        &["twin-statement"],
    ) {
        return;
    }
    let mut images: Vec<_> = (1..=30).map(|latest| image("E", latest, json!({}))).collect();
    images[10]["Large"] = json!({"S": "x".repeat(410_000)});
    images[20]["Set"] = json!({"SS": ["a", "a"]});
    let mut deep = json!({"S": "a"});
    for _ in 0..40 {
        deep = json!({"L": [deep]});
    }
    images[29]["Deep"] = deep;
    for (table, writer) in writers(&database).await {
        count(&database, table, &images).await;
        assert_eq!(failed(&writer, &images).await, [0; 0], "{table}");
    }
    assert_eq!(same_rows(&database).await.len(), 30);
}

#[tokio::test]
async fn cost_of_both_batch_sizes() {
    let database = Database::start().await;
    if database.endpoint.differs(
        "cost_of_both_batch_sizes",
        &["statement-units", "large-statement-units"],
    ) {
        return;
    }
    // Just under 1 KB.
    let images: Vec<_> = (1..=100)
        .map(|latest| image("E", latest, json!({"A": {"S": "x".repeat(850)}})))
        .collect();
    let large: Vec<_> = (1..=30)
        .map(|latest| image("L", latest, json!({"A": {"S": "x".repeat(100_000)}})))
        .collect();
    let mut measured = Vec::new();
    for (table, writer) in writers(&database).await {
        for images in [&images, &large] {
            count(&database, table, images).await;
            database.consumed();
            assert!(failed(&writer, images).await.is_empty());
            let (markers, consumed): (Vec<_>, Vec<_>) = database
                .consumed()
                .into_iter()
                .partition(|(operation, _)| *operation == "BatchGetItem");
            // For records of any age, the purge marker and floor of the entity, and its latest item if it is a redrive, are read
            // once for a chunk.
            assert!(markers.iter().all(|(_, units)| *units <= 2.0), "{markers:?}");
            let units: f64 = consumed.iter().map(|(_, units)| units).sum();
            measured.push((consumed.len(), units));
        }
    }
    assert_eq!(measured, [(100, 100.0), (30, 2940.0), (4, 100.0), (4, 2940.0)]);
}
