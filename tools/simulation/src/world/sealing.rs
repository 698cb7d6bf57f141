//! Runs of seal-fn, and what can be observed of the log once everything is sealed.

use std::time::Duration;

use operations::{progress::Silent, rate_limit::RateLimiter, segments::Plan};
use sealing::{
    audit::{Audit, Line},
    error::SealError,
    keys::KeysTable,
    place::{Place, verifier},
    prove::{ProveError, Prover, Which},
    state::StateTable,
};
use serde_json::json;
use shared::domain::{
    entity::EntityId,
    keys::LATEST_KEY,
    time_index::{INSERTED_AT, PARTITION, marks},
    version::Version,
};
use tokio::time::sleep;

use crate::{
    caller::lock,
    error::SimulationError,
    evidence::SealedHistory,
    operators::is_done,
    requests::{Items, text},
    schedule::{Command, KEYS, STATE, StepKind},
    sealer::{LOG, STAGING, Sealer},
    world::World,
};

/// Time after which the index shows every version, and the log has to have it.
const SHOWN: Duration = Duration::from_secs(20 * 60);
/// Number of runs in which everything has to be sealed, without faults.
const RUNS: u32 = 6;

impl World {
    /// Runs seal-fn once.
    pub(super) async fn seal(&self) {
        let Some(sealer) = &self.sealer else { return };
        self.connector.count("seal-run");
        let ended = sealer.run().await;
        self.note_contradiction(ended.as_ref().and_then(|ended| ended.as_ref().err()));
    }

    /// Only the restored state of a log can contradict it.
    fn note_contradiction(&self, error: Option<&SealError>) {
        if let Some(error @ (SealError::Contradiction(_) | SealError::Missing(_) | SealError::Unreadable(_))) = error
            && !self.schedule.has(|kind| matches!(kind, StepKind::RestoreState(_)))
        {
            lock(&self.seen).found.add::<10>(error.to_string());
        }
    }

    /// Restores the items of the state as they are now, after these milliseconds.
    pub(super) async fn restore_state(&self, millis: u64) {
        let connector = &self.connector;
        let backup = connector.scan(STATE).unwrap_or_default();
        sleep(Duration::from_millis(millis)).await;
        connector.count("state-restored");
        for item in connector.scan(STATE).unwrap_or_default() {
            let key = json!({"PK": item["PK"], "SK": item["SK"]});
            let _ = connector.send("DeleteItem", json!({"TableName": STATE, "Key": key}));
        }
        for item in backup {
            let _ = connector.put(STATE, &item);
        }
    }

    /// Deletes a version item, and inserts it again.
    pub(super) fn reinsert(&self, entity: &str, version: u64) {
        let table = self.schedule.settings.history_table();
        let key = Version::new(version).map(|version| self.digits.version_key(version));
        let key = json!({"PK": {"S": entity}, "SK": {"S": key}});
        let get = json!({"TableName": table, "Key": key, "ConsistentRead": true});
        let mut item = self.connector.send("GetItem", get).unwrap_or_default()["Item"].take();
        if item.is_null() {
            return;
        }
        let recorded = Some(text(&item, "/RecordedAt/S").to_owned()).filter(|text| !text.is_empty());
        let now = Duration::from_millis(self.clock.millis());
        let [(_, partition), (_, inserted)] = marks(entity, recorded.as_deref(), now);
        for (name, mark) in [(PARTITION, partition), (INSERTED_AT, inserted)] {
            item[name] = serde_json::to_value(mark).unwrap_or_default();
        }
        let _ = self
            .connector
            .send("DeleteItem", json!({"TableName": table, "Key": key}));
        let _ = self.connector.put(table, &item);
        self.connector.count("version-reinserted");
    }

    /// Finishes erasures.
    pub(super) async fn finish_erasures(&self) {
        let steps = self.schedule.steps.iter();
        for command in steps.filter_map(|step| match &step.kind {
            StepKind::Command(command @ Command::Erase(_)) => Some(command),
            _ => None,
        }) {
            let erase = async |_| is_done(&self.operators.command(command, &[]).await).then_some(());
            if self.connector.retry(3, erase).await.is_none() {
                self.violate("an erasure cannot be finished");
            }
        }
    }

