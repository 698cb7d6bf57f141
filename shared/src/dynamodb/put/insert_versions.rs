//! Inserts up to 25 version items in one request: `BatchExecuteStatement` with one `PartiQL` `INSERT` per item. An `INSERT`
//! never overwrites: if the key is taken, it fails with `DuplicateItem`, and the other statements are not affected.

use aws_sdk_dynamodb::{
    error::BuildError,
    operation::batch_execute_statement::builders::BatchExecuteStatementInputBuilder,
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
/// Maximum number of statements in a request, see
/// [`BatchExecuteStatement`](https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchExecuteStatement.html).
pub const MAX_STATEMENTS: usize = 25;
/// Maximum length of a statement. DynamoDB counts characters, DynamoDB Local counts bytes.
pub const MAX_STATEMENT_BYTES: usize = 8192;

/// Outcome of one statement: `true` if the item was written, `false` if its key is taken. The output does not include the stored item:
/// `ReturnValuesOnConditionCheckFailure` applies only to `UPDATE` and `DELETE`.
pub type Inserted = Result<bool, ServiceError>;

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
    /// Inserts an item into a table. Returns `false` if its key is taken.
    pub(crate) async fn insert_one(&self, item: &Item, table: &str) -> Inserted {
        let insert = Insert::new(item, table).ok_or_else(|| ServiceError::not_built(OPERATION))?;
        self.insert(&[&insert]).await?.pop().unwrap_or_else(|| outcome(None))
    }

    /// Sends at most [`MAX_STATEMENTS`] statements for items with different keys, and returns the outcome of each.
    async fn insert(&self, inserts: &[&Insert<'_>]) -> Result<Vec<Inserted>, ServiceError> {
        let request = request(inserts).map_err(|_| ServiceError::not_built(OPERATION))?;
        let output = request.send_with(&self.client).await;
        let output = output.map_err(|error| ServiceError::new(OPERATION, &error))?;
        let responses = output.responses();
        Ok((0..inserts.len()).map(|index| outcome(responses.get(index))).collect())
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
                    [statements] if statements.len() > 1 => Ok(vec![self.insert_together(statements).await?]),
                    _ => {
                        let statements: Vec<_> = open.iter().flat_map(|index| items[*index]).collect();
                        self.insert(&statements).await
                    }
                }
            };
            let inserted = match timeout_at(deadline.finish_by, send).await {
                Ok(Ok(inserted)) => inserted,
                Ok(Err(error)) => {
                    for index in open {
                        outcomes[index] = Some(Err(error.clone()));
                    }
                    break;
                }
                Err(_) => break,
            };
            for (index, inserted) in open.iter().zip(inserted) {
                outcomes[*index] = Some(inserted);
            }
            open.retain(|index| matches!(&outcomes[*index], Some(Err(error)) if is_transient(error)));
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

fn outcome(response: Option<&BatchStatementResponse>) -> Inserted {
    let failed = |code| Err(ServiceError::of_statement(OPERATION, code));
    match response.map(BatchStatementResponse::error) {
        None => failed("no response"),
        Some(None) => Ok(true),
        Some(Some(error)) => match error.code() {
            Some(Code::DuplicateItem | Code::ConditionalCheckFailed) => Ok(false),
            code => failed(code.map_or("an error without a code", Code::as_str)),
        },
    }
}

/// Returns `true` if a statement or a transaction can be retried. The SDK retries requests, but not these.
fn is_transient(error: &ServiceError) -> bool {
    let code = error.code.as_deref();
    match error.kind {
        ErrorKind::Throttled => true,
        ErrorKind::Unavailable => matches!(code, Some("InternalServerError" | "TransactionCanceledException")),
        ErrorKind::Rejected => false,
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::types::BatchStatementError;
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

    #[test]
    fn outcomes_of_statements() {
        for (code, expected) in [
            (None, "true"),
            (Some("DuplicateItem"), "false"),
            (Some("ConditionalCheckFailed"), "false"),
            (Some("ValidationError"), "Rejected"),
            (Some("ItemCollectionSizeLimitExceeded"), "Rejected"),
            (Some("ProvisionedThroughputExceeded"), "Throttled, again"),
            (Some("ThrottlingError"), "Throttled, again"),
            (Some("RequestLimitExceeded"), "Throttled, again"),
            (Some("TransactionConflict"), "Throttled, again"),
            (Some("InternalServerError"), "Unavailable, again"),
            (Some("ResourceNotFound"), "Unavailable"),
            (Some("AccessDenied"), "Unavailable"),
            (Some("Unheard"), "Unavailable"),
            (Some(""), "Unavailable"),
        ] {
            let error = |code: &str| {
                let code = Some(code).filter(|code| !code.is_empty()).map(Code::from);
                BatchStatementError::builder().message("secret").set_code(code).build()
            };
            let response = BatchStatementResponse::builder().set_error(code.map(error)).build();
            let inserted = outcome(Some(&response));
            assert!(!format!("{inserted:?}").contains("secret"));
            let shown = inserted.map_or_else(
                |error| format!("{:?}{}", error.kind, if is_transient(&error) { ", again" } else { "" }),
                |is_new| is_new.to_string(),
            );
            assert_eq!(shown, expected, "{code:?}");
        }
        // A statement without a response does not count as written.
        assert!(outcome(None).is_err());
    }
}
