//! Inserts up to 25 version items in one request: `BatchExecuteStatement` with one `PartiQL` `INSERT` per item. An `INSERT`
//! never overwrites: if the key is taken, it fails with `DuplicateItem`, and the other statements are not affected.

use aws_sdk_dynamodb::{
    error::{BuildError, SdkError},
    operation::{
        RequestId,
        batch_execute_statement::{
            BatchExecuteStatementError, BatchExecuteStatementOutput, builders::BatchExecuteStatementInputBuilder,
        },
    },
    types::{
        AttributeValue, BatchStatementErrorCodeEnum as Code, BatchStatementRequest, BatchStatementResponse,
        ParameterizedStatement,
    },
};
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::{
    clock::Deadline,
    domain::{self, Item},
    dynamodb::{
        Store,
        client::error::{ErrorKind, ServiceError},
    },
};

const OPERATION: &str = "BatchExecuteStatement";
/// Code of a request that DynamoDB rejects.
const VALIDATION: &str = "ValidationException";
/// Maximum number of statements in a request, see
/// [`BatchExecuteStatement`](https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchExecuteStatement.html).
pub const MAX_STATEMENTS: usize = 25;
/// Maximum length of a statement. DynamoDB counts characters, DynamoDB Local counts bytes.
pub const MAX_STATEMENT_BYTES: usize = 8192;

/// Outcome of one statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inserted {
    /// The item was written.
    Recorded,
    /// The key is taken. The output does not include the stored item: `ReturnValuesOnConditionCheckFailure` applies only to
    /// `UPDATE` and `DELETE`.
    Taken,
    /// DynamoDB rejected the statement or the request.
    Rejected(ServiceError),
    /// The statement can be retried. The SDK retries requests, but not single statements.
    Retry(ServiceError),
    /// The statement failed with another error.
    Failed(ServiceError),
}

/// An item as a statement, with a parameter for each attribute.
#[derive(Debug)]
pub struct Insert<'a> {
    statement: String,
    parameters: Vec<&'a domain::AttributeValue>,
}

impl<'a> Insert<'a> {
    /// Returns `None` if the attribute names are too long for a statement. Neither names nor the whole item can be
    /// parameters.
    pub fn new(item: &'a Item, table: &str) -> Option<Self> {
        let mut attributes: Vec<_> = item.iter().collect();
        // Sorted, so that equal names have equal statements.
        attributes.sort_unstable_by_key(|(name, _)| *name);
        let mut statement = format!("INSERT INTO \"{}\" VALUE {{", table.replace('"', "\"\""));
        for (index, (name, _)) in attributes.iter().enumerate() {
            statement.push_str(if index == 0 { "'" } else { ", '" });
            for character in name.chars() {
                statement.push(character);
                if character == '\'' {
                    statement.push(character);
                }
            }
            statement.push_str("': ?");
            if statement.len() >= MAX_STATEMENT_BYTES {
                return None;
            }
        }
        statement.push('}');
        Some(Self {
            statement,
            parameters: attributes.into_iter().map(|(_, value)| value).collect(),
        })
    }

    /// Returns the statement for a transaction.
    pub(super) fn in_transaction(&self) -> Result<ParameterizedStatement, BuildError> {
        ParameterizedStatement::builder()
            .statement(&self.statement)
            .set_parameters(Some(self.values()))
            .build()
    }

    fn in_batch(&self) -> Result<BatchStatementRequest, BuildError> {
        BatchStatementRequest::builder()
            .statement(&self.statement)
            .set_parameters(Some(self.values()))
            .build()
    }

    fn values(&self) -> Vec<AttributeValue> {
        self.parameters.iter().map(|value| (*value).clone().into()).collect()
    }
}

impl Store {
    /// Inserts an item.
    pub(crate) async fn insert_one(&self, insert: &Insert<'_>) -> Inserted {
        let inserted = self.insert(&[insert]).await.pop();
        inserted.unwrap_or_else(|| Inserted::Failed(ServiceError::of_statement(OPERATION, "no response")))
    }

