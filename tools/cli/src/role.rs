//! Role of the caller, which the log of a sealed history keeps with each removal: `GetCallerIdentity` of STS.

use std::time::Duration;

use aws_sdk_sts::{Client, error::ProvideErrorMetadata as _};
use operations::{connection::Connection, error::OperationError, sealed::Record};
use shared::{config, dynamodb::client::error::root_cause};

use crate::{connection::is_this_machine, output};

const TIMEOUT: Duration = Duration::from_secs(5);
/// Variable of the SDK, which it reads itself.
const ENDPOINT: &str = "AWS_ENDPOINT_URL_STS";

/// Returns what the removal of versions has to record, `None` if they are not sealed.
pub(crate) async fn record(connection: &Connection, reason: Option<&str>) -> Result<Option<Record>, OperationError> {
    let record = Record::of(&connection.store, reason).await?;
    Ok(match record {
        Some(record) => Some(record.with_role(caller(connection).await)),
        None => None,
    })
}

/// Returns the ARN of the caller. Empty if STS does not tell it, and for a database on this machine, which accepts any credentials.
pub(crate) async fn caller(connection: &Connection) -> String {
    let endpoint = connection.endpoint_url.as_deref().or(connection.sdk.endpoint_url());
    if endpoint.is_some_and(is_this_machine) && config::variable(ENDPOINT).is_none() {
        return String::new();
    }
    let sent = Client::new(&connection.sdk).get_caller_identity().send();
    let reason = match tokio::time::timeout(TIMEOUT, sent).await {
        Ok(Ok(identity)) => return identity.arn.unwrap_or_default(),
        Ok(Err(error)) => error.code().map_or_else(|| root_cause(&error), str::to_owned),
        Err(_) => format!("no response within {} s", TIMEOUT.as_secs()),
    };
    output::note(&format!("the log keeps no role: GetCallerIdentity failed: {reason}"));
    String::new()
}
