//! What is done with a whole table, or with the history of an entity.

use std::{
    num::{NonZeroU32, NonZeroU64},
    path::PathBuf,
    time::Duration,
};

use shared::domain::backfill::Template;

#[derive(Debug, clap::Args)]
pub(crate) struct Audit {
    /// The entities: their partition keys
    #[arg(value_name = "ID", required_unless_present = "all", conflicts_with = "all")]
    pub(crate) ids: Vec<String>,
    /// Audit every entity of the table
    #[arg(long)]
    pub(crate) all: bool,
    /// How many seconds a missing version may be on its way: so long is waited before it counts as a gap
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub(crate) lag: u64,
    /// The most read units a second
    #[arg(long, value_name = "UNITS")]
    pub(crate) max_read_units: Option<NonZeroU32>,
    /// In how many parts the table is read at once [default: 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) segments: Option<u32>,
    /// Keep in this file how far it has come, and go on from there
    #[arg(long, value_name = "FILE")]
    pub(crate) state: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Backfill {
    /// The table that items are read from [default: the table itself]
    #[arg(long, value_name = "TABLE")]
    pub(crate) from_table: Option<String>,
    /// How an item's entity is named, with attributes in braces [default: as its partition key, if that is its only key]
    #[arg(long, value_name = "TEMPLATE")]
    pub(crate) id: Option<Template>,
    /// Give an attribute another name
    #[arg(long, value_name = "OLD=NEW", value_parser = crate::backfill::rename)]
    pub(crate) rename: Vec<(String, String)>,
    /// Say what would be written, and write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// The most read units a second
    #[arg(long, value_name = "UNITS")]
    pub(crate) max_read_units: Option<NonZeroU32>,
    /// The most write units a second
    #[arg(long, value_name = "UNITS")]
    pub(crate) max_write_units: Option<NonZeroU32>,
    /// In how many parts the table is read at once [default: 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) segments: Option<u32>,
    /// Keep in this file how far it has come, and go on from there
    #[arg(long, value_name = "FILE")]
    pub(crate) state: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Prune {
    /// The entity: its partition key
    pub(crate) id: String,
    /// Keep so many of the newest versions
    #[arg(
        long,
        value_name = "N",
        conflicts_with = "older_than",
        required_unless_present = "older_than"
    )]
    pub(crate) keep: Option<NonZeroU64>,
    /// Keep what was the latest version at some time since, by the versions' own times: 90d, 12h
    #[arg(long, value_name = "AGE", value_parser = crate::prune::age)]
    pub(crate) older_than: Option<Duration>,
    /// How long marked versions can still be read and pinned: 7d, 0s
    #[arg(long, value_name = "AGE", default_value = "0s", value_parser = crate::prune::age)]
    pub(crate) grace: Duration,
    /// Begin history after versions that are missing, too
    #[arg(long)]
    pub(crate) over_gaps: bool,
    /// Say what would be marked, and mark nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// The most read units a second
    #[arg(long, value_name = "UNITS")]
    pub(crate) max_read_units: Option<NonZeroU32>,
    /// The most write units a second
    #[arg(long, value_name = "UNITS")]
    pub(crate) max_write_units: Option<NonZeroU32>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Pin {
    /// The entity: its partition key
    pub(crate) id: String,
    /// The version
    pub(crate) number: u64,
    /// Take the pin away
    #[arg(long)]
    pub(crate) unpin: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Purge {
    /// The entity: its partition key
    pub(crate) id: String,
    /// Do not ask
    #[arg(long)]
    pub(crate) yes: bool,
    /// Say what would be deleted, and delete nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Wait so long for versions that are under way in the stream, and delete them too: 1m
    #[arg(long, value_name = "AGE", default_value = "0s", value_parser = crate::prune::age)]
    pub(crate) wait: Duration,
}

/// In how many parts a table is read, unless that is said.
pub(crate) const SEGMENTS: u32 = 4;

pub(super) const AUDIT: &str = "\
Findings: Gap, Stray (beyond Latest), HeadDiffers, NoVersion, Orphan, Unpruned; Lagging, which is not wrong.
Exit code 4 where something is wrong.
Example: vzero audit --all --max-read-units 100 --state audit.json";
