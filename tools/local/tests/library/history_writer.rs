//! Version items put individually and in batches: both produce the same items.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use shared::clock::Deadline;
use stream_fn::{HistoryWriter, Purpose};
use testkit::database::{Database, rows};

/// A table, and stream-fn with a number of records per invocation: one, which is put individually, or all.
struct Writer<'a> {
    database: &'a Database,
    table: &'static str,
    function: HistoryWriter,
    batch_size: usize,
}

impl<'a> Writer<'a> {
    async fn both(database: &'a Database) -> [Self; 2] {
        let writer = async |table, batch_size| Self {
            database,
            table,
            function: HistoryWriter::from_store(database.store(table, 1).await, Purpose::Redrive),
            batch_size,
        };
        [writer("Individual", 1).await, writer("Batched", usize::MAX).await]
    }

    /// Invokes stream-fn with these images, whose versions are counted. Returns the indexes of those that failed, and the items besides
    /// the latest items.
    async fn write(&self, images: &[Value]) -> (Vec<usize>, Vec<Value>) {
        let entities: BTreeSet<_> = images.iter().filter_map(|image| image["PK"]["S"].as_str()).collect();
        for entity in entities {
            self.database.put(self.table, image(entity, 1000, json!({}))).await;
        }
        self.database.consumed();
        let failed = self.invoke(images).await;
        let mut rows = rows(self.database, self.table).await;
        rows.retain(|row| row["SK"]["S"] != "v0");
        (failed, rows)
    }

    async fn invoke(&self, images: &[Value]) -> Vec<usize> {
        let record = |(index, image): (usize, &Value)| {
            let keys = json!({"PK": image["PK"], "SK": image["SK"]});
            json!({"eventName": "MODIFY", "dynamodb": {"Keys": keys, "NewImage": image, "SequenceNumber": index.to_string()}})
        };
        let records: Vec<_> = images.iter().enumerate().map(record).collect();
        let mut failed = Vec::new();
        for records in records.chunks(self.batch_size) {
            let event = json!({"Records": records}).to_string();
            let deadline = Deadline::after(std::time::Duration::from_secs(60));
            let response = self.function.handle(&event, "lambda", deadline).await.unwrap();
            let failures = response.batch_item_failures.into_iter();
            failed.extend(failures.map(|failure| failure.item_identifier.unwrap().parse::<usize>().unwrap()));
        }
        failed
    }
}

fn image(entity: &str, latest: u64, attributes: Value) -> Value {
    let mut image = attributes;
    image["PK"] = json!({"S": entity});
    image["SK"] = json!({"S": "v0"});
    image["Latest"] = json!({"N": latest.to_string()});
    image
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
    for name in
        "it's,'',',a b,a.b[0],\"q\",?,{,},\\,new\nline,\0,--,/*,;,é,😀,SELECT,value,pk,Pk,#n,:v,$,`, ".split(',')
    {
        attributes[name] = json!({"S": name});
    }
    attributes
}

#[tokio::test]
async fn both_batch_sizes_write_the_same_items() {
    let database = Database::start().await;
    let rows = ["inserted-number", "twin-statement"];
    if database.endpoint.differs(&rows) {
        return;
    }
    // More than one request accepts, including items that fit in no statement, and items that are not versions.
    let mut images: Vec<_> = (1..=70).map(|latest| image("E", latest, odd_attributes())).collect();
    images[3] = image("Long name", 1, json!({"n".repeat(9000): {"S": "a"}}));
    let longest = database.longest_name();
    images[4] = image("Longest name", 1, json!({"'é".repeat(longest / 3): {"S": "a"}}));
    let many = (0..900).map(|number| (format!("attribute {number}"), json!({"N": number.to_string()})));
    images[5] = image("Many names", 1, Value::Object(many.collect()));
    images[6] = image("Malformed", 1, json!({"N": {"N": "no number"}}));
    images[6]["Latest"] = json!({"S": "no number"});
    images[7]["SK"] = json!({"S": "v9"});
    // Their plain form is rejected, so they are stored compressed.
    images[11] = image("Large", 1, json!({"Large": {"S": "x".repeat(410_000)}}));
    images[20] = image("Set", 1, json!({"Set": {"SS": ["a", "a"]}}));
    let deep = (0..40).fold(json!({"S": "a"}), |deep, _| json!({"L": [deep]}));
    images[29] = image("Deep", 1, json!({"Deep": deep}));
    let mut histories = Vec::new();
    for writer in Writer::both(&database).await {
        let (failed, history) = writer.write(&images).await;
        assert_eq!((failed, history.len()), (vec![6], 68), "{}", writer.table);
        histories.push(history);
    }
    assert_eq!(histories[0], histories[1]);
    // With both keys.
    let names = odd_attributes().as_object().unwrap().len() + 2;
    let mut of_entity = histories[0].iter().filter(|row| row["PK"]["S"] == "E");
    assert!(of_entity.all(|row| row.as_object().unwrap().len() == names));
}

#[tokio::test]
async fn cost_of_both_batch_sizes() {
    let database = Database::start().await;
    let rows = ["statement-units", "large-statement-units"];
    if database.endpoint.differs(&rows) {
        return;
    }
    let versions = |entity: &str, count: u64, bytes: usize| -> Vec<_> {
        let attributes = || json!({"A": {"S": "x".repeat(bytes)}});
        (1..=count).map(|latest| image(entity, latest, attributes())).collect()
    };
    // Just under 1 KB, and large.
    let sizes = [versions("E", 100, 850), versions("L", 30, 100_000)];
    let mut measured = Vec::new();
    for writer in Writer::both(&database).await {
        for images in &sizes {
            assert!(writer.write(images).await.0.is_empty());
            let consumed = database
                .consumed()
                .into_iter()
                .filter(|(operation, _)| *operation != "Scan");
            let (markers, puts): (Vec<_>, Vec<_>) = consumed.partition(|(operation, _)| *operation == "BatchGetItem");
            // For records of any age, the purge marker and floor of the entity, and its latest item if it is a redrive, are read
            // once for a chunk.
            assert!(markers.iter().all(|(_, units)| *units <= 2.0), "{markers:?}");
            measured.push((puts.len(), puts.iter().map(|(_, units)| units).sum::<f64>()));
        }
    }
    assert_eq!(measured, [(100, 100.0), (30, 2940.0), (4, 100.0), (4, 2940.0)]);
}
