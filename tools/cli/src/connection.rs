//! Connection to the table, with the width of its version keys, or the definition of an attached table.

use std::time::Duration;

use aws_config::{
    Region, SdkConfig,
    environment::{EnvironmentVariableCredentialsProvider, EnvironmentVariableRegionProvider},
    meta::{
        credentials::CredentialsProviderChain,
        region::{ProvideRegion as _, RegionProviderChain},
    },
    profile::{ProfileFileCredentialsProvider, ProfileFileRegionProvider},
    provider_config::ProviderConfig,
};
use aws_sdk_dynamodb::{
    Client,
    config::{Credentials, ProvideCredentials as _},
};
use history_console::hosts::Hosts;
use operations::{
    connection::Connection,
    tables::{self, Found},
};
use shared::{
    config,
    domain::keys::VersionDigits,
    dynamodb::{
        Store,
        client::{self, ClientSettings, capacity::Meter, error::root_cause, http_client},
    },
};

use crate::{error::CliError, globals::Globals, parameter};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Width {
    /// States have no version keys, and a table that does not exist has no width.
    Unused,
    Read,
    /// The command stores the width in a new table.
    Store,
    /// The same, and the table can have items of other programs.
    StoreBeside,
}

/// Opens the table of the global options, and returns whether it looks like a new one. `is_paced` is `true` if the command limits the
/// units that its requests consume.
pub(crate) async fn open(
    globals: &Globals,
    width: Width,
    is_paced: bool,
    sdk: SdkConfig,
) -> Result<(Connection, bool), CliError> {
    let (meter, pace_meter) = (Meter::default(), Meter::default());
    let mut config = aws_sdk_dynamodb::config::Builder::from(&sdk);
    if let Some(url) = &globals.endpoint_url {
        config = config.endpoint_url(url);
    }
    if globals.consumed_capacity {
        config = config.interceptor(meter.clone());
    }
    if is_paced {
        config = config.interceptor(pace_meter.clone());
    }
    let client = Client::from_conf(config.build());
    let (store, is_new) = match &globals.attached {
        Some(path) => {
            let name = path.display().to_string();
            let text = std::fs::read_to_string(path).map_err(|error| CliError::usage(&name, error))?;
            let table = attach::parse(&text).map_err(|error| CliError::usage(&name, error))?;
            (Store::attached(client.clone(), table), false)
        }
        None => store(globals, width, &client, &sdk).await?,
    };
    let store = store.with_compression(globals.history_compression.unwrap_or_default());
    let store = store.with_time_index(None);
    let connection = Connection {
        client,
        meter,
        pace_meter,
        table: store.latest_table().to_owned(),
        store,
        consistent: !globals.eventual,
        sdk,
        endpoint_url: globals.endpoint_url.clone(),
    };
    // Reading the width does not count as the command's own capacity.
    connection.clear_meters();
    Ok((connection, is_new))
}

