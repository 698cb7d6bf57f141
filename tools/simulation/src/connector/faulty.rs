//! Responses to requests with a fault, and to reads that do not show the last writes.

use std::{ops::Range, time::Duration};

use aws_smithy_runtime_api::client::result::ConnectorError;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use shared::domain::time_index;
use tokio::time::sleep;

use super::Connector;
use crate::{
    caller::Caller,
    clock::Clock,
    database::{self, BATCH_EXECUTE_STATEMENT},
    http::Response,
    requests::{is_version_key, text},
    schedule::FaultKind,
};

/// Time after which the sender of a request has stopped waiting.
pub(crate) const TOO_LATE: Duration = Duration::from_millis(2500);

/// Milliseconds after which a slow request arrives, at which its sender still waits for it.
pub(crate) const SLOW: Range<u64> = 50..900;

/// Time after which every read shows a write.
pub(crate) const STALENESS: Duration = Duration::from_secs(1);

/// Seconds after which the index by time shows a version. With the time of a late request, they are below the 15 minutes that seal-fn reads again.
const INDEX_DELAYS: [u64; 5] = [0, 0, 1, 30, 240];

/// Payload of a panic that a fault causes.
pub(crate) struct InjectedPanic;

/// Ends the process of the current request.
pub(crate) async fn killed<T>() -> T {
    if let Some(caller) = Caller::current() {
        caller.kill.notify_one();
    }
    std::future::pending().await
}

impl Connector {
    /// Responds to a request with a fault.
    pub(super) async fn fail(
        &self,
        fault: FaultKind,
        operation: &str,
        body: &[u8],
    ) -> Result<Response, ConnectorError> {
        let json = || serde_json::from_slice::<Value>(body).unwrap_or_default();
        let execute = || self.execute(operation, body);
        Ok(match fault {
            FaultKind::StatementsThrottled => self.fail_every_second(json(), false),
            FaultKind::StatementsApplied => self.fail_every_second(json(), true),
            FaultKind::Unprocessed => self.leave_half_unprocessed(operation, json()),
            FaultKind::Denied => Response::error(400, "AccessDeniedException"),
            FaultKind::Rejected => Response::error(400, "ValidationException"),
            FaultKind::Throttled => Response::error(400, "ProvisionedThroughputExceededException"),
            FaultKind::TransactionConflict => {
                let reasons = json!([{"Code": "TransactionConflict"}, {"Code": "None"}]);
                let kind = "com.amazonaws.dynamodb.v20120810#TransactionCanceledException";
                let body = json!({"__type": kind, "CancellationReasons": reasons}).to_string();
                Response { status: 400, body }
            }
            FaultKind::ErrorBefore => Response::error(500, "InternalServerError"),
            FaultKind::ErrorAfter => {
                execute();
                Response::error(500, "InternalServerError")
            }
            FaultKind::RequestDropped | FaultKind::ResponseDropped => {
                if fault == FaultKind::ResponseDropped {
                    execute();
                }
                return Err(ConnectorError::io("the connection was reset".into()));
            }
            FaultKind::TimeOut | FaultKind::SuccessUnanswered => {
                let response = execute();
                if fault == FaultKind::TimeOut || response.status == 200 {
                    sleep(TOO_LATE).await;
                }
                response
            }
            FaultKind::Slow => {
                let millis = self.draw(|rng| rng.u64(SLOW));
                sleep(Duration::from_millis(millis)).await;
                execute()
            }
            FaultKind::Hang => std::future::pending().await,
            FaultKind::Delayed => {
                self.execute_late(operation.to_owned(), json());
                std::future::pending().await
            }
            FaultKind::Panic => std::panic::panic_any(InjectedPanic),
            FaultKind::KilledAfter => {
                execute();
                killed().await
            }
            _ => killed().await,
        })
    }

    /// Executes every second statement, and reports the others as failed. They are executed, too, if `applied`.
    fn fail_every_second(&self, mut body: Value, applied: bool) -> Response {
        let statements = body.get_mut("Statements").and_then(Value::as_array_mut);
        let statements = statements.map(std::mem::take).unwrap_or_default();
        let failed = match applied {
            true => json!({"Error": {"Code": "InternalServerError", "Message": "failed"}}),
            false => json!({"Error": {"Code": "ThrottlingError", "Message": "throttled"}}),
        };
        let mut execute = |statement: Value| {
            body["Statements"] = json!([statement]);
            let executed = self.execute(BATCH_EXECUTE_STATEMENT, body.to_string().as_bytes());
            let mut output: Value = serde_json::from_str(&executed.body).unwrap_or_default();
            output.pointer_mut("/Responses/0").map(Value::take).unwrap_or_default()
        };
        let responses = statements.into_iter().enumerate().map(|(index, statement)| {
            let is_failed = index % 2 == 0;
            let executed = (applied || !is_failed).then(|| execute(statement));
            executed.filter(|_| !is_failed).unwrap_or_else(|| failed.clone())
        });
        Response::ok(&json!({"Responses": responses.collect::<Vec<_>>()}))
    }

