//! Settings of seal-fn, from the environment. `tools/seal/template.yaml` sets them.

use std::{path::PathBuf, time::Duration};

use aws_config::SdkConfig;
use aws_sdk_dynamodb::Client;
use aws_sdk_s3::types::ObjectLockMode;
use operations::tables;
use shared::{clock::Clock, dynamodb::Store};

use crate::{
    error::SealError,
    keys::KeysTable,
    log::Log,
    objects::{Bucket, Objects, Retention},
    place::Place,
    sealer::{Limits, Sealer, Table},
    signer::Signer,
    state::StateTable,
};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Settings of seal-fn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// `SEAL_TABLES`: tables whose versions are sealed, with commas between them; `TABLE=HISTORY` for the history table of an attached one,
    /// if it has not the usual name.
    pub tables: Vec<(String, Option<String>)>,
    /// `STATE_TABLE`: name of the table with the state.
    pub state: String,
    /// `KEYS_TABLE`: name of the table with the random keys.
    pub keys: String,
    /// `LOG_ORIGIN`: name of the log, such as `example.com/log`.
    pub origin: String,
    /// Where the log is.
    pub place: LogPlace,
}

/// Place of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogPlace {
    /// On this machine: `LOG_FOLDER` and `SIGNING_KEY_FILE`, which has 32 bytes and is created if it does not exist.
    Folder {
        /// Folder of the log.
        folder: PathBuf,
        /// File of the key.
        key: PathBuf,
    },
    /// At AWS.
    Bucket {
        /// `LOG_BUCKET`: bucket with Object Lock.
        log: String,
        /// `STAGING_BUCKET`: bucket without it.
        staging: String,
        /// `SIGNING_KEY`: id of the key in KMS.
        key: String,
        /// `RETENTION_MODE`: `COMPLIANCE` or `GOVERNANCE`; without it, objects have the retention of the bucket.
        mode: Option<String>,
        /// `RETENTION_DAYS` and `PARTIAL_RETENTION_DAYS`.
        days: (u32, u32),
    },
}

impl Settings {
    /// Reads the settings from variables.
    ///
    /// # Errors
    ///
    /// Returns [`SealError::Setting`] if one is missing or invalid.
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<Self, SealError> {
        let optional = |name: &str| variable(name).filter(|text| !text.is_empty());
        let text = |name: &str| optional(name).ok_or_else(|| SealError::Setting(format!("{name} is not set")));
        let days = |name: &str, default| match optional(name).map(|text| text.parse()) {
            None => Ok(default),
            Some(days) => days.map_err(|_| SealError::Setting(format!("{name} is not a number of days"))),
        };
        let tables = text("SEAL_TABLES")?;
        let table = |name: &str| match name.split_once('=') {
            Some((table, history)) => (table.to_owned(), Some(history.to_owned())),
            None => (name.to_owned(), None),
        };
        let place = match optional("LOG_FOLDER") {
            Some(folder) => LogPlace::Folder {
                folder: folder.into(),
                key: text("SIGNING_KEY_FILE")?.into(),
            },
            None => LogPlace::Bucket {
                log: text("LOG_BUCKET")?,
                staging: text("STAGING_BUCKET")?,
                key: text("SIGNING_KEY")?,
                mode: optional("RETENTION_MODE"),
                days: (days("RETENTION_DAYS", 365)?, days("PARTIAL_RETENTION_DAYS", 1)?),
            },
        };
        Ok(Self {
            tables: tables
                .split(',')
                .map(str::trim)
                .filter(|name| !name.is_empty())
                .map(table)
                .collect(),
            state: text("STATE_TABLE")?,
            keys: text("KEYS_TABLE")?,
            origin: text("LOG_ORIGIN")?,
            place,
        })
    }

    /// Opens the log and the tables, and stores in each table where its log is.
    ///
    /// # Errors
    ///
    /// A request fails, a table has no versions or no index by time, or the key cannot be used.
    pub async fn sealer(&self, sdk: &SdkConfig, client: &Client) -> Result<Sealer, SealError> {
        let (log, staging, signer, place) = match &self.place {
            LogPlace::Folder { folder, key } => {
                let file = |path: &PathBuf, error| SealError::File(path.display().to_string(), error);
                std::fs::create_dir_all(folder).map_err(|error| file(folder, error))?;
                let folder = &folder.canonicalize().map_err(|error| file(folder, error))?;
                let objects = Objects::Folder(folder.clone());
                let signer = Signer::of_seed(&seed(key)?, &self.origin)?;
                let verifier = format!("{}\n", signer.key());
                objects.create("vkey", verifier.as_bytes()).await?;
                (objects.clone(), objects, signer, folder.display().to_string())
            }
            LogPlace::Bucket {
                log,
                staging,
                key,
                mode,
                days,
            } => {
                let s3 = aws_sdk_s3::Client::new(sdk);
                let retention = mode.as_ref().map(|mode| Retention {
                    mode: ObjectLockMode::from(mode.as_str()),
                    full: DAY * days.0,
                    partial: DAY * days.1,
                    clock: Clock::default(),
                });
                let bucket = |name: &String, retention| {
                    let (client, name) = (s3.clone(), name.clone());
                    Objects::Bucket(Bucket {
                        client,
                        name,
                        retention,
                    })
                };
                let signer = Signer::of_kms(aws_sdk_kms::Client::new(sdk), key, &self.origin).await?;
                (
                    bucket(log, retention),
                    bucket(staging, None),
                    signer,
                    format!("s3://{log}"),
                )
            }
        };
        let mut tables = Vec::new();
        for (name, history) in &self.tables {
            tables.push(self.table(client, name, history.as_deref(), &place, &signer).await?);
        }
        Ok(Sealer {
            tables,
            log: Log(log),
            staging,
            state: StateTable::new(client.clone(), &self.state),
            keys: KeysTable::new(client.clone(), &self.keys),
            signer,
            clock: Clock::default(),
            limits: Limits::default(),
        })
    }

    async fn table(
        &self,
        client: &Client,
        name: &str,
        history: Option<&str>,
        log: &str,
        signer: &Signer,
    ) -> Result<Table, SealError> {
        let store = tables::open(client, name, history).await?;
        if !store.has_time_index().await? {
            return Err(SealError::Setting(format!(
                "the table {} has no index TimeIndex: deploy its stack with TimeIndex=true",
                store.history_table()
            )));
        }
        let arn = arn(&store).await?;
        let place = Place {
            log: log.to_owned(),
            keys: self.keys.clone(),
            state: self.state.clone(),
            verifier: signer.key().to_string(),
            table: arn.clone(),
        };
        if Place::of(&store).await?.as_ref() != Some(&place) {
            place.store(&store).await?;
        }
        Ok(Table { store, arn })
    }
}

/// Returns the ARN of a table, which is its id in leaves.
///
/// # Errors
///
/// The request fails.
pub async fn arn(store: &Store) -> Result<String, SealError> {
    let table = store.beside(store.latest_table()).description().await?;
    table
        .table_arn
        .ok_or_else(|| SealError::Unreadable("the description of the table".to_owned()))
}

/// Reads the key of a file, which gets a new one if it does not exist.
fn seed(path: &PathBuf) -> Result<[u8; 32], SealError> {
    let file = |error| SealError::File(path.display().to_string(), error);
    if !path.exists() {
        std::fs::write(path, crate::keys::random()?).map_err(file)?;
    }
    let seed = std::fs::read(path).map_err(file)?;
    seed.try_into()
        .map_err(|_| SealError::Setting(format!("{} has no key of 32 bytes", path.display())))
}
