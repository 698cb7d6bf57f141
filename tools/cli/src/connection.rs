//! Connection to the table, and the width of its version keys.

use std::{path::Path, time::Duration};

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
use operations::{connection::Connection, read::scan_items::is_empty};
use shared::{
    config,
    domain::{attached::AttachedTable, keys::VersionDigits},
    dynamodb::{
        Store,
        client::{self, ClientSettings, capacity::Meter, error::root_cause, http_client},
        read::layout_error::LayoutError,
    },
};

use crate::{error::CliError, globals::Globals};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Needs {
    pub(crate) paced: bool,
    pub(crate) width: Width,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Width {
    /// States have no version keys, and a table that does not exist has no width.
    Unused,
    Read,
    /// The command stores the width in a new table.
    Store,
}

/// Opens the table of the global options.
pub(crate) async fn open(globals: &Globals, needs: Needs, sdk: SdkConfig) -> Result<Connection, CliError> {
    let meter = Meter::default();
    let pace_meter = Meter::default();
    let client = client(globals, needs.paced, &sdk, &meter, &pace_meter);
    let attached = globals.attached.as_deref().map(definition).transpose()?;
    let store = match attached {
        Some(table) => Store::attached(client.clone(), table),
        None => store(globals, needs.width, &client).await?,
    };
    let store = store.with_compression(globals.history_compression.unwrap_or_default());
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
    Ok(connection)
}

/// Reads the definition of an attached table.
fn definition(path: &Path) -> Result<AttachedTable, CliError> {
    let text = std::fs::read_to_string(path).map_err(|error| CliError::usage(&path.display().to_string(), error))?;
    operations::attached::parse(&text).map_err(|error| CliError::usage(&path.display().to_string(), error))
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
    if globals.profile.is_none() && globals.endpoint_url.as_deref().is_some_and(is_this_machine) {
        // A database on this machine accepts any credentials and Region.
        let credentials =
            CredentialsProviderChain::first_try("environment", EnvironmentVariableCredentialsProvider::new());
        let region = RegionProviderChain::first_try(EnvironmentVariableRegionProvider::new());
        loader = loader
            .credentials_provider(credentials.or_else("local", Credentials::new("local", "local", None, None, "local")))
            .region(region.or_else(Region::from_static("us-east-1")));
    }
    if let Some(region) = &globals.region {
        loader = loader.region(Region::new(region.clone()));
    }
    Ok(loader.load().await)
}

fn client(globals: &Globals, paced: bool, sdk: &SdkConfig, meter: &Meter, pace_meter: &Meter) -> Client {
    let mut config = aws_sdk_dynamodb::config::Builder::from(sdk);
    if let Some(url) = &globals.endpoint_url {
        config = config.endpoint_url(url);
    }
    if globals.consumed_capacity {
        config = config.interceptor(meter.clone());
    }
    if paced {
        config = config.interceptor(pace_meter.clone());
    }
    Client::from_conf(config.build())
}

/// Returns `true` for the URL of `localhost` or of a loopback address.
pub(crate) fn is_this_machine(url: &str) -> bool {
    let address = url.split_once("://").map_or(url, |(_, address)| address);
    Hosts::default().allows(address.split('/').next().unwrap_or_default())
}

/// Returns the table with the layout that it was created with. A new table gets the width of the options with its first write.
async fn store(globals: &Globals, width: Width, client: &Client) -> Result<Store, CliError> {
    let wanted = globals.version_digits;
    let store = |digits| Store::new(client.clone(), &globals.table, digits);
    let new = store(wanted.unwrap_or_default());
    if width == Width::Unused {
        return Ok(new);
    }
    let stored = new.stored_layout().await?;
    if let Some(kept) = stored.digits {
        return match wanted {
            Some(wanted) if wanted != kept => Err(LayoutError::Width {
                stored: kept,
                requested: wanted,
            }
            .into()),
            _ => Ok(store(kept).with_history(stored.history)),
        };
    }
    // A table with items but without a stored width has the default width.
    let default = VersionDigits::default();
    if width == Width::Store {
        new.claim_layout().await?;
    } else if new.digits() != default && !is_empty(&new).await? {
        return Err(LayoutError::Width {
            stored: default,
            requested: new.digits(),
        }
        .into());
    }
    Ok(new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_of_this_machine_need_no_credentials() {
        for (url, is_own) in [
            ("http://127.0.0.1:8000", true),
            ("http://127.34.5.6:8000/", true),
            ("http://localhost:8000", true),
            ("http://[::1]:8000", true),
            ("localhost", true),
            ("http://127.0.0.1.example:8000", false),
            ("http://localhost.example", false),
            ("https://dynamodb.eu-central-1.amazonaws.com", false),
            ("http://10.0.0.1:8000", false),
        ] {
            assert_eq!(is_this_machine(url), is_own, "{url}");
        }
    }
}