    fn leave_half_unprocessed(&self, operation: &str, mut body: Value) -> Response {
        let mut unprocessed = json!({});
        let tables = body.get_mut("RequestItems").and_then(Value::as_object_mut);
        for (table, request) in tables.into_iter().flatten() {
            let mut rest = request.clone();
            if let Some(keys) = request.get_mut("Keys").and_then(Value::as_array_mut) {
                let half = keys.len().div_ceil(2);
                rest["Keys"] = Value::Array(keys.split_off(half));
            }
            if rest["Keys"].as_array().is_some_and(|keys| !keys.is_empty()) {
                unprocessed[table] = rest;
            }
        }
        let mut response = self.execute(operation, body.to_string().as_bytes());
        if let Ok(mut output) = serde_json::from_str::<Value>(&response.body) {
            output["UnprocessedKeys"] = unprocessed;
            self.mutations.response(operation, None, &Value::Null, &mut output);
            response.body = output.to_string();
        }
        response
    }

    /// Executes a query of the index by time without the versions that it shows later, in another order than they were inserted, or an eventually
    /// consistent batch without the items of the last moment. `None` for other requests.
    pub(super) fn read_of_sealer(&self, operation: &str, body: &[u8]) -> Option<Response> {
        if operation == "BatchGetItem" {
            return self.read_earlier_batch(body);
        } else if operation != "Query" {
            return None;
        }
        let query: Value = serde_json::from_slice(body).ok()?;
        query.get("IndexName")?;
        let mut output = database::send(&self.database, "Query", &query).ok()?;
        let items = output["Items"].as_array_mut()?;
        let now = Clock(self.started).millis();
        items.retain(|item| {
            let Some((inserted, _)) = time_index::parse(text(item, "/InsertedAt/S")) else {
                return true;
            };
            // The order of an item's attributes varies.
            let parts = ["PK", "SK", "InsertedAt"].map(|name| item[name].to_string());
            let digest = Sha256::digest(parts.concat());
            let delay = INDEX_DELAYS[usize::from(digest[0]) % INDEX_DELAYS.len()];
            inserted.to_duration() + Duration::from_secs(delay) <= Duration::from_millis(now)
        });
        output["Count"] = json!(items.len());
        Some(Response::ok(&output))
    }

    fn read_earlier_batch(&self, body: &[u8]) -> Option<Response> {
        let batch: Value = serde_json::from_slice(body).ok()?;
        let is_consistent = |table: &Value| table["ConsistentRead"] == true;
        if batch["RequestItems"].as_object()?.values().any(is_consistent) {
            return None;
        }
        let mut output = database::send(&self.database, "BatchGetItem", &batch).ok()?;
        let since = self.started.elapsed().saturating_sub(STALENESS);
        let recent = self.stream.written_since(since);
        for (_, items) in output["Responses"].as_object_mut()? {
            let is_shown = |item: &Value| !recent.contains(&json!({"PK": item["PK"], "SK": item["SK"]}));
            items.as_array_mut()?.retain(is_shown);
        }
        Some(Response::ok(&output))
    }

    /// Executes an eventually consistent query without the items of the last moment, or such a scan without the versions. `None` for a strongly
    /// consistent one, and for some others.
    pub(super) fn read_earlier(&self, operation: &str, body: &[u8]) -> Option<Response> {
        let (is_scan, mut query): (_, Value) = (operation == "Scan", serde_json::from_slice(body).ok()?);
        if query["ConsistentRead"] == true || self.draw(fastrand::Rng::bool) {
            return None;
        }
        let limit = query.as_object_mut()?.remove("Limit").and_then(|limit| limit.as_u64());
        let limit = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        let read = if is_scan { "Scan" } else { "Query" };
        let mut output = database::send(&self.database, read, &query).ok()?;
        let recent = self
            .stream
            .written_since(self.started.elapsed().saturating_sub(STALENESS));
        let items = output["Items"].as_array_mut()?;
        // An item that was changed would be shown as it was before.
        let is_shown = |item: &Value| is_scan && !is_version_key(text(item, "/SK/S"));
        items.retain(|item| is_shown(item) || !recent.contains(&json!({"PK": item["PK"], "SK": item["SK"]})));
        if items.len() > limit {
            items.truncate(limit);
            let last = items.last()?;
            output["LastEvaluatedKey"] = json!({"PK": last["PK"], "SK": last["SK"]});
        }
        output["Count"] = json!(output["Items"].as_array()?.len());
        Some(Response::ok(&output))
    }
}
