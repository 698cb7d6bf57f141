//! Up to 25 version items in one request: `BatchExecuteStatement`, an `INSERT` of `PartiQL` each. An `INSERT` never overwrites:
//! where the key has an item, it fails with `DuplicateItem`, and the others of its request go on.

use aws_sdk_dynamodb::{
    error::{BuildError, SdkError},
    operation::{
        RequestId,
        batch_execute_statement::{
            BatchExecuteStatementError, BatchExecuteStatementOutput, builders::BatchExecuteStatementInputBuilder,
        },
    },
    types::{BatchStatementError, BatchStatementErrorCodeEnum as Code, BatchStatementRequest, BatchStatementResponse},
};

use crate::{
    domain::{self, version_item::VersionItem},
    dynamodb::{
        Store,
        client::error::{ErrorKind, ServiceError},
    },
};

const OPERATION: &str = "BatchExecuteStatement";
/// The most statements of one request.
pub const MAX_STATEMENTS: usize = 25;
/// The longest statement. DynamoDB counts characters, and Amazon's DynamoDB Local bytes.
pub const MAX_STATEMENT_BYTES: usize = 8192;

/// What became of one statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inserted {
    /// The item is written.
    Recorded,
    /// There is an item under its key. The answer does not bring it: `ReturnValuesOnConditionCheckFailure` is for
    /// `UPDATE` and `DELETE` alone.
    Taken,
    /// The statement was not accepted, or its whole request was not.
    Refused,
    /// It may do better when it is sent again. The SDK sends requests again, and never single statements.
    Again(ServiceError),
    /// All else.
    Failed(ServiceError),
}

/// A version item as a statement, with a parameter for each attribute.
#[derive(Debug)]
pub struct Insert<'a> {
    statement: String,
    parameters: Vec<&'a domain::AttributeValue>,
}

impl<'a> Insert<'a> {
    /// `None` where the names of its attributes are too long for a statement. They cannot be parameters, and neither can
    /// the item as a whole.
    pub fn new(version: &'a VersionItem, table: &str) -> Option<Self> {
        let mut attributes: Vec<_> = version.item().iter().collect();
        // In an order of their own, so that the same names are the same text each time.
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

    fn request(&self) -> Result<BatchStatementRequest, BuildError> {
        let parameters = self.parameters.iter().map(|value| (*value).clone().into());
        BatchStatementRequest::builder()
            .statement(&self.statement)
            .set_parameters(Some(parameters.collect()))
            .build()
    }
}

impl Store {
    /// Sends statements for items with different keys, at most [`MAX_STATEMENTS`], and says what became of each.
    pub(crate) async fn insert(&self, inserts: &[&Insert<'_>]) -> Vec<Inserted> {
        match request(inserts) {
            Ok(request) => outcomes(inserts.len(), request.send_with(&self.client).await),
            Err(_) => vec![Inserted::Failed(ServiceError::not_built(OPERATION)); inserts.len()],
        }
    }
}

/// The request.
pub fn request(inserts: &[&Insert<'_>]) -> Result<BatchExecuteStatementInputBuilder, BuildError> {
    let statements = inserts.iter().map(|insert| insert.request());
    let statements = statements.collect::<Result<_, _>>()?;
    Ok(BatchExecuteStatementInputBuilder::default().set_statements(Some(statements)))
}

/// What the answer to a request of so many statements means for each.
pub fn outcomes<R>(
    statements: usize,
    answer: Result<BatchExecuteStatementOutput, SdkError<BatchExecuteStatementError, R>>,
) -> Vec<Inserted>
where
    R: std::fmt::Debug,
    SdkError<BatchExecuteStatementError, R>: RequestId,
{
    match answer {
        Ok(output) => {
            let responses = output.responses();
            (0..statements).map(|index| outcome(responses.get(index))).collect()
        }
        Err(error) => {
            let error = ServiceError::new(OPERATION, &error);
            let each = match error.kind {
                ErrorKind::Rejected => Inserted::Refused,
                _ => Inserted::Failed(error),
            };
            vec![each; statements]
        }
    }
}

fn outcome(response: Option<&BatchStatementResponse>) -> Inserted {
    let Some(response) = response else {
        return Inserted::Failed(ServiceError::of_statement(OPERATION, "no answer"));
    };
    let Some(error) = response.error() else {
        return Inserted::Recorded;
    };
    let code = error.code().map_or("an error without a code", Code::as_str);
    match error.code() {
        Some(Code::DuplicateItem | Code::ConditionalCheckFailed) => Inserted::Taken,
        Some(Code::ValidationError | Code::ItemCollectionSizeLimitExceeded) => Inserted::Refused,
        _ if may_pass(error) => Inserted::Again(ServiceError::of_statement(OPERATION, code)),
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
    use crate::domain::keys::VersionDigits;

    fn version(names: &[String]) -> VersionItem {
        let mut image = json!({"PK": {"S": "E"}, "SK": {"S": "v0"}, "Latest": {"N": "7"}});
        for name in names {
            image[name] = json!({"S": ""});
        }
        VersionItem::from_image(serde_json::from_value(image).unwrap(), VersionDigits::default()).unwrap()
    }

    fn statement(names: &[&str], table: &str) -> String {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        Insert::new(&version(&names), table).unwrap().statement
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
                let made = Insert::new(&version, "Table");
                assert_eq!(made.is_some(), fits, "{unit} {units}");
                assert!(made.is_none_or(|made| made.statement.len() <= MAX_STATEMENT_BYTES));
            }
        }
        let many: Vec<_> = (0..2000).map(|number| format!("a{number}")).collect();
        assert!(Insert::new(&version(&many), "Table").is_none());
        assert!(Insert::new(&version(&many[..290]), "Table").is_some());
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
            Inserted::Refused => ("refused", None),
            Inserted::Again(error) => ("again", Some(error.kind)),
            Inserted::Failed(error) => ("failed", Some(error.kind)),
        }
    }

