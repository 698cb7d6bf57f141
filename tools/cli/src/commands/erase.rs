//! `vzero erase`.

use std::time::Duration;

use item_diff::path::Path;
use operations::{
    connection::Connection,
    erase::remove_current,
    failures::source::Source,
    redrive::{
        Services,
        erase::{ErasedDocuments, erase_documents},
    },
};
use sealing::{
    erase::{EraseError, Erasing},
    place::Place,
};
use serde_json::{Value, json};
use shared::domain::{erased::ErasedPath, request_id::RequestId};
use uuid::Uuid;

use super::values::{age, below_list, member_names, text_of_names};
use crate::{
    confirmation::Confirmation,
    error::CliError,
    next,
    output::{self, Output},
    role,
    selector::Subject,
    target::Target,
    write_options::Method,
};

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Erase {
    #[command(flatten)]
    target: Target,
    /// Erase the attribute at this path, with all members of a map; also the metadata of this name, such as Actor. Can be repeated
    /// [default: all attributes, and all metadata that can be erased]
    #[arg(long = "path", value_name = "PATH")]
    paths: Vec<Path>,
    /// Also remove the values from the current item, by a new version
    #[arg(long)]
    current: bool,
    /// Reason, which stays in history and in the log
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Also erase the values from failure documents: a folder, or <s3://bucket/prefix>. Can be repeated
    #[arg(long, value_name = "FOLDER|s3://BUCKET")]
    failures: Vec<Source>,
    /// Endpoint of S3 [default: AWS]
    #[arg(long, value_name = "URL")]
    s3_endpoint_url: Option<String>,
    /// Wait this long for versions that are still in the stream; 0s if nothing reads the stream
    #[arg(long, value_name = "AGE", default_value = "90s", value_parser = age)]
    wait: Duration,
    #[command(flatten)]
    confirmation: Confirmation,
    #[command(flatten)]
    method: Method,
}

const EXAMPLES: &str = "\
Proofs of everything else still hold. An interrupted erasure can be repeated. Not erased are copies that other services keep: the command
lists them. Metadata that can be erased: Actor, Reason, ChangeSet, Sender, RequestId.
Examples:
  vzero erase Customer#1 --path Address.Street --reason 'ticket 7' --dry-run
  vzero erase Customer#1 --current --reason 'ticket 7' --failures s3://failed-records";

impl Erase {
    pub(crate) async fn run(&self, connection: &Connection, output: &Output) -> Result<(), CliError> {
        self.confirmation.check()?;
        let item = self.target.subject(connection, 0..=0)?;
        let paths = self.paths.iter().map(|path| member_names("--path", "erased", path));
        let paths = paths.collect::<Result<Vec<_>, _>>()?;
        let mut erasing = self.plan(connection, &item, &paths).await?;
        if self.confirmation.dry_run {
            let documents = self.documents(connection, &item, &erasing, true).await?;
            let planned = json!({
                "ID": item.entity.as_str(), "Paths": paths_of(&erasing), "DryRun": true,
                "WouldErase": {
                    "Versions": erasing.versions, "Quarantined": erasing.quarantined().await?, "Documents": documents.documents,
                    "Current": erasing.is_current && self.current,
                },
            });
            self.note_current(&erasing);
            return print(planned, remaining(&item, &erasing, &documents), output);
        }
        let (count, id) = (erasing.versions, &item.id);
        self.confirmation.ask(&format!(
            "Erase {} from {id}, for good, in {count} versions?",
            what(&erasing)
        ))?;
        let mut is_changed = false;
        if self.current && erasing.is_current {
            let options = shared::config::WriteOptions {
                mode: self.method.mode,
                idempotency: self.method.idempotency,
                skip_unchanged: false,
            };
            let request =
                RequestId::new(Uuid::new_v4().to_string()).map_err(|error| CliError::usage("the request", error))?;
            let erasures = erasing.erasures();
            let write = (request, options);
            is_changed = remove_current(item.store(), &item.entity, &erasures, write, self.wait).await?;
            erasing = self.plan(connection, &item, &paths).await?;
        }
        let waiting = |wait: Duration| {
            let seconds = wait.as_secs_f64().ceil();
            output::note(&format!(
                "waiting {seconds} s for versions that are still in the stream"
            ));
        };
        let done = erasing.run(self.wait, self.current, waiting).await;
        let done = done.map_err(|error| explain(error, &item))?;
        let documents = self.documents(connection, &item, &erasing, false).await?;
        let last = erasing.finish().await.map_err(|error| explain(error, &item))?;
        let versions = done.versions + last.versions;
        let (quarantined, others) = (done.quarantined, done.others);
        is_changed |= versions + quarantined + others + documents.documents > 0 || last.keys;
        let erasure = erasing.erasures();
        let erasure = erasure.newest();
        let outcome = json!({
            "ID": item.entity.as_str(), "Outcome": if is_changed { "Erased" } else { "Unchanged" }, "Paths": paths_of(&erasing),
            "Versions": versions, "Quarantined": quarantined, "Documents": documents.documents,
            "To": erasure.map(|erasure| erasure.to), "At": erasure.map(|erasure| erasure.at.to_string()),
        });
        self.note_current(&erasing);
        print(outcome, remaining(&item, &erasing, &documents), output)
    }

