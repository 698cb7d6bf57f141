//! `vzero prove`.

use std::io::{IsTerminal as _, stdout};

use item_diff::path::Path;
use operations::connection::Connection;
use sealing::{
    log::Log,
    place::Place,
    prove::{Proof, ProveError, Prover, Which},
    shown::NotShown,
};

use super::values::{below_list, member_names, text_of_names};
use crate::{
    error::CliError,
    output::{self, Output},
    pager,
    progress::Bar,
    selector::Subject,
    target::Target,
};

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Prove {
    #[command(flatten)]
    target: Target,
    /// The version, also as an argument after the key: 7, latest, -1, @14:05 [default: the newest one that is sealed]
    #[arg(long = "version", value_name = "N", conflicts_with_all = ["at", "all"], allow_negative_numbers = true)]
    number: Option<String>,
    /// Prove the version that was the latest at this time by `RecordedAt`
    #[arg(long, value_name = "TIME", conflicts_with = "all")]
    at: Option<String>,
    /// Prove all versions that are sealed, and what was pruned, purged and erased
    #[arg(long)]
    all: bool,
    /// Withhold the attribute at this path, with all members of a map; also the metadata of this name, such as Actor. Can be repeated
    #[arg(long, value_name = "PATH")]
    hide: Vec<Path>,
    /// Read the log from here [default: where seal-fn stores it]
    #[arg(long, value_name = "FOLDER|s3://BUCKET")]
    log: Option<String>,
    /// Endpoint of S3 [default: AWS]
    #[arg(long, value_name = "URL")]
    s3_endpoint_url: Option<String>,
}

const EXAMPLES: &str = "\
Metadata: Table, Entity, Version, Kind, Deleted, RecordedAt, RecordedBy, RequestId, Actor, Reason, ChangeSet, Sender and others, see
docs/log-format.md. Withheld members cannot be guessed, and the proof shows how many there are. Names of paths are those of `vzero concepts`.
Exit code 1 if a version was changed or deleted since it was sealed.
Examples:
  vzero prove Equipment#1 7 > proof.json
  vzero prove Equipment#1 --all --hide Actor --hide Place.Street > proof.json
  vzero verify proof.json --vkey vkey";

impl Prove {
    pub(crate) async fn run(&self, connection: &Connection, output: &Output) -> Result<(), CliError> {
        if output.is_json_chosen() {
            output::note("a proof has its own form of JSON, without --output");
        }
        let hidden = self
            .hide
            .iter()
            .map(|path| member_names("--hide", "hidden", path))
            .collect::<Result<Vec<_>, _>>()?;
        let takes_one = self.number.is_none() && self.at.is_none() && !self.all;
        let item = self.target.subject(connection, 0..=usize::from(takes_one))?;
        let which = match (item.words.first().or(self.number.as_ref()), &self.at) {
            _ if self.all => Which::All,
            (Some(text), _) => Which::One(item.number(text).await?),
            (None, Some(time)) => Which::One(item.at("--at", time).await?.version),
            (None, None) => Which::Newest,
        };
        let place = Place::of(item.store()).await?.ok_or_else(|| {
            let table = &connection.table;
            CliError::NotFound(format!(
                "the versions of {table} are not sealed: docs/log-format.md describes how to"
            ))
        })?;
        let sdk = async || Ok::<_, CliError>(connection.sdk.clone());
        let log = self.log.as_ref().unwrap_or(&place.log);
        let log = Log::at(log, self.s3_endpoint_url.as_deref(), sdk).await?;
        let prover = Prover {
            store: item.store(),
            place: &place,
            log: &log,
        };
        let range = (item.floor().await?, item.latest().await?.version);
        let bar = Bar::counter("versions read and proven", 1000);
        let proof = prover.prove(&item.entity, which, range, &hidden, &bar).await;
        drop(bar);
        let Proof { text, unsealed } = match proof {
            Ok(proof) => proof,
            Err(error) => return Err(explain(error, &item).await),
        };
        if let (Some(first), Some(last)) = (unsealed.first(), unsealed.last()) {
            let count = unsealed.len();
            output::note(&format!(
                "left out, because they are not sealed yet: {count} versions from {first} to {last}; seal-fn seals versions within two minutes"
            ));
        }
        match stdout().is_terminal() {
            // Hidden characters are escaped, which a proof does not have.
            true => output::print(&text),
            false => Ok(pager::write(&text)?),
        }
    }
}

async fn explain(error: ProveError, item: &Subject<'_>) -> CliError {
    let id = &item.id;
    match error {
        ProveError::Seal(error) => error.into(),
        ProveError::Shown(NotShown::Format(error)) => CliError::Unproven(format!("{id}: {error}")),
        ProveError::NoVersion(version) => item.missing(version).await,
        ProveError::Unsealed(_) => CliError::NotFound(format!("{id}: {error}")),
        ProveError::Changed(_) | ProveError::Deleted(_) | ProveError::Invalid(_) => {
            CliError::Unproven(format!("{id}: {error}"))
        }
        ProveError::Shown(NotShown::NoPath(path)) => CliError::Usage(format!(
            "--hide {}: no version of the proof has this path: `vzero get {}` shows the paths",
            text_of_names(&path),
            item.key
        )),
        ProveError::Shown(NotShown::BelowList(path, possible)) => {
            below_list("--hide", "hidden", &text_of_names(&path), &possible)
        }
    }
}