    #[test]
    fn what_an_answer_means_for_each_statement() {
        use ErrorKind::{Throttled, Unavailable};
        for (code, expected) in [
            (None, ("recorded", None)),
            (Some("DuplicateItem"), ("taken", None)),
            (Some("ConditionalCheckFailed"), ("taken", None)),
            (Some("ValidationError"), ("refused", None)),
            (Some("ItemCollectionSizeLimitExceeded"), ("refused", None)),
            (Some("ProvisionedThroughputExceeded"), ("again", Some(Throttled))),
            (Some("ThrottlingError"), ("again", Some(Throttled))),
            (Some("RequestLimitExceeded"), ("again", Some(Throttled))),
            (Some("TransactionConflict"), ("again", Some(Throttled))),
            (Some("InternalServerError"), ("again", Some(Unavailable))),
            (Some("ResourceNotFound"), ("failed", Some(Unavailable))),
            (Some("AccessDenied"), ("failed", Some(Unavailable))),
            (Some("Unheard"), ("failed", Some(Unavailable))),
            (Some(""), ("failed", Some(Unavailable))),
        ] {
            let answer: Answer = Ok(answered(&[None, code, None]));
            let outcomes = outcomes(3, answer);
            assert_eq!(outcomes.iter().map(kind).collect::<Vec<_>>()[1], expected, "{code:?}");
            assert_eq!((&outcomes[0], &outcomes[2]), (&Inserted::Recorded, &Inserted::Recorded));
            assert!(!format!("{outcomes:?}").contains("secret"));
        }
        // Nothing is taken for written that no answer says so of.
        let answer: Answer = Ok(answered(&[None]));
        let outcomes = outcomes(2, answer);
        let kinds: Vec<_> = outcomes.iter().map(kind).collect();
        assert_eq!(kinds, [("recorded", None), ("failed", Some(Unavailable))]);
    }

    #[test]
    fn what_the_failure_of_a_request_means_for_each_statement() {
        let refused = |code: &str| {
            let error =
                BatchExecuteStatementError::generic(ErrorMetadata::builder().code(code).message("secret").build());
            SdkError::service_error(error, HttpResponse::new(400.try_into().unwrap(), "".into()))
        };
        for (error, expected) in [
            (refused("ValidationException"), ("refused", None)),
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
            let answer: Answer = Err(error);
            let outcomes = outcomes(2, answer);
            assert_eq!(outcomes.iter().map(kind).collect::<Vec<_>>(), [expected; 2]);
            assert!(!format!("{outcomes:?}").contains("secret"));
        }
    }
}
