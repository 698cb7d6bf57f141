//! Version items by themselves and together, on a real table: they come to the same.

use serde_json::{Value, json, value::RawValue};
use shared::clock::Deadline;
use stream_fn::HistoryWriter;

use testkit::database::{Database, rows};

/// The tables that are written to, and how many records come in an invocation: one, which is put, or all.
const EITHER: [(&str, usize); 2] = [("Alone", 1), ("Together", usize::MAX)];

/// A table for each way, and a recorder that writes to it.
async fn recorders(database: &Database) -> Vec<(&'static str, (HistoryWriter, usize))> {
    let mut recorders = Vec::new();
    for (table, records) in EITHER {
        let recorder = HistoryWriter::from_store(database.store(table, 1).await);
        recorders.push((table, (recorder, records)));
    }
    recorders
}

fn image(entity: &str, latest: u64, attributes: Value) -> Value {
    let mut image = attributes;
    image["PK"] = json!({"S": entity});
    image["SK"] = json!({"S": "v0"});
    image["Latest"] = json!({"N": latest.to_string()});
    image
}

/// Hands these images over, and returns the indexes of those that failed.
async fn failed((recorder, at_once): &(HistoryWriter, usize), images: &[Value]) -> Vec<usize> {
    let record = |(index, image): (usize, &Value)| {
        let keys = json!({"PK": image["PK"], "SK": image["SK"]});
        json!({"eventName": "MODIFY", "dynamodb": {"Keys": keys, "NewImage": image, "SequenceNumber": index.to_string()}})
    };
    let records: Vec<_> = images.iter().enumerate().map(record).collect();
    let mut failed = Vec::new();
    for records in records.chunks(*at_once) {
        let event = RawValue::from_string(json!({"Records": records}).to_string()).unwrap();
        let deadline = Deadline::after(std::time::Duration::from_secs(60));
        let answer = recorder.handle(&event, "lambda", deadline).await.unwrap();
        let failures = answer.batch_item_failures.into_iter();
        failed.extend(failures.map(|failure| failure.item_identifier.unwrap().parse::<usize>().unwrap()));
    }
    failed
}

/// Every type, and names that a statement could trip over.
fn odd() -> Value {
    let mut odd = json!({
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
        odd[name] = json!({"S": name});
    }
    odd
}

async fn same_rows(database: &Database) -> Vec<Value> {
    let alone = rows(database, "Alone").await;
    assert_eq!(alone, rows(database, "Together").await);
    alone
}

#[tokio::test]
async fn both_write_the_same_items() {
    let database = Database::start().await;
    if database
        .endpoint
        .differs("both_write_the_same_items", &["inserted-number"])
    {
        return;
    }
    // More than a request takes, among them what fits in no statement, and what is no version.
    let mut images: Vec<_> = (1..=70).map(|latest| image("E", latest, odd())).collect();
    images[3] = image("Long name", 1, json!({"n".repeat(9000): {"S": "a"}}));
    let longest = database.longest_name("names above 50,000 characters");
    images[4] = image("Longest name", 1, json!({"'é".repeat(longest / 3): {"S": "a"}}));
    let many = (0..900).map(|number| (format!("attribute {number}"), json!({"N": number.to_string()})));
    images[5] = image("Many names", 1, Value::Object(many.collect()));
    images[6] = image("Malformed", 1, json!({"N": {"N": "no number"}, "Latest": {"N": "1"}}));
    images[6]["Latest"] = json!({"S": "no number"});
    images[7]["SK"] = json!({"S": "v9"});
    for (table, recorder) in recorders(&database).await {
        assert_eq!(failed(&recorder, &images).await, [6], "{table}");
    }
    let written = same_rows(&database).await;
    assert_eq!(written.len(), 68);
    let mut expected = odd();
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
async fn both_know_what_is_recorded_already() {
    let database = Database::start().await;
    if database
        .endpoint
        .differs("both_know_what_is_recorded_already", &["inserted-number"])
    {
        return;
    }
    let images: Vec<_> = (1..=60)
        .map(|latest| image("E", latest, json!({"A": {"N": "1.0"}})))
        .collect();
    for (table, recorder) in recorders(&database).await {
        // The same under another notation and with marks, and three that are others.
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
        assert_eq!(failed(&recorder, &images).await, conflicts, "{table}");
        let before = rows(&database, table).await;
        assert_eq!(failed(&recorder, &images).await, conflicts, "{table}");
        assert_eq!(rows(&database, table).await, before, "{table}");
    }
    assert_eq!(same_rows(&database).await.len(), 60);
}

#[tokio::test]
async fn the_same_version_may_come_twice() {
    let database = Database::start().await;
    let of = |latest, a: &str| image("E", latest, json!({"A": {"S": a}}));
    // The third of version 2 is another one; which of two is first is free.
    let images = [of(1, "a"), of(1, "a"), of(2, "a"), of(1, "a"), of(2, "b"), of(3, "a")];
    for (table, recorder) in recorders(&database).await {
        let failed = failed(&recorder, &images).await;
        let kept = rows(&database, table).await;
        assert_eq!(kept.len(), 3, "{table}");
        let second = kept.iter().find(|row| row["SK"]["S"] == "v2").unwrap();
        let expected = if second["A"]["S"] == "a" { 4 } else { 2 };
        assert_eq!(failed, [expected], "{table}");
    }
}

#[tokio::test]
async fn what_dynamodb_refuses_fails_nothing_else() {
    let database = Database::start().await;
    if database
        .endpoint
        .differs("what_dynamodb_refuses_fails_nothing_else", &["twin-statement"])
    {
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
    for (table, recorder) in recorders(&database).await {
        assert_eq!(failed(&recorder, &images).await, [10, 20, 29], "{table}");
    }
    assert_eq!(same_rows(&database).await.len(), 27);
}

#[tokio::test]
async fn what_either_way_costs() {
    let database = Database::start().await;
    if database
        .endpoint
        .differs("what_either_way_costs", &["statement-units", "large-statement-units"])
    {
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
    for (_, recorder) in recorders(&database).await {
        for images in [&images, &large] {
            database.consumed();
            assert!(failed(&recorder, images).await.is_empty());
            let consumed = database.consumed();
            let units: f64 = consumed.iter().map(|(_, units)| units).sum();
            measured.push((consumed.len(), units));
        }
    }
    assert_eq!(measured, [(100, 100.0), (30, 2940.0), (4, 100.0), (4, 2940.0)]);
}
