//! The table, and the width of its version keys.

use std::time::Duration;

use aws_config::{
    BehaviorVersion, Region, SdkConfig,
    environment::{EnvironmentVariableCredentialsProvider, EnvironmentVariableRegionProvider},
    meta::{
        credentials::CredentialsProviderChain,
        region::{ProvideRegion as _, RegionProviderChain},
    },
    profile::{ProfileFileCredentialsProvider, ProfileFileRegionProvider},
};
use aws_sdk_dynamodb::{
    Client,
    config::{Credentials, ProvideCredentials as _},
};
use shared::{
    domain::{entity::EntityId, keys::VersionDigits},
    dynamodb::{
        Store,
        client::{capacity::Meter, retries, timeouts},
        read::table_config::WidthError,
    },
};

use crate::{
    args::{Args, Command},
    error::CliError,
};

/// A table that can be worked on.
#[derive(Clone)]
pub(crate) struct Connection {
    /// With the width that the table was begun with.
    pub(crate) store: Store,
    /// The same, for patterns that have no version keys.
    pub(crate) client: Client,
    /// What the command's own requests consume.
    pub(crate) meter: Meter,
    /// The same again, for the pace of a long command.
    pub(crate) pace_meter: Meter,
    /// The name of the table.
    pub(crate) table: String,
    /// Whether what was written before is sure to be read.
    pub(crate) consistent: bool,
    /// Credentials, Region and waiting, for clients of other services.
    pub(crate) sdk: SdkConfig,
    /// Where DynamoDB and its streams are, if not at AWS.
    pub(crate) endpoint_url: Option<String>,
}

impl Connection {
    pub(crate) async fn open(args: &Args) -> Result<Self, CliError> {
        let meter = Meter::default();
        let pace_meter = Meter::default();
        let sdk = sdk_config(args).await?;
        let client = client(args, &sdk, &meter, &pace_meter);
        let digits = match &args.command {
            // States have no version keys.
            Command::State(_) => VersionDigits::default(),
            _ => width(args, &client).await?,
        };
        // What it took to find the width is not what the command costs.
        meter.take();
        pace_meter.take();
        Ok(Self {
            store: Store::new(client.clone(), &args.table, digits),
            client,
            meter,
            pace_meter,
            table: args.table.clone(),
            consistent: !args.eventual,
            sdk,
            endpoint_url: args.endpoint_url.clone(),
        })
    }
}

impl Connection {
    /// A table whose width is known, by a way that is known.
    pub(crate) fn of(client: &Client, sdk: SdkConfig, endpoint_url: &str, table: &str, digits: VersionDigits) -> Self {
        let pace_meter = Meter::default();
        let config = client.config().to_builder().interceptor(pace_meter.clone());
        let client = Client::from_conf(config.build());
        Self {
            store: Store::new(client.clone(), table, digits),
            client,
            meter: Meter::default(),
            pace_meter,
            table: table.to_owned(),
            consistent: true,
            sdk,
            endpoint_url: Some(endpoint_url.to_owned()),
        }
    }
}

impl Connection {
    /// The same table, and what the requests to it by this way alone consume.
    pub(crate) fn metered(&self) -> (Store, Meter) {
        let meter = Meter::default();
        let config = self.client.config().to_builder().interceptor(meter.clone()).build();
        let store = Store::new(Client::from_conf(config), &self.table, self.store.digits());
        (store, meter)
    }

    /// Forgets what was consumed, where nobody asks: what goes on for days would keep all of it.
    pub(crate) fn forget_charges(&self) {
        self.meter.take();
        self.pace_meter.take();
    }
}

/// An entity by what the user called it.
pub(crate) fn entity(id: &str) -> Result<EntityId, CliError> {
    EntityId::new(id).map_err(|error| CliError::usage("the entity", error))
}

async fn sdk_config(args: &Args) -> Result<SdkConfig, CliError> {
    let mut loader = aws_config::defaults(BehaviorVersion::v2026_01_12())
        .timeout_config(
            timeouts()
                .to_builder()
                .operation_timeout(Duration::from_secs(20))
                .build(),
        )
        .retry_config(retries());
    if let Some(profile) = &args.profile {
        // What is asked for goes before what the environment says.
        let credentials = ProfileFileCredentialsProvider::builder().profile_name(profile).build();
        let loaded = credentials.provide_credentials().await;
        loaded.map_err(|error| CliError::usage(&format!("the profile {profile}"), error))?;
        let region = ProfileFileRegionProvider::builder().profile_name(profile).build();
        let region = region.region().await;
        loader = loader.profile_name(profile).credentials_provider(credentials);
        if let Some(region) = region {
            loader = loader.region(region);
        }
    }
    if args.profile.is_none() && args.endpoint_url.as_deref().is_some_and(is_this_machine) {
        // A database on this machine takes any credentials and Region, so none need be set up.
        let credentials =
            CredentialsProviderChain::first_try("environment", EnvironmentVariableCredentialsProvider::new());
        let region = RegionProviderChain::first_try(EnvironmentVariableRegionProvider::new());
        loader = loader
            .credentials_provider(credentials.or_else("local", Credentials::new("local", "local", None, None, "local")))
            .region(region.or_else(Region::from_static("us-east-1")));
    }
    if let Some(region) = &args.region {
        loader = loader.region(Region::new(region.clone()));
    }
    Ok(loader.load().await)
}

fn client(args: &Args, sdk: &SdkConfig, meter: &Meter, pace_meter: &Meter) -> Client {
    let mut config = aws_sdk_dynamodb::config::Builder::from(sdk);
    if let Some(url) = &args.endpoint_url {
        config = config.endpoint_url(url);
    }
    if args.consumed_capacity {
        config = config.interceptor(meter.clone());
    }
    if matches!(
        args.command,
        Command::Audit(_) | Command::Prune(_) | Command::Backfill(_) | Command::Console(_)
    ) {
        config = config.interceptor(pace_meter.clone());
    }
    Client::from_conf(config.build())
}

fn is_this_machine(url: &str) -> bool {
    let address = url.split_once("://").map_or(url, |(_, address)| address);
    ["127.0.0.1", "localhost", "[::1]"]
        .iter()
        .any(|host| address.starts_with(host))
}

/// The width that the table was begun with. A new table is begun with the wanted one, by the first write.
async fn width(args: &Args, client: &Client) -> Result<VersionDigits, CliError> {
    let wanted = args.version_digits;
    let store = Store::new(client.clone(), &args.table, wanted.unwrap_or_default());
    if let Some(kept) = store.kept_digits().await? {
        return match wanted {
            Some(wanted) if wanted != kept => Err(WidthError::Other { kept, wanted }.into()),
            _ => Ok(kept),
        };
    }
    // A table that has items, but no width, has the default one.
    let (default, wanted) = (VersionDigits::default(), store.digits());
    if wanted != default && !store.is_empty().await? {
        return Err(WidthError::Other { kept: default, wanted }.into());
    }
    let begins = match &args.command {
        Command::Put(_) => true,
        Command::Backfill(backfill) => !backfill.dry_run,
        _ => false,
    };
    if begins {
        store.keep_digits().await?;
    }
    Ok(wanted)
}