    async fn plan<'a>(
        &self,
        connection: &Connection,
        item: &'a Subject<'_>,
        paths: &[Vec<String>],
    ) -> Result<Erasing<'a>, CliError> {
        let planned = Erasing::plan(item.store(), &item.entity, paths, &self.reason).await;
        let mut erasing = planned.map_err(|error| explain(error, item))?;
        if erasing.place().is_some() {
            erasing.role = role::caller(connection).await;
        }
        Ok(erasing)
    }

    async fn documents(
        &self,
        connection: &Connection,
        item: &Subject<'_>,
        erasing: &Erasing<'_>,
        is_dry: bool,
    ) -> Result<ErasedDocuments, CliError> {
        let services = Services {
            s3_endpoint_url: self.s3_endpoint_url.clone(),
            ..Services::default()
        };
        let what = (&item.entity, &erasing.erasures());
        Ok(erase_documents(connection, &services, &self.failures, what, is_dry).await?)
    }

    fn note_current(&self, erasing: &Erasing<'_>) {
        if erasing.is_current && !self.current {
            let again = next::again("--current");
            output::note(&format!(
                "the current item has a value that is erased, and so will have its next version: {again} removes it there"
            ));
        }
    }
}

fn paths_of(erasing: &Erasing<'_>) -> Value {
    erasing.erasures().0.keys().map(ErasedPath::to_json).collect()
}

fn what(erasing: &Erasing<'_>) -> String {
    let erasures = erasing.erasures();
    let names = erasures.0.keys().map(|path| text_of_names(path.names()));
    names.collect::<Vec<_>>().join(", ")
}

/// Returns the copies that can have the values.
fn remaining(item: &Subject<'_>, erasing: &Erasing<'_>, documents: &ErasedDocuments) -> Vec<String> {
    let store = item.store();
    let mut tables = vec![store.latest_table().to_owned()];
    tables.extend(store.own_history().map(str::to_owned));
    let tables = tables.join(" and ");
    let mut all = vec![
        format!("point-in-time recovery of {tables}, for up to 35 days, and its backups, exports and replicas"),
        format!(
            "the stream of {}, for 24 hours, and what other consumers stored",
            store.latest_table()
        ),
        "messages in queues and dead-letter queues, and log groups of clients".to_owned(),
    ];
    if let Some(Place { keys, .. }) = erasing.place() {
        all.push(format!(
            "point-in-time recovery of the keys in {keys}, for up to 35 days, and proofs that were made before"
        ));
    }
    let old = documents
        .old_versions
        .iter()
        .map(|object| format!("old versions of {object}"));
    all.extend(
        old.chain(
            documents
                .others
                .iter()
                .map(|place| format!("{place}, which is no failure document")),
        ),
    );
    all
}

fn print(mut outcome: Value, remaining: Vec<String>, output: &Output) -> Result<(), CliError> {
    if output.is_json() {
        outcome["Remaining"] = remaining.into();
        return output.object(&outcome);
    }
    output.object(&outcome)?;
    for copy in remaining {
        output::note(&format!("not erased: {copy}"));
    }
    Ok(())
}

fn explain(error: EraseError, item: &Subject<'_>) -> CliError {
    let path = match &error {
        EraseError::Seal(_) | EraseError::NoVersion | EraseError::Nothing => String::new(),
        EraseError::NoPath(names) | EraseError::Key(names) => text_of_names(names),
        EraseError::InsideList(error) => text_of_names(error.path.names()),
    };
    match error {
        EraseError::Seal(error) => error.into(),
        EraseError::NoVersion => item.no_entity(),
        EraseError::Nothing => CliError::NotFound(format!("{}: {error}", item.id)),
        EraseError::NoPath(_) => CliError::NotFound(format!(
            "--path {path}: no version has it: `vzero get {}` shows the paths",
            item.key
        )),
        EraseError::Key(_) => CliError::Usage(format!("--path {path}: {error}: `vzero admin purge {}`", item.key)),
        EraseError::InsideList(inside) => below_list("--path", "erased", &path, inside.possible.names()),
    }
}
