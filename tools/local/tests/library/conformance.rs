//! Differences between engines: runs each row of the table in `docs/conformance.md` on the engine of the tests.

use std::{collections::BTreeMap, time::Duration};

use aws_sdk_dynamodb::{
    Client,
    config::{Credentials, timeout::TimeoutConfig},
    error::ProvideErrorMetadata,
    operation::RequestId as _,
    primitives::Blob,
    types::{
        AttributeValue, BatchStatementRequest, ConsumedCapacity, KeysAndAttributes, Put, ReturnConsumedCapacity,
        ReturnValuesOnConditionCheckFailure, ScalarAttributeType, StreamViewType, TransactWriteItem, Update,
    },
};

use testkit::{
    database::{Database, create_streamed},
    endpoint::{self, Engine},
};

const TIMEOUT: Duration = Duration::from_secs(60);

type Item = std::collections::HashMap<String, AttributeValue>;
type Failure = Box<dyn std::error::Error>;

fn s(text: impl Into<String>) -> AttributeValue {
    AttributeValue::S(text.into())
}

fn item(sort_key: &str, more: impl IntoIterator<Item = (&'static str, AttributeValue)>) -> Item {
    let keys = [("PK", s("E")), ("SK", s(sort_key))];
    let all = keys.into_iter().chain(more);
    all.map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Returns `taken` for a success, or else the error code.
fn code<T, E: ProvideErrorMetadata>(result: Result<T, E>) -> String {
    match result {
        Ok(_) => "taken".to_owned(),
        Err(error) => error.code().unwrap_or("no response").to_owned(),
    }
}

fn units(consumed: Option<Vec<ConsumedCapacity>>) -> String {
    let units = consumed.unwrap_or_default();
    let units = units.iter().filter_map(|one| one.capacity_units);
    units.sum::<f64>().abs().to_string()
}

struct Probe<'a> {
    database: &'a Database,
    client: Client,
    streams: aws_sdk_dynamodbstreams::Client,
    table: String,
}

impl<'a> Probe<'a> {
    /// Creates a table with a stream.
    async fn new(database: &'a Database) -> Result<Self, Failure> {
        let table = database.endpoint.table("Conformance");
        let keys = [("PK", ScalarAttributeType::S), ("SK", ScalarAttributeType::S)];
        create_streamed(&database.client, &table, &keys, StreamViewType::NewImage).await?;
        database.endpoint.wait_until_active(&table).await;
        let timeouts = TimeoutConfig::builder()
            .read_timeout(TIMEOUT)
            .operation_attempt_timeout(TIMEOUT)
            .operation_timeout(TIMEOUT)
            .build();
        // The embedded DynamoDB of a debug build needs seconds for batches and stream pages of many megabytes.
        let config = database.endpoint.config.to_builder().timeout_config(timeouts).build();
        Ok(Self {
            database,
            client: Client::new(&config),
            streams: aws_sdk_dynamodbstreams::Client::new(&config),
            table,
        })
    }

    async fn put(&self, item: Item) -> Result<(), Failure> {
        let put = self.client.put_item().table_name(&self.table);
        put.set_item(Some(item)).send().await?;
        Ok(())
    }

    async fn put_code(&self, item: Item) -> String {
        let put = self.client.put_item().table_name(&self.table);
        code(put.set_item(Some(item)).send().await)
    }

    fn transacted(&self, sort_key: &str) -> Result<TransactWriteItem, Failure> {
        let put = Put::builder()
            .table_name(&self.table)
            .set_item(Some(item(sort_key, [])));
        Ok(TransactWriteItem::builder().put(put.build()?).build())
    }

    fn insert(&self, sort_key: &str, name: &str, value: AttributeValue) -> Result<BatchStatementRequest, Failure> {
        let statement = format!(
            "INSERT INTO \"{}\" VALUE {{'PK': 'E', 'SK': '{sort_key}', '{name}': ?}}",
            self.table
        );
        Ok(BatchStatementRequest::builder()
            .statement(statement)
            .parameters(value)
            .build()?)
    }

    async fn stream(&self) -> Result<String, Failure> {
        let described = self.client.describe_table().table_name(&self.table).send().await?;
        let arn = described.table.and_then(|table| table.latest_stream_arn);
        Ok(arn.ok_or("no stream")?)
    }

    /// Passes every record of the stream to `inspect`, and returns the size of the largest response.
    async fn each_record(
        &self,
        mut inspect: impl FnMut(&aws_sdk_dynamodbstreams::types::Record),
    ) -> Result<usize, Failure> {
        let arn = self.stream().await?;
        let described = self.streams.describe_stream().stream_arn(&arn).send().await?;
        let shards = described.stream_description.and_then(|stream| stream.shards);
        let mut largest = 0;
        for shard in shards.unwrap_or_default() {
            let iterator = self.streams.get_shard_iterator().stream_arn(&arn);
            let iterator = iterator
                .shard_id(shard.shard_id.unwrap_or_default())
                .shard_iterator_type(aws_sdk_dynamodbstreams::types::ShardIteratorType::TrimHorizon);
            let mut iterator = iterator.send().await?.shard_iterator;
            // On AWS, some responses are empty.
            for _ in 0..20 {
                let Some(at) = iterator.take() else { break };
                let read = self.streams.get_records().shard_iterator(at).send().await?;
                let records = read.records.unwrap_or_default();
                largest = largest.max(records.len());
                records.iter().for_each(&mut inspect);
                iterator = read.next_shard_iterator;
            }
        }
        Ok(largest)
    }

    /// Returns the number of stream records with this sort key, and the size of the largest response.
    async fn records(&self, sort_key: &str) -> Result<(usize, usize), Failure> {
        let mut found = 0;
        let inspect = |record: &aws_sdk_dynamodbstreams::types::Record| {
            let keys = record.dynamodb.as_ref().and_then(|change| change.keys.as_ref());
            let key = keys.and_then(|keys| keys.get("SK")).and_then(|key| key.as_s().ok());
            found += usize::from(key.is_some_and(|key| key == sort_key));
        };
        let largest = self.each_record(inspect).await?;
        Ok((found, largest))
    }

    async fn transaction_units(&self) -> Result<String, Failure> {
        let request = self.client.transact_write_items();
        let request = request
            .transact_items(self.transacted("t1")?)
            .transact_items(self.transacted("t2")?);
        let request = request.return_consumed_capacity(ReturnConsumedCapacity::Total);
        Ok(units(request.send().await?.consumed_capacity))
    }

    /// Inserts the items, and returns the consumed units and the error codes of the statements, `refused` for one without a code.
    async fn execute(&self, statements: Vec<BatchStatementRequest>) -> Result<(String, Vec<String>), String> {
        let request = self.client.batch_execute_statement().set_statements(Some(statements));
        let request = request.return_consumed_capacity(ReturnConsumedCapacity::Total);
        let output = match request.send().await {
            Ok(output) => output,
            Err(error) => return Err(code::<(), _>(Err(error))),
        };
        let errors = output
            .responses
            .unwrap_or_default()
            .into_iter()
            .filter_map(|one| one.error);
        let codes = errors.map(|error| error.code.map_or("refused".to_owned(), |code| code.as_str().to_owned()));
        Ok((units(output.consumed_capacity), codes.collect()))
    }

    async fn statement_units(&self) -> Result<String, Failure> {
        let statements = vec![self.insert("b1", "A", s("a"))?, self.insert("b2", "A", s("a"))?];
        Ok(self.execute(statements).await?.0)
    }

    async fn large_statement_units(&self) -> Result<String, Failure> {
        Ok(self
            .execute(vec![self.insert("b6", "A", s("x".repeat(10_000)))?])
            .await?
            .0)
    }

    /// Inserts a set that contains a value twice.
    async fn twin_statement(&self) -> Result<String, Failure> {
        let duplicates = AttributeValue::Ss(vec!["a".to_owned(), "a".to_owned()]);
        let executed = self.execute(vec![self.insert("b7", "A", duplicates)?]).await;
        let rejected = executed.map_or(true, |(_, codes)| !codes.is_empty());
        Ok(if rejected { "refused" } else { "taken" }.to_owned())
    }

    async fn statement_length(&self) -> Result<String, Failure> {
        // 6,000 characters, 12,000 bytes.
        let executed = self.execute(vec![self.insert("b3", &"é".repeat(6000), s("a"))?]).await;
        Ok(executed.map_or_else(|code| code, |(_, mut codes)| codes.pop().unwrap_or("taken".to_owned())))
    }

    async fn bad_statement(&self) -> Result<String, Failure> {
        let duplicates = AttributeValue::Ss(vec!["a".to_owned(), "a".to_owned()]);
        let statements = vec![self.insert("b4", "A", s("a"))?, self.insert("b5", "A", duplicates)?];
        let executed = self.execute(statements).await;
        Ok(executed.map_or("all fail".to_owned(), |(_, codes)| {
            format!("{} of 2 fails", codes.len())
        }))
    }

    async fn same_put(&self) -> Result<String, Failure> {
        for _ in 0..2 {
            self.put(item("same", [("A", s("a"))])).await?;
        }
        Ok(self.records("same").await?.0.to_string())
    }

    async fn same_update(&self) -> Result<String, Failure> {
        for _ in 0..2 {
            let update = self.client.update_item().table_name(&self.table);
            let update = update
                .set_key(Some(item("updated", [])))
                .update_expression("SET #a = :a");
            let update = update
                .expression_attribute_names("#a", "A")
                .expression_attribute_values(":a", s("a"));
            update.send().await?;
        }
        Ok(self.records("updated").await?.0.to_string())
    }

    async fn long_name(&self) -> Result<String, Failure> {
        let mut long = item("long", []);
        long.insert("x".repeat(65_535), s("a"));
        Ok(self.put_code(long).await)
    }

    /// Sets a map named `M` and another attribute in one update.
    async fn type_names(&self) -> Result<String, Failure> {
        let map = AttributeValue::M([("x".to_owned(), s("a"))].into());
        let update = self.client.update_item().table_name(&self.table);
        let update = update
            .set_key(Some(item("types", [])))
            .update_expression("SET #m = :m, #a = :a")
            .expression_attribute_names("#m", "M")
            .expression_attribute_names("#a", "A")
            .expression_attribute_values(":m", map);
        Ok(code(update.expression_attribute_values(":a", s("a")).send().await))
    }

    async fn page(&self) -> Result<String, Failure> {
        for number in 0..8 {
            self.put(item(&format!("page{number}"), [("A", s("x".repeat(200_000)))]))
                .await?;
        }
        let query = self.client.query().table_name(&self.table);
        let query = query.key_condition_expression("PK = :pk AND begins_with(SK, :sk)");
        let query = query
            .expression_attribute_values(":pk", s("E"))
            .expression_attribute_values(":sk", s("page"));
        Ok(query.send().await?.count.to_string())
    }

    /// Must run after `page`, which puts the items.
    async fn stream_page(&self) -> Result<String, Failure> {
        let (found, largest) = self.records("page7").await?;
        assert!(found > 0, "the stream contains the items");
        Ok(if largest > 8 { "beyond 1 MB" } else { "up to 1 MB" }.to_owned())
    }

    async fn batch_get(&self) -> Result<String, Failure> {
        const ITEMS: usize = 45;
        let mut keys = KeysAndAttributes::builder();
        for number in 0..ITEMS {
            let key = format!("batch{number}");
            self.put(item(&key, [("A", s("x".repeat(390_000)))])).await?;
            keys = keys.keys(item(&key, []));
        }
        let request = self.client.batch_get_item().request_items(&self.table, keys.build()?);
        let output = request.send().await?;
        let found = output
            .responses
            .unwrap_or_default()
            .values()
            .map(Vec::len)
            .sum::<usize>();
        Ok(if found == ITEMS {
            "all"
        } else {
            "some, and the keys of the others"
        }
        .to_owned())
    }

    async fn nested_list(&self) -> Result<String, Failure> {
        let empty = AttributeValue::L(Vec::new());
        let nested = (0..31).fold(empty, |value, _| AttributeValue::L(vec![value]));
        Ok(self.put_code(item("nested", [("A", nested)])).await)
    }

    async fn token(&self) -> Result<String, Failure> {
        let token = uuid::Uuid::new_v4().to_string();
        let mut codes = Vec::new();
        for more in ["", "", ", B = :a"] {
            let update = Update::builder()
                .table_name(&self.table)
                .set_key(Some(item("token", [])));
            let update = update.update_expression(format!("SET A = if_not_exists(A, :z) + :a{more}"));
            let number = |text: &str| AttributeValue::N(text.to_owned());
            let update = update
                .expression_attribute_values(":a", number("1"))
                .expression_attribute_values(":z", number("0"));
            let request = self.client.transact_write_items().client_request_token(&token);
            let request = request.transact_items(TransactWriteItem::builder().update(update.build()?).build());
            codes.push(code(request.send().await));
        }
        Ok(format!("{}, then {}", self.number("token").await?, codes[2]))
    }

    async fn met(&self) -> Result<String, Failure> {
        self.put(item("met", [("A", s("a"))])).await?;
        let put = Put::builder().table_name(&self.table).set_item(Some(item("met", [])));
        let put = put
            .condition_expression("attribute_not_exists(PK)")
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        let request = self.client.transact_write_items();
        let request = request.transact_items(TransactWriteItem::builder().put(put.build()?).build());
        let error = request
            .send()
            .await
            .err()
            .ok_or("the condition check did not fail")?
            .into_service_error();
        let reasons = match error {
            aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError::TransactionCanceledException(
                canceled,
            ) => canceled.cancellation_reasons.unwrap_or_default(),
            other => return Ok(code::<(), _>(Err(other))),
        };
        let returned = reasons.into_iter().find_map(|reason| reason.item).unwrap_or_default();
        Ok(if returned.contains_key("A") {
            "the item"
        } else {
            "no item"
        }
        .to_owned())
    }

    async fn number(&self, sort_key: &str) -> Result<String, Failure> {
        let get = self
            .client
            .get_item()
            .table_name(&self.table)
            .set_key(Some(item(sort_key, [])));
        let found = get.consistent_read(true).send().await?.item.unwrap_or_default();
        let number = found.get("A").and_then(|value| value.as_n().ok());
        Ok(number.cloned().unwrap_or_default())
    }

    async fn put_number(&self) -> Result<String, Failure> {
        self.put(item("n1", [("A", AttributeValue::N("1.50".to_owned()))]))
            .await?;
        self.number("n1").await
    }

    /// Returns an update that sets the number of an item.
    fn set_number(&self, sort_key: &str, number: &str) -> Result<TransactWriteItem, Failure> {
        let update = Update::builder()
            .table_name(&self.table)
            .set_key(Some(item(sort_key, [])));
        let update = update.update_expression("SET A = :a");
        let update = update.expression_attribute_values(":a", AttributeValue::N(number.to_owned()));
        Ok(TransactWriteItem::builder().update(update.build()?).build())
    }

    async fn transacted_number(&self) -> Result<String, Failure> {
        let request = self.client.transact_write_items();
        request.transact_items(self.set_number("n2", "1.50")?).send().await?;
        self.number("n2").await
    }

    async fn inserted_number(&self) -> Result<String, Failure> {
        let number = AttributeValue::N("1.50".to_owned());
        self.execute(vec![self.insert("n3", "A", number)?]).await?;
        self.number("n3").await
    }

    /// Must run after `inserted_number`, which inserts the item.
    async fn inserted_record(&self) -> Result<String, Failure> {
        Ok(self.records("n3").await?.0.to_string())
    }

    /// Returns the stream's image of 0.10, set by an update.
    async fn streamed_number(&self) -> Result<String, Failure> {
        let update = self.client.update_item().table_name(&self.table);
        let update = update.set_key(Some(item("n4", []))).update_expression("SET A = :a");
        let number = AttributeValue::N("0.10".to_owned());
        update.expression_attribute_values(":a", number).send().await?;
        let mut image_number = String::new();
        // Some streams show a change after a delay.
        for _ in 0..50 {
            self.each_record(|record| {
                let image = record.dynamodb.as_ref().and_then(|change| change.new_image.as_ref());
                let attribute = |name: &str| image.and_then(|image| image.get(name));
                let is_item = attribute("SK")
                    .and_then(|key| key.as_s().ok())
                    .is_some_and(|key| key == "n4");
                if let Some(number) = attribute("A").and_then(|value| value.as_n().ok()).filter(|_| is_item) {
                    image_number.clone_from(number);
                }
            })
            .await?;
            if !image_number.is_empty() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(image_number)
    }

    async fn unknown_shard(&self) -> Result<String, Failure> {
        let iterator = self.streams.get_shard_iterator().stream_arn(self.stream().await?);
        let iterator = iterator.shard_id("shardId-00000000000000000001-deadbeef");
        let iterator = iterator.shard_iterator_type(aws_sdk_dynamodbstreams::types::ShardIteratorType::TrimHorizon);
        Ok(code(iterator.send().await))
    }

    async fn refused_values(&self) -> Result<String, Failure> {
        let n = |text: String| AttributeValue::N(text);
        let mut accepted = Vec::new();
        for (name, value) in [
            ("39 digits", n("1".repeat(39))),
            ("1e126", n("1e126".to_owned())),
            ("1e-131", n("1e-131".to_owned())),
            ("an empty set", AttributeValue::Ss(Vec::new())),
            (
                "a set with a duplicate",
                AttributeValue::Ns(vec!["1".to_owned(), "1.0".to_owned()]),
            ),
            ("400 KB", AttributeValue::B(Blob::new(vec![0; 410_000]))),
        ] {
            if self.put_code(item("refused", [("A", value)])).await == "taken" {
                accepted.push(name);
            }
        }
        Ok(if accepted.is_empty() {
            "none".to_owned()
        } else {
            accepted.join(", ")
        })
    }

    async fn one_item_twice(&self) -> Result<String, Failure> {
        let request = self.client.transact_write_items();
        let request = request
            .transact_items(self.transacted("twice")?)
            .transact_items(self.transacted("twice")?);
        Ok(code(request.send().await))
    }

    async fn idle_value(&self) -> Result<String, Failure> {
        let put = self
            .client
            .put_item()
            .table_name(&self.table)
            .set_item(Some(item("idle", [])));
        let put = put.condition_expression("attribute_not_exists(PK)");
        Ok(code(put.expression_attribute_values(":idle", s("a")).send().await))
    }

    async fn access_key(&self) -> Result<String, Failure> {
        if self.database.endpoint.engine == Engine::Aws {
            return Ok("its own".to_owned());
        }
        let odd = Credentials::new("writer-fn", "secret", None, None, "test");
        let config = aws_sdk_dynamodb::config::Builder::from(&self.database.endpoint.config);
        let client = Client::from_conf(config.credentials_provider(odd).build());
        let described = client.describe_table().table_name(&self.table).send().await;
        Ok(match &described {
            Ok(_) => "any".to_owned(),
            Err(error) if error.request_id().is_some() || error.code().is_some() => "letters and digits".to_owned(),
            Err(_) => "no response".to_owned(),
        })
    }

    /// Returns the result of every row, or the error of a row that failed.
    async fn results(&self) -> BTreeMap<String, String> {
        let results = [
            ("transaction-units", self.transaction_units().await),
            ("statement-units", self.statement_units().await),
            ("large-statement-units", self.large_statement_units().await),
            ("twin-statement", self.twin_statement().await),
            ("statement-length", self.statement_length().await),
            ("bad-statement", self.bad_statement().await),
            ("same-put", self.same_put().await),
            ("same-update", self.same_update().await),
            ("long-name", self.long_name().await),
            ("type-names", self.type_names().await),
            ("streamed-number", self.streamed_number().await),
            ("page", self.page().await),
            ("stream-page", self.stream_page().await),
            ("batch-get", self.batch_get().await),
            ("nested-list", self.nested_list().await),
            ("token", self.token().await),
            ("met", self.met().await),
            ("put-number", self.put_number().await),
            ("transacted-number", self.transacted_number().await),
            ("inserted-number", self.inserted_number().await),
            ("inserted-record", self.inserted_record().await),
            ("unknown-shard", self.unknown_shard().await),
            ("refused-values", self.refused_values().await),
            ("one-item-twice", self.one_item_twice().await),
            ("idle-value", self.idle_value().await),
            ("access-key", self.access_key().await),
        ];
        let or_error = |result: Result<String, Failure>| result.unwrap_or_else(|error| format!("{error:?}"));
        results.map(|(name, result)| (name.to_owned(), or_error(result))).into()
    }
}

#[tokio::test]
async fn each_engine_matches_the_documented_table() {
    let database = Database::start().await;
    let probe = Probe::new(&database).await.unwrap();
    assert_eq!(
        probe.results().await,
        endpoint::documented(database.endpoint.engine),
        "measured and documented results"
    );
}
