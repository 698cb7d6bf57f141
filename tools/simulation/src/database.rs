//! Requests to the embedded database, in the JSON of the DynamoDB API.

use dynoxide::{Database, errors::DynoxideError};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use shared::domain::time_index::{INDEX_NAME, INSERTED_AT, PARTITION};

use crate::{error::SimulationError, http::Response};

pub(crate) const BATCH_EXECUTE_STATEMENT: &str = "BatchExecuteStatement";
pub(crate) const EXECUTE_TRANSACTION: &str = "ExecuteTransaction";

/// Sends a request that has no faults.
pub(crate) fn send(database: &Database, operation: &'static str, body: &Value) -> Result<Value, SimulationError> {
    let output = execute(database, operation, body.to_string().as_bytes());
    let output = output.map_err(|source| SimulationError::Request { operation, source })?;
    Ok(serde_json::from_str(&output)?)
}

/// Creates a table with these keys, and with the index by time or without, and returns the ARN of its stream, which has this view. Without a
/// view, it has no stream.
pub(crate) fn create_table(
    database: &Database,
    name: &str,
    keys: &[&str],
    view: Option<&str>,
    is_indexed: bool,
) -> Result<String, SimulationError> {
    let attribute = |key: &&str| json!({"AttributeName": key, "AttributeType": "S"});
    let schema = |keys: &[&str]| {
        let roles = keys.iter().zip(["HASH", "RANGE"]);
        let schema = roles.map(|(key, role)| json!({"AttributeName": key, "KeyType": role}));
        schema.collect::<Vec<_>>()
    };
    let of_index: &[&str] = if is_indexed { &[PARTITION, INSERTED_AT] } else { &[] };
    let mut table = json!({
        "TableName": name, "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": keys.iter().chain(of_index).map(attribute).collect::<Vec<_>>(),
        "KeySchema": schema(keys),
    });
    if is_indexed {
        let keys_only = json!({"ProjectionType": "KEYS_ONLY"});
        table["GlobalSecondaryIndexes"] =
            json!([{"IndexName": INDEX_NAME, "KeySchema": schema(of_index), "Projection": keys_only}]);
    }
    if let Some(view) = view {
        table["StreamSpecification"] = json!({"StreamEnabled": true, "StreamViewType": view});
    }
    let created = send(database, "CreateTable", &table)?;
    let arn = created["TableDescription"]["LatestStreamArn"].as_str();
    Ok(arn.unwrap_or_default().to_owned())
}

/// Returns `true` if an operation changes no table.
pub(crate) fn is_read(operation: &str) -> bool {
    ["Get", "BatchGet", "Query", "Scan", "Describe", "List"]
        .iter()
        .any(|read| operation.starts_with(read))
}

/// Executes a request of an SDK client.
pub(crate) fn respond(database: &Database, operation: &str, body: &[u8]) -> Response {
    let (status, body) = match execute(database, operation, body) {
        Ok(body) => (200, body),
        Err(error) => (error.status_code(), error.to_json()),
    };
    Response { status, body }
}

/// Executes a request. Both bodies are JSON.
pub(crate) fn execute(database: &Database, operation: &str, body: &[u8]) -> Result<String, DynoxideError> {
    fn run<Q: DeserializeOwned, A: Serialize>(
        body: &[u8],
        send: impl FnOnce(Q) -> Result<A, DynoxideError>,
    ) -> Result<String, DynoxideError> {
        let invalid = |error: serde_json::Error| DynoxideError::SerializationException(error.to_string());
        let output = send(serde_json::from_slice(body).map_err(invalid)?)?;
        serde_json::to_string(&output).map_err(invalid)
    }
    match operation {
        "CreateTable" => run(body, |request| database.create_table(request)),
        "DeleteTable" => run(body, |request| database.delete_table(request)),
        "DescribeTimeToLive" => run(body, |request| database.describe_time_to_live(request)),
        "DescribeTable" => run(body, |request| database.describe_table(request)),
        "PutItem" => run(body, |request| database.put_item(request)),
        "GetItem" => run(body, |request| database.get_item(request)),
        "UpdateItem" => run(body, |request| database.update_item(request)),
        "UpdateTimeToLive" => run(body, |request| database.update_time_to_live(request)),
        "DeleteItem" => run(body, |request| database.delete_item(request)),
        "Query" => run(body, |request| database.query(request)),
        "Scan" => run(body, |request| database.scan(request)),
        BATCH_EXECUTE_STATEMENT => run(body, |request| database.batch_execute_statement(request)),
        EXECUTE_TRANSACTION => run(body, |request| database.execute_transaction(request)),
        "BatchWriteItem" => run(body, |request| database.batch_write_item(request)),
        "BatchGetItem" => run(body, |request| database.batch_get_item(request)),
        "TransactWriteItems" => run(body, |request| database.transact_write_items(request)),
        "ListStreams" => run(body, |request| database.list_streams(request)),
        "DescribeStream" => run(body, |request| database.describe_stream(request)),
        "GetShardIterator" => run(body, |request| database.get_shard_iterator(request)),
        "GetRecords" => run(body, |request| database.get_records(request)),
        _ => Err(DynoxideError::SerializationException(format!(
            "{operation} is not simulated"
        ))),
    }
}

/// Puts items, and returns the response that `BatchExecuteStatement` would return.
pub(crate) fn put_all(database: &Database, puts: Vec<Value>) -> Response {
    let put = |put: Value| match execute(database, "PutItem", put.to_string().as_bytes()) {
        Ok(_) => json!({}),
        Err(_) => json!({"Error": {"Code": "ValidationError"}}),
    };
    let responses: Vec<_> = puts.into_iter().map(put).collect();
    Response::ok(&json!({"Responses": responses}))
}
