//! Differences between engines: runs each row of the table in `docs/conformance.md` on the engine of the tests, with requests in JSON.

use std::{collections::BTreeMap, time::Duration};

use aws_sdk_dynamodb::{
    Client,
    config::{Credentials, timeout::TimeoutConfig},
    error::ProvideErrorMetadata as _,
    operation::RequestId as _,
};
use aws_smithy_types::body::SdkBody;
use serde_json::{Value, json};
use testkit::{
    database::Database,
    endpoint::{self, Engine},
    requests::RequestCounter,
    table,
    wait::eventually,
};

const TIMEOUT: Duration = Duration::from_secs(60);

/// Sends this request in place of an operation of a client. Returns `taken`, or an error code, and the response.
macro_rules! exchange {
    ($operation:expr, $target:expr, $body:expr) => {{
        let (target, body, requests) = ($target, $body.to_string(), RequestCounter::default());
        let exchanged = $operation.customize().mutate_request(move |request| {
            request.headers_mut().insert("x-amz-target", target.clone());
            request.headers_mut().insert("content-length", body.len().to_string());
            *request.body_mut() = SdkBody::from(body.clone());
        });
        let sent = exchanged.interceptor(requests.clone()).send().await;
        let code = sent.err().map(|error| error.code().unwrap_or("no response").to_owned());
        let response = serde_json::from_slice(&requests.take().response).unwrap_or_default();
        (code.unwrap_or_else(|| "taken".to_owned()), response)
    }};
}

fn key(sort_key: &str) -> Value {
    json!({"PK": {"S": "E"}, "SK": {"S": sort_key}})
}

/// Returns an item with the attribute `A`.
fn item(sort_key: &str, value: Value) -> Value {
    json!({"PK": {"S": "E"}, "SK": {"S": sort_key}, "A": value})
}

fn text(length: usize) -> Value {
    json!({"S": "x".repeat(length)})
}

/// Returns a number that some engines store in another form.
fn number() -> Value {
    json!({"N": "1.50"})
}

fn either(is_first: bool, [first, second]: [&str; 2]) -> String {
    if is_first { first } else { second }.to_owned()
}

fn units(response: &Value) -> String {
    let consumed = response["ConsumedCapacity"].as_array().into_iter().flatten();
    let units = consumed.filter_map(|consumed| consumed["CapacityUnits"].as_f64());
    units.sum::<f64>().abs().to_string()
}

struct Probe<'a> {
    database: &'a Database,
    client: Client,
    streams: aws_sdk_dynamodbstreams::Client,
    table: String,
    stream: String,
}

impl<'a> Probe<'a> {
    /// Creates a table with a stream.
    async fn new(database: &'a Database) -> Self {
        let table = database.endpoint.table("Conformance");
        let stream = table::create(&database.client, &table).await.unwrap();
        let timeouts = TimeoutConfig::builder().read_timeout(TIMEOUT);
        let timeouts = timeouts.operation_attempt_timeout(TIMEOUT).operation_timeout(TIMEOUT);
        // The embedded DynamoDB of a debug build needs seconds for batches and stream pages of many megabytes.
        let config = database.endpoint.config.to_builder();
        let config = config.timeout_config(timeouts.build()).build();
        Self {
            database,
            client: Client::new(&config),
            streams: aws_sdk_dynamodbstreams::Client::new(&config),
            table,
            stream,
        }
    }

    /// Sends a request of one item to DynamoDB.
    async fn send(&self, operation: &str, mut body: Value) -> (String, Value) {
        body["TableName"] = json!(self.table);
        self.batch(operation, body).await
    }

    /// Sends a request of several items to DynamoDB.
    async fn batch(&self, operation: &str, body: Value) -> (String, Value) {
        let target = format!("DynamoDB_20120810.{operation}");
        exchange!(self.client.list_tables(), target, body)
    }

    /// Sends a request to the stream.
    async fn stream(&self, operation: &str, body: Value) -> (String, Value) {
        let target = format!("DynamoDBStreams_20120810.{operation}");
        exchange!(self.streams.list_streams(), target, body)
    }

    async fn put(&self, item: Value) -> String {
        self.send("PutItem", json!({"Item": item})).await.0
    }

    /// Sets an attribute of an item, and another one to the empty map if it has a name.
    async fn set(&self, sort_key: &str, value: Value, map: Option<&str>) -> String {
        let mut body = json!({
            "Key": key(sort_key), "UpdateExpression": "SET #a = :a",
            "ExpressionAttributeNames": {"#a": "A"}, "ExpressionAttributeValues": {":a": value},
        });
        if let Some(name) = map {
            body["UpdateExpression"] = json!("SET #m = :m, #a = :a");
            body["ExpressionAttributeNames"]["#m"] = json!(name);
            body["ExpressionAttributeValues"][":m"] = json!({"M": {"x": text(1)}});
        }
        self.send("UpdateItem", body).await.0
    }

