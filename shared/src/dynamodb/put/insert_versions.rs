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
        BatchStatementError, BatchStatementErrorCodeEnum as Code, BatchStatementRequest, BatchStatementResponse,
        ParameterizedStatement,
    },
};

use crate::{
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

/// Outcome of one statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inserted {
    /// The item was written.
    Recorded,
    /// The key is taken. The output does not include the stored item: `ReturnValuesOnConditionCheckFailure` applies only to
    /// `UPDATE` and `DELETE`.
    Taken,
    /// DynamoDB rejected the statement or the request.
    Rejected,
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
    pub(crate) fn in_transaction(&self) -> Result<ParameterizedStatement, BuildError> {
        let parameters = self.parameters.iter().map(|value| (*value).clone().into());
        ParameterizedStatement::builder()
            .statement(&self.statement)
            .set_parameters(Some(parameters.collect()))
            .build()
    }

    fn request(&self) -> Result<BatchStatementRequest, BuildError> {
        let parameters = self.parameters.iter().map(|value| (*value).clone().into());
        BatchStatementRequest::builder()
            .statement(&self.statement)
            .set_parameters(Some(parameters.collect()))
            .build()
    }
}

impl Store {
    /// Sends at most [`MAX_STATEMENTS`] statements for items with different keys, and returns the outcome of each.
    pub(crate) async fn insert(&self, inserts: &[&Insert<'_>]) -> Vec<Inserted> {
        match request(inserts) {
            Ok(request) => outcomes(inserts.len(), request.send_with(&self.client).await),
            Err(_) => vec![Inserted::Failed(ServiceError::not_built(OPERATION)); inserts.len()],
        }
    }
}

/// Builds the request.
///
/// # Errors
///
/// Returns [`BuildError`] if the SDK rejects a statement.
pub fn request(inserts: &[&Insert<'_>]) -> Result<BatchExecuteStatementInputBuilder, BuildError> {
    let statements = inserts.iter().map(|insert| insert.request());
    let statements = statements.collect::<Result<_, _>>()?;
    Ok(BatchExecuteStatementInputBuilder::default().set_statements(Some(statements)))
}

/// Returns the outcome of each statement of a request.
pub fn outcomes<R>(
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
                ErrorKind::Rejected => Inserted::Rejected,
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
    match error.code() {
        Some(Code::DuplicateItem | Code::ConditionalCheckFailed) => Inserted::Taken,
        Some(Code::ValidationError | Code::ItemCollectionSizeLimitExceeded) => Inserted::Rejected,
        _ if may_pass(error) => Inserted::Retry(ServiceError::of_statement(OPERATION, code)),
        _ => Inserted::Failed(ServiceError::of_statement(OPERATION, code)),
    }
}

fn may_pass(error: &BatchStatementError) -> bool {
    matches!(
        error.code(),
        Some(
            Code::ProvisionedThroughputExceeded
                | Code::ThrottlingError
                | Code::RequestLimitExceeded
                | Code::TransactionConflict
                | Code::InternalServerError
        )
    )
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::{
        config::http::HttpResponse,
        error::{ConnectorError, ErrorMetadata},
    };
    use serde_json::json;

    use super::*;
    use crate::domain::{keys::VersionDigits, version_item::VersionItem};

    fn version(names: &[String]) -> VersionItem {
        let mut image = json!({"PK": {"S": "E"}, "SK": {"S": "v0"}, "Latest": {"N": "7"}});
        for name in names {
            image[name] = json!({"S": ""});
        }
        VersionItem::from_image(serde_json::from_value(image).unwrap(), VersionDigits::default()).unwrap()
    }

    fn statement(names: &[&str], table: &str) -> String {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        Insert::new(version(&names).item(), table).unwrap().statement
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
            for (units, fits) in [
                ((MAX_STATEMENT_BYTES - bare) / each, true),
                ((MAX_STATEMENT_BYTES - bare) / each + 1, false),
                (60_000, false),
            ] {
                let version = version(&[unit.repeat(units)]);
                let made = Insert::new(version.item(), "Table");
                assert_eq!(made.is_some(), fits, "{unit} {units}");
                assert!(made.is_none_or(|made| made.statement.len() <= MAX_STATEMENT_BYTES));
            }
        }
        let many: Vec<_> = (0..2000).map(|number| format!("a{number}")).collect();
        assert!(Insert::new(version(&many).item(), "Table").is_none());
        assert!(Insert::new(version(&many[..290]).item(), "Table").is_some());
    }

    fn answered(codes: &[Option<&str>]) -> BatchExecuteStatementOutput {
        let response = |code: Option<&str>| {
            let error = code.map(|code| match code {
                "" => BatchStatementError::builder().build(),
                code => BatchStatementError::builder()
                    .code(code.into())
                    .message("secret")
                    .build(),
            });
            BatchStatementResponse::builder().set_error(error).build()
        };
        let responses = codes.iter().copied().map(response).collect();
        BatchExecuteStatementOutput::builder()
            .set_responses(Some(responses))
            .build()
    }

    type Answer = Result<BatchExecuteStatementOutput, SdkError<BatchExecuteStatementError, HttpResponse>>;

    fn kind(inserted: &Inserted) -> (&'static str, Option<ErrorKind>) {
        match inserted {
            Inserted::Recorded => ("recorded", None),
            Inserted::Taken => ("taken", None),
            Inserted::Rejected => ("rejected", None),
            Inserted::Retry(error) => ("retry", Some(error.kind)),
            Inserted::Failed(error) => ("failed", Some(error.kind)),
        }
    }

    #[test]
    fn outcomes_of_statements() {
        use ErrorKind::{Throttled, Unavailable};
        for (code, expected) in [
            (None, ("recorded", None)),
            (Some("DuplicateItem"), ("taken", None)),
            (Some("ConditionalCheckFailed"), ("taken", None)),
            (Some("ValidationError"), ("rejected", None)),
            (Some("ItemCollectionSizeLimitExceeded"), ("rejected", None)),
            (Some("ProvisionedThroughputExceeded"), ("retry", Some(Throttled))),
            (Some("ThrottlingError"), ("retry", Some(Throttled))),
            (Some("RequestLimitExceeded"), ("retry", Some(Throttled))),
            (Some("TransactionConflict"), ("retry", Some(Throttled))),
            (Some("InternalServerError"), ("retry", Some(Unavailable))),
            (Some("ResourceNotFound"), ("failed", Some(Unavailable))),
            (Some("AccessDenied"), ("failed", Some(Unavailable))),
            (Some("Unheard"), ("failed", Some(Unavailable))),
            (Some(""), ("failed", Some(Unavailable))),
        ] {
            let output: Answer = Ok(answered(&[None, code, None]));
            let outcomes = outcomes(3, output);
            assert_eq!(outcomes.iter().map(kind).collect::<Vec<_>>()[1], expected, "{code:?}");
            assert_eq!((&outcomes[0], &outcomes[2]), (&Inserted::Recorded, &Inserted::Recorded));
            assert!(!format!("{outcomes:?}").contains("secret"));
        }
        // A statement without a response does not count as written.
        let output: Answer = Ok(answered(&[None]));
        let outcomes = outcomes(2, output);
        let kinds: Vec<_> = outcomes.iter().map(kind).collect();
        assert_eq!(kinds, [("recorded", None), ("failed", Some(Unavailable))]);
    }

    #[test]
    fn outcomes_of_a_failed_request() {
        let refused = |code: &str| {
            let error =
                BatchExecuteStatementError::generic(ErrorMetadata::builder().code(code).message("secret").build());
            SdkError::service_error(error, HttpResponse::new(400.try_into().unwrap(), "".into()))
        };
        for (error, expected) in [
            (refused("ValidationException"), ("rejected", None)),
            (refused("ThrottlingException"), ("failed", Some(ErrorKind::Throttled))),
            (refused("InternalServerError"), ("failed", Some(ErrorKind::Unavailable))),
            (
                SdkError::timeout_error("late"),
                ("failed", Some(ErrorKind::Unavailable)),
            ),
            (
                SdkError::dispatch_failure(ConnectorError::io("reset".into())),
                ("failed", Some(ErrorKind::Unavailable)),
            ),
        ] {
            let output: Answer = Err(error);
            let outcomes = outcomes(2, output);
            assert_eq!(outcomes.iter().map(kind).collect::<Vec<_>>(), [expected; 2]);
            assert!(!format!("{outcomes:?}").contains("secret"));
        }
    }
}