/// Loads the configuration of all AWS clients. The Region and the credentials can be missing.
pub(crate) async fn sdk_config(globals: &Globals) -> Result<SdkConfig, CliError> {
    let defaults = ClientSettings {
        operation_timeout: Duration::from_secs(20),
        ..ClientSettings::default()
    };
    let mut settings = config::client_settings(defaults).map_err(|error| CliError::Usage(error.to_string()))?;
    if let Some(millis) = globals.attempt_timeout_ms {
        settings.attempt_timeout = Duration::from_millis(millis);
    }
    let mut loader = client::sdk_config(&settings);
    if let Some(profile) = &globals.profile {
        // The option takes precedence over the environment.
        // Roles and SSO need requests, so the provider needs the HTTP client.
        let credentials = ProfileFileCredentialsProvider::builder()
            .configure(&ProviderConfig::without_region().with_http_client(http_client()))
            .profile_name(profile)
            .build();
        let loaded = credentials.provide_credentials().await;
        loaded.map_err(|error| {
            let cause = Some(root_cause(&error)).filter(|cause| !cause.contains("not enabled"));
            let cause = cause.map_or_else(String::new, |cause| format!(" ({cause})"));
            CliError::Usage(format!(
                "--profile: there is no profile {profile}, or it has no credentials{cause}: `aws configure list-profiles` lists the \
                 profiles"
            ))
        })?;
        let region = ProfileFileRegionProvider::builder().profile_name(profile).build();
        let region = region.region().await;
        loader = loader.profile_name(profile).credentials_provider(credentials);
        if let Some(region) = region {
            loader = loader.region(region);
        }
    }
    let is_local = globals.endpoint_url.as_deref().is_some_and(is_this_machine);
    if globals.profile.is_none() && is_local {
        // A database on this machine accepts any credentials and Region.
        let credentials = EnvironmentVariableCredentialsProvider::new();
        let credentials = CredentialsProviderChain::first_try("environment", credentials);
        let credentials = credentials.or_else("local", Credentials::new("local", "local", None, None, "local"));
        let region = RegionProviderChain::first_try(EnvironmentVariableRegionProvider::new());
        let region = region.or_else(Region::from_static("us-east-1"));
        loader = loader.credentials_provider(credentials).region(region);
    }
    if let Some(region) = &globals.region {
        loader = loader.region(Region::new(region.clone()));
    }
    Ok(loader.load().await)
}

/// Returns `true` for the URL of `localhost` or of a loopback address.
pub(crate) fn is_this_machine(url: &str) -> bool {
    let address = url.split_once("://").map_or(url, |(_, address)| address);
    Hosts::default().allows(address.split('/').next().unwrap_or_default())
}

/// Reads the parameter of a table. A database on this machine has none, unless SSM has an endpoint.
pub(crate) async fn parameter(globals: &Globals, sdk: &SdkConfig, table: &str) -> Result<Option<String>, String> {
    let endpoint = globals.endpoint_url.as_deref().or(sdk.endpoint_url());
    let (is_local, endpoint) = (
        endpoint.is_some_and(is_this_machine),
        globals.ssm_endpoint_url.as_deref(),
    );
    match is_local && endpoint.is_none() {
        true => Ok(None),
        false => parameter::read(sdk, endpoint, table).await,
    }
}

/// Returns the table with its layout, or as an attached one, and `true` if it has no layout. A new table gets the width of the options
/// with its first write.
async fn store(globals: &Globals, width: Width, client: &Client, sdk: &SdkConfig) -> Result<(Store, bool), CliError> {
    let wanted = globals.version_digits;
    let new = Store::new(client.clone(), &globals.table, wanted.unwrap_or_default());
    if width == Width::Unused {
        return Ok((new, false));
    }
    let parameter = async |table: &str| parameter(globals, sdk, table).await;
    let (stored, history) = match tables::found(&new, globals.history_table.as_deref(), parameter).await? {
        Found::Attached(table) => return Ok((new.with_attached(table), false)),
        Found::Versioned(layout) => (layout.digits, layout.history),
        Found::New if width != Width::Read => {
            if width == Width::Store {
                tables::check_new(&new).await?;
            }
            return Ok(new.claim_layout().await.map(|()| (new, false))?);
        }
        Found::New => {
            if new.digits() != VersionDigits::default() {
                new.check_keys(&new.first_keys().await?)?;
            }
            return Ok((new, true));
        }
    };
    match wanted {
        Some(requested) if requested != stored => Err(new.width_error(stored).into()),
        _ => Ok((
            Store::new(client.clone(), &globals.table, stored).with_history(history),
            false,
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_of_this_machine_need_no_credentials() {
        let own = "http://127.0.0.1:8000 http://127.34.5.6:8000/ http://localhost:8000 http://[::1]:8000 localhost";
        let others = "http://127.0.0.1.example:8000 http://localhost.example http://10.0.0.1:8000 https://dynamodb.eu-central-1.amazonaws.com";
        assert!(own.split(' ').all(is_this_machine));
        assert!(!others.split(' ').any(is_this_machine));
    }
}