    /// Sends a transaction of puts or updates.
    async fn transact(&self, kind: &str, items: Vec<Value>) -> Value {
        let with_table = |mut item: Value| {
            item["TableName"] = json!(self.table);
            json!({ kind: item })
        };
        let items: Vec<_> = items.into_iter().map(with_table).collect();
        let body = json!({"TransactItems": items, "ReturnConsumedCapacity": "TOTAL"});
        self.batch("TransactWriteItems", body).await.1
    }

    /// Inserts items with one attribute each. Returns the consumed units, and the error codes of the statements.
    async fn insert(&self, items: &[(&str, &str, Value)]) -> Result<(String, Vec<String>), String> {
        let statement = |(sort_key, name, value): &(&str, &str, Value)| {
            let table = &self.table;
            let text = format!("INSERT INTO \"{table}\" VALUE {{'PK': 'E', 'SK': '{sort_key}', '{name}': ?}}");
            json!({"Statement": text, "Parameters": [value]})
        };
        let statements: Vec<_> = items.iter().map(statement).collect();
        let body = json!({"Statements": statements, "ReturnConsumedCapacity": "TOTAL"});
        let (code, output) = self.batch("BatchExecuteStatement", body).await;
        let responses = output["Responses"].as_array().into_iter().flatten();
        let errors = responses.filter_map(|response| response.get("Error"));
        let codes = errors.map(|error| error["Code"].as_str().unwrap_or("refused").to_owned());
        let is_taken = code == "taken";
        is_taken.then(|| (units(&output), codes.collect())).ok_or(code)
    }

    async fn inserted_units(&self, items: &[(&str, &str, Value)]) -> String {
        self.insert(items).await.map_or_else(|code| code, |(units, _)| units)
    }

    async fn stored_number(&self, sort_key: &str) -> String {
        let body = json!({"Key": key(sort_key), "ConsistentRead": true});
        let (_, found) = self.send("GetItem", body).await;
        found["Item"]["A"]["N"].as_str().unwrap_or_default().to_owned()
    }

    async fn iterator(&self, shard: &Value) -> (String, Value) {
        let body = json!({"StreamArn": self.stream, "ShardId": shard, "ShardIteratorType": "TRIM_HORIZON"});
        self.stream("GetShardIterator", body).await
    }

    /// Returns the images of the stream records with this sort key, and the size of the largest response.
    async fn records(&self, sort_key: &str) -> (Vec<Value>, usize) {
        let (mut found, mut largest) = (Vec::new(), 0);
        let (_, described) = self.stream("DescribeStream", json!({"StreamArn": self.stream})).await;
        for shard in described["StreamDescription"]["Shards"].as_array().unwrap() {
            let mut iterator = self.iterator(&shard["ShardId"]).await.1["ShardIterator"].clone();
            // On AWS, some responses are empty.
            for _ in 0..20 {
                if iterator.is_null() {
                    break;
                }
                let (_, mut read) = self.stream("GetRecords", json!({"ShardIterator": iterator})).await;
                let records = read["Records"].as_array().unwrap();
                largest = largest.max(records.len());
                let images = records.iter().map(|record| &record["dynamodb"]["NewImage"]);
                found.extend(images.filter(|image| image["SK"]["S"] == sort_key).cloned());
                iterator = read["NextShardIterator"].take();
            }
        }
        (found, largest)
    }

    async fn record_count(&self, sort_key: &str) -> String {
        self.records(sort_key).await.0.len().to_string()
    }

    /// Returns the stream's image of 0.10, set by an update. Some streams show a change after a delay.
    async fn streamed_number(&self) -> String {
        self.set("n4", json!({"N": "0.10"}), None).await;
        let image = eventually("stream record", async || self.records("n4").await.0.pop());
        image.await["A"]["N"].as_str().unwrap_or_default().to_owned()
    }

    async fn batch_get(&self) -> String {
        let keys: Vec<_> = (0..45).map(|number| format!("batch{number}")).collect();
        for sort_key in &keys {
            assert_eq!(self.put(item(sort_key, text(390_000))).await, "taken");
        }
        let all: Vec<_> = keys.iter().map(|sort_key| key(sort_key)).collect();
        let body = json!({"RequestItems": {&self.table: {"Keys": all}}});
        let (_, found) = self.batch("BatchGetItem", body).await;
        let is_all = found["Responses"][&self.table].as_array().unwrap().len() == keys.len();
        either(is_all, ["all", "some, and the keys of the others"])
    }