    /// Sends at most [`MAX_STATEMENTS`] statements for items with different keys, and returns the outcome of each.
    async fn insert(&self, inserts: &[&Insert<'_>]) -> Vec<Inserted> {
        match request(inserts) {
            Ok(request) => outcomes(inserts.len(), request.send_with(&self.client).await),
            Err(_) => vec![Inserted::Failed(ServiceError::not_built(OPERATION)); inserts.len()],
        }
    }

    /// Inserts items with different keys in one request, with as many attempts as the client's settings allow. Several
    /// statements of one item are a transaction, which must be alone. Returns the outcome of each item, `None` if the deadline
    /// passed before.
    pub(super) async fn insert_in_time(&self, items: &[&[Insert<'_>]], deadline: Deadline) -> Vec<Option<Inserted>> {
        let mut outcomes = vec![None; items.len()];
        let mut open: Vec<usize> = (0..items.len()).collect();
        for failures in 0..self.max_attempts() {
            if open.is_empty() {
                break;
            }
            if failures > 0 {
                sleep_until((Instant::now() + self.backoff(failures)).min(deadline.finish_by)).await;
            }
            if !deadline.allows_start() {
                break;
            }
            let send = async {
                match items {
                    [statements] if statements.len() > 1 => vec![self.insert_together(statements).await],
                    _ => {
                        let statements: Vec<_> = open.iter().flat_map(|index| items[*index]).collect();
                        self.insert(&statements).await
                    }
                }
            };
            let Ok(inserted) = timeout_at(deadline.finish_by, send).await else {
                break;
            };
            for (index, inserted) in open.iter().zip(inserted) {
                outcomes[*index] = Some(inserted);
            }
            open.retain(|index| matches!(outcomes[*index], Some(Inserted::Retry(_))));
        }
        outcomes
    }
}

/// Builds the request.
///
/// # Errors
///
/// Returns [`BuildError`] if the SDK rejects a statement.
pub(crate) fn request(inserts: &[&Insert<'_>]) -> Result<BatchExecuteStatementInputBuilder, BuildError> {
    let statements = inserts.iter().map(|insert| insert.in_batch());
    let statements = statements.collect::<Result<_, _>>()?;
    Ok(BatchExecuteStatementInputBuilder::default().set_statements(Some(statements)))
}

/// Returns the outcome of each statement of a request.
fn outcomes<R>(
    statements: usize,
    output: Result<BatchExecuteStatementOutput, SdkError<BatchExecuteStatementError, R>>,
) -> Vec<Inserted>
where
    R: std::fmt::Debug,
    SdkError<BatchExecuteStatementError, R>: RequestId,
{
    match output {
        Ok(output) => {
            let responses = output.responses();
            (0..statements).map(|index| outcome(responses.get(index))).collect()
        }
        Err(error) => {
            let error = ServiceError::new(OPERATION, &error);
            let each = match error.kind {
                ErrorKind::Rejected => Inserted::Rejected(ServiceError::of_statement(OPERATION, VALIDATION)),
                _ => Inserted::Failed(error),
            };
            vec![each; statements]
        }
    }
}

fn outcome(response: Option<&BatchStatementResponse>) -> Inserted {
    let Some(response) = response else {
        return Inserted::Failed(ServiceError::of_statement(OPERATION, "no response"));
    };
    let Some(error) = response.error() else {
        return Inserted::Recorded;
    };
    let code = error.code().map_or("an error without a code", Code::as_str);
    let of = |code| ServiceError::of_statement(OPERATION, code);
    match error.code() {
        Some(Code::DuplicateItem | Code::ConditionalCheckFailed) => Inserted::Taken,
        Some(Code::ValidationError | Code::ItemCollectionSizeLimitExceeded) => Inserted::Rejected(of(VALIDATION)),
        Some(
            Code::ProvisionedThroughputExceeded
            | Code::ThrottlingError
            | Code::RequestLimitExceeded
            | Code::TransactionConflict
            | Code::InternalServerError,
        ) => Inserted::Retry(of(code)),
        _ => Inserted::Failed(of(code)),
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::{
        config::http::HttpResponse,
        error::{ConnectorError, ErrorMetadata},
        types::BatchStatementError,
    };
    use serde_json::json;

    use super::*;
    use crate::domain::test_values::item;

    fn version(names: impl IntoIterator<Item = String>) -> Item {
        let mut version = json!({"PK": {"S": "E"}, "SK": {"S": "v7"}});
        for name in names {
            version[name] = json!({"S": ""});
        }
        item(version)
    }

    fn statement(names: &[&str], table: &str) -> String {
        let names = names.iter().map(|name| (*name).to_owned());
        Insert::new(&version(names), table).unwrap().statement
    }

    #[test]
    fn names_are_quoted() {
        for (names, table, expected) in [
            (&[][..], "Table", r#"INSERT INTO "Table" VALUE {'PK': ?, 'SK': ?}"#),
            (
                &["'"],
                "a.b-c_D",
                r#"INSERT INTO "a.b-c_D" VALUE {'''': ?, 'PK': ?, 'SK': ?}"#,
            ),
            (
                &["it's ''{}: ?\"\\", "b"],
                "x\"y",
                r#"INSERT INTO "x""y" VALUE {'PK': ?, 'SK': ?, 'b': ?, 'it''s ''''{}: ?"\': ?}"#,
            ),
        ] {
            assert_eq!(statement(names, table), expected);
        }
    }

    #[test]
    fn a_statement_is_no_longer_than_allowed() {
        let bare = statement(&["x"], "Table").len() - 1;
        for unit in ["x", "é", "'"] {
            let each = if unit == "'" { 2 } else { unit.len() };
            let most = (MAX_STATEMENT_BYTES - bare) / each;
            for (units, fits) in [(most, true), (most + 1, false), (60_000, false)] {
                let version = version([unit.repeat(units)]);
                let made = Insert::new(&version, "Table");
                assert_eq!(made.is_some(), fits, "{unit} {units}");
                assert!(made.is_none_or(|made| made.statement.len() <= MAX_STATEMENT_BYTES));
            }
        }
        let many = |count| version((0..count).map(|number| format!("a{number}")));
        assert!(Insert::new(&many(2000), "Table").is_none() && Insert::new(&many(290), "Table").is_some());
    }

    fn answered(codes: &[Option<&str>]) -> BatchExecuteStatementOutput {
        let response = |code: Option<&str>| {
            let error = BatchStatementError::builder().message("secret");
            let error = code.map(|code| match code {
                "" => error.build(),
                code => error.code(code.into()).build(),
            });
            BatchStatementResponse::builder().set_error(error).build()
        };
        let responses = codes.iter().copied().map(response).collect();
        let output = BatchExecuteStatementOutput::builder();
        output.set_responses(Some(responses)).build()
    }

    type Answer = Result<BatchExecuteStatementOutput, SdkError<BatchExecuteStatementError, HttpResponse>>;

    /// Returns the outcomes of two statements, such as `Retry Throttled`.
    fn shown(answer: Answer) -> Vec<String> {
        let shown = |inserted: Inserted| match inserted {
            Inserted::Recorded | Inserted::Taken => format!("{inserted:?}"),
            Inserted::Rejected(error) => format!("Rejected {:?}", error.kind),
            Inserted::Retry(error) => format!("Retry {:?}", error.kind),
            Inserted::Failed(error) => format!("Failed {:?}", error.kind),
        };
        let outcomes = outcomes(2, answer);
        assert!(!format!("{outcomes:?}").contains("secret"));
        outcomes.into_iter().map(shown).collect()
    }

    #[test]
    fn outcomes_of_statements() {
        for (code, expected) in [
            (None, "Recorded"),
            (Some("DuplicateItem"), "Taken"),
            (Some("ConditionalCheckFailed"), "Taken"),
            (Some("ValidationError"), "Rejected Rejected"),
            (Some("ItemCollectionSizeLimitExceeded"), "Rejected Rejected"),
            (Some("ProvisionedThroughputExceeded"), "Retry Throttled"),
            (Some("ThrottlingError"), "Retry Throttled"),
            (Some("RequestLimitExceeded"), "Retry Throttled"),
            (Some("TransactionConflict"), "Retry Throttled"),
            (Some("InternalServerError"), "Retry Unavailable"),
            (Some("ResourceNotFound"), "Failed Unavailable"),
            (Some("AccessDenied"), "Failed Unavailable"),
            (Some("Unheard"), "Failed Unavailable"),
            (Some(""), "Failed Unavailable"),
        ] {
            assert_eq!(shown(Ok(answered(&[None, code]))), ["Recorded", expected], "{code:?}");
        }
        // A statement without a response does not count as written.
        assert_eq!(shown(Ok(answered(&[None]))), ["Recorded", "Failed Unavailable"]);
    }

    #[test]
    fn outcomes_of_a_failed_request() {
        let refused = |code: &str| {
            let error = ErrorMetadata::builder().code(code).message("secret").build();
            let response = HttpResponse::new(400.try_into().unwrap(), "".into());
            SdkError::service_error(BatchExecuteStatementError::generic(error), response)
        };
        for (error, expected) in [
            (refused("ValidationException"), "Rejected Rejected"),
            (refused("ThrottlingException"), "Failed Throttled"),
            (refused("InternalServerError"), "Failed Unavailable"),
            (SdkError::timeout_error("late"), "Failed Unavailable"),
            (
                SdkError::dispatch_failure(ConnectorError::io("reset".into())),
                "Failed Unavailable",
            ),
        ] {
            assert_eq!(shown(Err(error)), [expected; 2]);
        }
    }
}