    /// Lets seal-fn seal everything, and notes the log with what belongs to it.
    pub(super) async fn finish_sealing(&self) -> Result<(), SimulationError> {
        let Some(sealer) = &self.sealer else { return Ok(()) };
        sleep(SHOWN).await;
        let mut last = None;
        for _ in 0..RUNS {
            last = sealer.run().await;
            if matches!(last, Some(Ok(0))) {
                break;
            }
        }
        let is_restored = self.schedule.has(|kind| matches!(kind, StepKind::RestoreState(_)));
        if !matches!(last, Some(Ok(0))) && !is_restored {
            let error = last.and_then(Result::err).map(|error| error.to_string());
            self.violate(&format!("not everything is sealed: {}", error.unwrap_or_default()));
        }
        let items: Items = self.items()?.into_iter().collect();
        if !is_restored && let Err(error) = self.prove_and_audit(sealer, &items).await {
            self.violate(&format!("the log cannot be read: {error}"));
        }
        let versions = |path: &String| sealer.cloud.versions(LOG, path).into_iter();
        let objects = sealer.cloud.objects(LOG).into_keys().map(|path| {
            let contents = versions(&path).filter_map(|version| version.content).collect();
            (path, contents)
        });
        let sealed = SealedHistory {
            log: objects.collect(),
            staging: sealer.cloud.objects(STAGING).into_values().collect(),
            state: self.connector.scan(STATE)?,
            keys: self.connector.scan(KEYS)?,
            items,
            is_restored,
        };
        lock(&self.seen).sealed = Some(sealed);
        Ok(())
    }

    fn violate(&self, what: &str) {
        lock(&self.seen).found.add::<10>(what.to_owned());
    }

    /// Proves all versions, and compares the table with the log, as an auditor does.
    async fn prove_and_audit(&self, sealer: &Sealer, items: &Items) -> Result<(), SealError> {
        let function = Box::pin(sealer.start()).await?;
        let Some(place) = Place::of(&self.store).await? else {
            return Ok(());
        };
        let (store, client) = (&self.store, self.store.client());
        let (log, key) = (function.log, verifier(&place)?);
        let prover = Prover {
            store,
            place: &place,
            log: &log,
        };
        for name in items.entities() {
            let versions = items.of(name).filter_map(|(key, _)| self.digits.version_of(key));
            let (Ok(entity), Some(newest)) = (EntityId::new(name), versions.max()) else {
                continue;
            };
            let oldest = Version::new(items.floor(name)).unwrap_or(Version::FIRST);
            let proof = Box::pin(prover.prove(&entity, Which::All, (oldest, newest), &[], &Silent)).await;
            match proof {
                Ok(proof) if proof.unsealed.is_empty() => {}
                Ok(proof) => self.violate(&format!("{name}: {:?} are not sealed", proof.unsealed)),
                Err(ProveError::Unsealed(_)) if items.get(name, LATEST_KEY).is_none() => {}
                Err(error) => self.violate(&format!("{name} cannot be proven: {error}")),
            }
        }
        let pace = RateLimiter::unlimited();
        let earlier = sealer.cloud.versions(LOG, "checkpoint").into_iter().next();
        let earlier = earlier.and_then(|version| String::from_utf8(version.content?).ok());
        let audit = Audit {
            plan: Plan::new(store, &pace),
            table: place.table.clone(),
            log,
            key,
            earlier,
            keys: KeysTable::new(client.clone(), &place.keys),
            state: StateTable::new(client.clone(), &place.state),
            seals_missing: false,
        };
        let found = |line| {
            if let Line::Finding(finding) = line {
                self.violate(&format!("the audit finds {}", finding.json));
            }
            Ok::<_, SealError>(())
        };
        let _ = Box::pin(audit.run(|_| {}, found)).await?;
        Ok(())
    }
}