    async fn access_key(&self) -> String {
        if self.database.endpoint.engine == Engine::Aws {
            return "its own".to_owned();
        }
        let odd = Credentials::new("writer-fn", "secret", None, None, "test");
        let config = aws_sdk_dynamodb::config::Builder::from(&self.database.endpoint.config);
        let client = Client::from_conf(config.credentials_provider(odd).build());
        match client.describe_table().table_name(&self.table).send().await {
            Ok(_) => "any".to_owned(),
            Err(error) => {
                let is_answered = error.request_id().is_some() || error.code().is_some();
                either(is_answered, ["letters and digits", "no response"])
            }
        }
    }

    /// Returns the result of every row.
    async fn results(&self) -> BTreeMap<String, String> {
        let put = |sort_key: &str| json!({"Item": key(sort_key)});
        let duplicates = || json!({"SS": ["a", "a"]});
        let two = self.transact("Put", vec![put("t1"), put("t2")]).await;
        let twin = self.insert(&[("b7", "A", duplicates())]).await;
        let is_twin_refused = twin.map_or(true, |(_, codes)| !codes.is_empty());
        // 6,000 characters, 12,000 bytes.
        let long = self.insert(&[("b3", &"é".repeat(6000), text(1))]).await;
        let long = long.map_or_else(|code| code, |(_, mut codes)| codes.pop().unwrap_or("taken".to_owned()));
        let bad = self.insert(&[("b4", "A", text(1)), ("b5", "A", duplicates())]).await;
        let of_bad = |(_, codes): (_, Vec<_>)| format!("{} of 2 fails", codes.len());
        let mut long_name = key("long");
        long_name["x".repeat(65_535)] = text(1);
        for number in 0..8 {
            self.put(item(&format!("page{number}"), text(200_000))).await;
        }
        for _ in 0..2 {
            self.put(item("same", text(1))).await;
            self.set("updated", text(1), None).await;
        }
        let query = json!({
            "KeyConditionExpression": "PK = :pk AND begins_with(SK, :sk)",
            "ExpressionAttributeValues": {":pk": {"S": "E"}, ":sk": {"S": "page"}},
        });
        let (pages, largest) = self.records("page7").await;
        assert!(!pages.is_empty(), "the stream contains the items");
        let nested = (0..31).fold(json!({"L": []}), |value, _| json!({"L": [value]}));
        let update = json!({
            "Key": key("n2"), "UpdateExpression": "SET A = :a", "ExpressionAttributeValues": {":a": number()},
        });
        self.transact("Update", vec![update]).await;
        self.insert(&[("n3", "A", number())]).await.unwrap();
        let statements = [("b1", "A", text(1)), ("b2", "A", text(1))];
        let large = [("b6", "A", text(10_000))];
        let unknown = json!("shardId-00000000000000000001-deadbeef");
        let rows = [
            ("transaction-units", units(&two)),
            ("statement-units", self.inserted_units(&statements).await),
            ("large-statement-units", self.inserted_units(&large).await),
            ("twin-statement", either(is_twin_refused, ["refused", "taken"])),
            ("statement-length", long),
            ("bad-statement", bad.map_or("all fail".to_owned(), of_bad)),
            ("same-put", self.record_count("same").await),
            ("same-update", self.record_count("updated").await),
            ("long-name", self.put(long_name).await),
            ("type-names", self.set("types", text(1), Some("M")).await),
            ("streamed-number", self.streamed_number().await),
            ("page", self.send("Query", query).await.1["Count"].to_string()),
            ("stream-page", either(largest > 8, ["beyond 1 MB", "up to 1 MB"])),
            ("batch-get", self.batch_get().await),
            ("nested-list", self.put(item("nested", nested)).await),
            ("transacted-number", self.stored_number("n2").await),
            ("inserted-number", self.stored_number("n3").await),
            ("inserted-record", self.record_count("n3").await),
            ("unknown-shard", self.iterator(&unknown).await.0),
            ("access-key", self.access_key().await),
        ];
        rows.map(|(name, result)| (name.to_owned(), result)).into()
    }
}

#[tokio::test]
async fn each_engine_matches_the_documented_table() {
    let database = Database::start().await;
    let measured = Probe::new(&database).await.results().await;
    assert_eq!(measured, endpoint::documented(database.endpoint.engine));
}
