//! Write of one item, of a versioned table or of one that other programs write: preview, write, outcome, and the wait for history.

use std::time::Duration;

use item_diff::{
    change::Changes,
    versions::{Comparison, erased_lines},
};
use operations::{
    connection::Connection,
    error::OperationError,
    item_change::{ItemChange, Wanted, change_item, plan_item_change, recorded_version},
    read::lag::lag,
    revision::{self, ChangeOptions},
    waiting::Waiting,
};
use serde_json::{Map, json};
use shared::{
    domain::{
        AttributeValue,
        attached::{AttachedTable, key},
        erased::Erased,
        request_id::RequestId,
        version::Version,
        view::VersionView,
    },
    dynamodb::client::error::ServiceError,
};
use writer_fn::{counter::WriteOutcome, update::Update};

use crate::{
    changes,
    error::CliError,
    output::{self, Output},
    selector::Subject,
    target::Target,
    write_options::WriteOptions,
};

/// Maximum time that a command waits until history has its version.
const MAX_WAIT: Duration = Duration::from_secs(2);

/// Write of one item.
pub(super) struct ItemWrite<'a> {
    pub(super) item: Subject<'a>,
    options: &'a WriteOptions,
    output: &'a Output,
}

impl<'a> ItemWrite<'a> {
    /// Returns the write of the item that the arguments name, with so many versions after its key.
    pub(super) fn new(
        target: &'a Target,
        versions: usize,
        options: &'a WriteOptions,
        (connection, output): (&'a Connection, &'a Output),
    ) -> Result<Self, CliError> {
        let item = target.subject(connection, versions..=versions)?;
        Ok(Self { item, options, output })
    }

    pub(super) fn is_dry(&self) -> bool {
        self.options.confirmation.dry_run
    }

    pub(super) async fn latest(&self) -> Result<Option<VersionView>, CliError> {
        Ok(self.item.store().latest(&self.item.entity, true).await?)
    }

    /// Changes an item of an attached table, after its changes were shown and confirmed.
    pub(super) async fn change(&self, wanted: Wanted<'_>) -> Result<(), CliError> {
        let (item, store, options, output) = (&self.item, self.item.store(), self.options, self.output);
        let table = store.attached_table().ok_or(OperationError::NotAttached)?;
        let changing = options.of_item()?;
        options.confirmation.check()?;
        let key = key::attributes(table, &item.id).map_err(OperationError::from)?;
        let planned = match plan_item_change(store, key, wanted, &changing).await {
            Err(OperationError::NoVersion) if !matches!(wanted, Wanted::Version(_)) => return Err(item.no_entity()),
            planned => planned?,
        };
        let outcome = match (&planned.wanted, &planned.item) {
            _ if planned.is_unchanged() => "Unchanged",
            (None, _) => "Deleted",
            (Some(_), None) => "Created",
            _ if matches!(wanted, Wanted::Changed(_)) => "Written",
            _ => "Restored",
        };
        let source = match wanted {
            Wanted::Version(version) => Some(version),
            _ => None,
        };
        let about = |version: Option<Version>| {
            let id = item.entity.as_str();
            output::without_null(json!({
                "ID": id, "Version": version, "RestoredFrom": source, "Outcome": outcome, "Erased": planned.erased.to_json(),
            }))
        };
        if self.is_dry() || (options.confirmation.must_ask() && !planned.is_unchanged()) {
            let mut planning = about(None);
            planning["DryRun"] = true.into();
            output.planned(
                planning,
                &Changes::between(planned.item.as_ref(), planned.wanted.as_ref()),
            )?;
            if let Some(note) = self.actor_note(table, &planned) {
                output::note(&note);
            }
        }
        if let Some(note) = self.change_set_note(table, &planned) {
            output::note(&note);
        }
        note_erased(&planned.erased);
        let verb = match outcome {
            "Created" => "Create",
            "Deleted" => "Delete",
            _ => "Change",
        };
        let question = format!("{verb} this item of {}, which other programs write?", table.table());
        if self.is_dry() || !(planned.is_unchanged() || options.confirmation.ask(&question)?) {
            return Ok(());
        }
        change_item(store, &planned).await?;
        let makes_version = !planned.is_unchanged() && planned.makes_version(table);
        let version = match makes_version {
            true => {
                self.wait(async || recorded_version(store, &item.entity, &planned).await)
                    .await
            }
            false => None,
        };
        output.object(&about(version))?;
        if makes_version && version.is_none() {
            self.note_behind().await;
        }
        Ok(())
    }

    /// Returns the note that the change keeps the author that the item names, or names none.
    fn actor_note(&self, table: &AttachedTable, change: &ItemChange) -> Option<String> {
        let name = table.settings().actor_attribute.as_ref()?;
        let wanted = change.wanted.as_ref()?;
        if self.options.actor.is_some() || change.is_unchanged() {
            return None;
        }
        match (wanted.get(name), change.item.as_ref().and_then(|item| item.get(name))) {
            (None, _) => Some(format!("{name} is not set; --actor NAME sets it")),
            (new, old) => (new == old).then(|| format!("{name} stays as it is; --actor NAME sets it")),
        }
    }

    /// Returns the note that the item names the change set already, so that history does not show that the change is part of it.
    fn change_set_note(&self, table: &AttachedTable, change: &ItemChange) -> Option<String> {
        let name = table.settings().change_set_attribute.as_ref()?;
        let old = change.item.as_ref()?.get(name)?;
        let is_same = *old == AttributeValue::S(self.options.change_set.clone()?) && !change.is_unchanged();
        is_same.then(|| format!("{name} names this change set already: the new version is not part of it"))
    }

