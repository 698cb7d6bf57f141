//! Parameter of SSM Parameter Store with the definition of an attached table, which the attach template writes: `GetParameter`.

use std::time::Duration;

use aws_config::SdkConfig;
use aws_sdk_ssm::{Client, config::Builder, error::ProvideErrorMetadata as _};
use shared::dynamodb::client::error::root_cause;

const TIMEOUT: Duration = Duration::from_secs(5);

/// Reads the parameter of a table, at AWS without an endpoint. `None` if there is no such parameter. The error is the reason, in one line.
pub(crate) async fn read(sdk: &SdkConfig, endpoint_url: Option<&str>, table: &str) -> Result<Option<String>, String> {
    let name = format!("/vzero/attached/{table}");
    let unreadable = |reason: &str| format!("the parameter {name} cannot be read: {reason}");
    let mut config = Builder::from(sdk);
    if let Some(url) = endpoint_url {
        config = config.endpoint_url(url);
    }
    let sent = Client::from_conf(config.build()).get_parameter().name(&name).send();
    let output = tokio::time::timeout(TIMEOUT, sent).await;
    match output.map_err(|_| unreadable(&format!("no response within {} s", TIMEOUT.as_secs())))? {
        Ok(output) => Ok(output.parameter.and_then(|parameter| parameter.value)),
        Err(error) => match error.code() {
            Some("ParameterNotFound") => Ok(None),
            Some(code) => Err(unreadable(code)),
            None => Err(unreadable(&root_cause(&error))),
        },
    }
}