    /// Returns an update without changes of attributes.
    fn update(&self) -> Result<Update, CliError> {
        changes::update(&self.item.id, self.options, Map::new())
    }

    /// Returns the request id and the options of a restore, a deletion or its reversal.
    fn revision(&self) -> Result<(RequestId, ChangeOptions), CliError> {
        let update = self.update()?;
        let change = ChangeOptions {
            expected: update.expected,
            timestamp: update.timestamp,
            sent_at: update.sent_at,
            changes: update.changes,
        };
        Ok((update.request_id, change))
    }

    /// Writes a tombstone.
    pub(super) async fn delete(&self) -> Result<(), CliError> {
        if self.is_dry() {
            let latest = self.latest().await?.ok_or_else(|| self.item.no_entity())?;
            let mut update = self.update()?;
            update.deleted = true;
            return self.show(Some(&latest), &update);
        }
        let ((request, change), options) = (self.revision()?, self.options.writing.options());
        let done = revision::delete(self.item.store(), &self.item.entity, request, change, options).await?;
        self.written(done).await
    }

    /// Restores a version, or without a number undeletes the entity.
    pub(super) async fn restore(&self, version: Option<Version>) -> Result<(), CliError> {
        let (store, entity, (request, change)) = (self.item.store(), &self.item.entity, self.revision()?);
        if self.is_dry() {
            let planned = revision::plan(store, entity, version, &request, &change).await?;
            return match planned {
                Some(planned) => {
                    note_erased(&planned.erased);
                    self.show(planned.latest.as_ref(), &planned.update)
                }
                None => self.written(None).await,
            };
        }
        let options = self.options.writing.options();
        let done = match version {
            Some(version) => Some(revision::restore(store, entity, version, request, change, options).await?),
            None => revision::undelete(store, entity, request, change, options).await?,
        };
        let erased = match done {
            Some(_) => revision::erased(store, entity, version).await?,
            None => Erased::default(),
        };
        note_erased(&erased);
        self.done(done, &erased).await
    }

    /// Shows the changes that an update would make.
    pub(super) fn show(&self, latest: Option<&VersionView>, update: &Update) -> Result<(), CliError> {
        let after = revision::preview(latest, update)?;
        let from = latest.map_or(0, |latest| latest.version.get());
        let about = json!({"ID": self.item.id, "From": from, "To": after.version, "DryRun": true});
        self.output.planned(about, &Comparison::new(latest, &after).diff())
    }

    /// Prints the outcome, `None` of an entity that is in the wanted state already, and waits until the version is in history. Returns
    /// an outcome that wrote nothing as an error.
    pub(super) async fn written(&self, outcome: Option<WriteOutcome>) -> Result<(), CliError> {
        self.done(outcome, &Erased::default()).await
    }

    async fn done(&self, outcome: Option<WriteOutcome>, erased: &Erased) -> Result<(), CliError> {
        let (name, version) = match outcome {
            Some(WriteOutcome::Written { version }) => ("Written", version),
            Some(WriteOutcome::Duplicate { version }) => ("Duplicate", version),
            Some(WriteOutcome::Unchanged { version }) => ("Unchanged", version),
            Some(outcome) => return OperationError::of_outcome(outcome).map_or(Ok(()), |error| Err(error.into())),
            None => {
                let latest = self.latest().await?.ok_or_else(|| self.item.no_entity())?;
                ("Unchanged", latest.version)
            }
        };
        let item = &self.item;
        let done = json!({"ID": item.id, "Version": version, "Outcome": name, "Erased": erased.to_json()});
        self.output.object(&output::without_null(done))?;
        if name == "Written" {
            let stored = async || item.store().version_item(&item.entity, version, true).await;
            if self.wait(stored).await.is_none() {
                self.note_behind().await;
            }
        }
        Ok(())
    }

    /// Waits until the version that was written is in history. `None` if it takes longer.
    async fn wait<T>(&self, mut find: impl AsyncFnMut() -> Result<Option<T>, ServiceError>) -> Option<T> {
        let mut waiting = Waiting::at_most(MAX_WAIT);
        if self.options.no_wait {
            return None;
        }
        loop {
            match find().await {
                Ok(None) if waiting.again().await => {}
                found => return found.ok().flatten(),
            }
        }
    }

    /// Prints a note that history does not have the version yet, unless the user did not want to wait.
    async fn note_behind(&self) {
        if self.options.no_wait {
            return;
        }
        let store = self.item.store();
        let through = match (store.attached_table(), lag(store, &self.item.entity).await) {
            (Some(table), _) => format!("`vzero attach {} --check` tests the way of its changes", table.table()),
            (None, Ok(Some(lag))) => format!(
                "it ends at version {} of {}",
                lag.through.map_or(0, Version::get),
                lag.latest
            ),
            (None, _) => format!("`vzero admin lag {}` shows where it ends", self.item.key),
        };
        output::note(&format!("written, but history does not have it yet: {through}"));
    }
}

/// Prints a note for each value that is not restored, because it was erased.
fn note_erased(erased: &Erased) {
    for (path, text) in erased_lines(erased) {
        output::note(&format!("{path} is not restored: {text}"));
    }
}
