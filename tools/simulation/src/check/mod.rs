//! Checks the guarantees of a run.
//!
//! ```text
//! stream, with the author of each write ─▶ model ─▶ versions ─┬─▶ history, before and after the recovery
//!                                                             ├─▶ request ids, times
//!                                            states ──────────┴─▶ answers
//! ```

mod answers;
mod history;
mod model;
mod operators;
mod reads;
mod record;

use std::{
    collections::{BTreeMap, HashMap},
    fmt::Write as _,
    time::Duration,
};

use serde_json::Value;
use sha2::{Digest as _, Sha256};
use shared::{
    config::Retention,
    domain::{
        keys::{LATEST_KEY, VersionDigits},
        recorded_at::RecordedAt,
        version::Version,
    },
};

use self::model::Image;
use crate::{
    caller::{Author, MISDEPLOYED, OF_COPY},
    clock::ProcessClock,
    evidence::Evidence,
    mapping::records_of,
    requests::text,
    schedule::{Command, Origin, Schedule, Step, StepKind, Update},
    stream::Written,
    windows::Scope,
};

/// Maximum time by which a version can be recorded ahead of the fastest clock that has written its entity.
const MAX_AHEAD: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    /// Number of the guarantee in `docs/reliability.md`.
    pub(crate) guarantee: u8,
    pub(crate) description: String,
}

pub(crate) fn check(schedule: &Schedule, evidence: &Evidence) -> Vec<Violation> {
    let discarded = evidence.documents.iter().flat_map(records_of);
    let mut check = Check {
        schedule,
        evidence,
        kept: &discarded
            .chain(evidence.quarantined.iter().cloned())
            .map(|record| sequence_number(&record).to_owned())
            .collect::<Vec<_>>(),
        digits: VersionDigits::new(schedule.settings.digits).unwrap_or_default(),
        violations: Vec::new(),
    };
    check.all();
    check.violations
}

struct Check<'a> {
    schedule: &'a Schedule,
    evidence: &'a Evidence,
    /// Sequence numbers of the records in quarantine and in failure documents.
    kept: &'a [String],
    digits: VersionDigits,
    violations: Vec<Violation>,
}

impl Check<'_> {
    fn all(&mut self) {
        let entities = self.entities();
        self.check_layouts();
        self.check_single_writes();
        self.check_recorded();
        self.check_documents();
        self.check_invalid_records();
        for (name, entity) in &entities {
            self.check_history(name, entity);
            self.check_pruned(name, entity);
            self.check_tombstones(name, entity);
            self.check_request_ids(name, &entity.images);
            self.check_times(name, &entity.images);
            self.check_times_of_clocks(name, &entity.images);
        }
        self.check_recovery(&entities);
        self.check_audit();
        self.check_pins();
        self.check_purges();
        self.check_redrives();
        self.check_answers(&entities);
        self.check_liveness();
        self.check_reads();
        self.check_as_of(&entities);
    }

    fn add(&mut self, guarantee: u8, description: String) {
        self.violations.push(Violation { guarantee, description });
    }

    /// Returns `true` if there is a purge marker of the entity, and an operator has purged it, and not one of a copy.
    fn is_marked_as_purged(&self, entity: &str) -> bool {
        let is_purge =
            |step: &Step| matches!(&step.kind, StepKind::Command(Command::Purge { entity: of }) if of == entity);
        let key = purge_marker_key(entity);
        let mut items = self.evidence.recovery.items.iter();
        self.schedule.steps.iter().any(is_purge) && items.any(|item| text(item, "/PK/S") == key)
    }

    /// 3: A request creates one version.
    fn check_request_ids(&mut self, entity: &str, images: &[Image]) {
        let updates = self.updates();
        let has_manual_version = self.evidence.manual_versions.iter().any(|(key, _)| key == entity);
        let floor = history::floor(&history::items_of(&self.evidence.items, entity));
        let mut seen: HashMap<&str, &Image> = HashMap::new();
        for image in images {
            let Some(request) = image.request else { continue };
            let Some(before) = seen.insert(request, image) else {
                continue;
            };
            let is_near = |window| image.version.saturating_sub(before.version + 1) < u64::from(window);
            let guaranteed = match self.schedule.settings.smallest_window() {
                // A purge deletes the markers, and they expire.
                None => !self.is_marked_as_purged(entity) && !self.has_expired_markers(),
                // Deleting v0 deletes the recent requests.
                Some(window) if image.deletions == before.deletions && is_near(window) => true,
                // A repair restores those of the newest versions.
                Some(window)
                    if is_near(window)
                        && before.version >= floor
                        && self.is_restored_with(before, image, images, entity) =>
                {
                    true
                }
                // History has the other requests, unless an operator has written or removed versions, or has started a new
                // history.
                Some(_) if image.era > 0 || has_manual_version || before.version < floor => false,
                Some(_) => updates
                    .get(request)
                    .is_some_and(|(_, update)| self.is_traceable(update)),
            };
            if guaranteed {
                let (first, second) = (before.version, image.version);
                let description = format!("{entity}: request {request} created versions {first} and {second}");
                self.add(3, description);
            }
        }
    }

    /// Returns `true` if the markers of the ledger expire in the schedule.
    fn has_expired_markers(&self) -> bool {
        let retention = u64::try_from(Retention::default().duration().as_millis()).unwrap_or(u64::MAX);
        let mut steps = self.schedule.steps.iter();
        steps.any(|step| step.kind == StepKind::Expire && step.at > retention)
    }

    /// Returns `true` if every delivery after the first shows that there can be an earlier one.
    fn is_traceable(&self, update: &Update) -> bool {
        let index = (self.schedule.updates.iter()).position(|candidate| candidate.id == update.id);
        let deliveries = index.and_then(|index| self.evidence.deliveries.get(&index));
        if index.is_some_and(|index| self.evidence.overlapping.contains(&index)) {
            // Of two simultaneous deliveries, one looks like the first.
            return false;
        }
        match update.origin {
            Origin::Client => deliveries == Some(&1),
            // Two invocations at the same time look like the first.
            Origin::Invocation => {
                let invocations = self.schedule.steps.iter().filter(|step| match &step.kind {
                    StepKind::Asynchronous { update } => Some(*update) == index,
                    _ => false,
                });
                invocations.count() <= 1
            }
            _ => true,
        }
    }

    /// 1: A function writes only after it has found the layout of the table to be its own.
    fn check_layouts(&mut self) {
        let windows = self.schedule.steps.iter().map(|step| match step.kind {
            StepKind::Window {
                scope: Scope::LayoutDenied | Scope::LayoutThrottled,
                millis,
            } if step.at == 0 => millis,
            _ => 0,
        });
        for used in &self.evidence.uses_of_copy {
            self.violations.push(Violation {
                guarantee: 1,
                description: format!("a copy of the table: {used}"),
            });
        }
        let unchecked = Duration::from_millis(windows.max().unwrap_or(0));
        for Written {
            record,
            author,
            process,
            at,
        } in &self.evidence.stream
        {
            let is_unchecked = matches!(author, Author::Writer(_) | Author::StreamFunction) && *at < unchecked;
            if is_unchecked || [Some(MISDEPLOYED), Some(OF_COPY)].contains(process) {
                let (entity, key) = (text(record, "/dynamodb/Keys/PK/S"), text(record, "/dynamodb/Keys/SK/S"));
                self.add(1, format!("{entity} {key} was written without a check of the layout"));
            }
        }
    }

    /// 7: Each version item has a time, also that of another program's version. Only a repair that has no record of the latest version
    /// stores none.
    fn check_recorded(&mut self) {
        let mut latest: HashMap<&str, &str> = HashMap::new();
        for Written { record, author, .. } in &self.evidence.stream {
            let (entity, key) = (text(record, "/dynamodb/Keys/PK/S"), text(record, "/dynamodb/Keys/SK/S"));
            if key == LATEST_KEY {
                latest.insert(entity, text(record, "/dynamodb/NewImage/Latest/N"));
            }
            let Some(version) = self.digits.version_of(key) else {
                continue;
            };
            let is_latest = || latest.get(entity).is_some_and(|latest| *latest == version.to_string());
            let is_known = match author {
                Author::Operator => !is_latest(),
                Author::Other => false,
                _ => true,
            };
            let is_put = text(record, "/eventName") == "INSERT";
            if is_known && is_put && text(record, "/dynamodb/NewImage/RecordedAt/S").is_empty() {
                self.add(7, format!("{entity} {key} has no time"));
            }
        }
    }

    /// 7: The times of the versions that a writer created strictly increase.
    fn check_times(&mut self, entity: &str, images: &[Image]) {
        let mut last: Option<&Image> = None;
        for image in images {
            if image.begins_times() || image.request.is_none() && self.sets_time(entity) {
                last = None;
            }
            if image.request.is_none() {
                continue;
            }
            let (version, recorded) = (image.version, image.recorded_at());
            let before = last.replace(image).filter(|last| last.era == image.era);
            if RecordedAt::parse(recorded).is_err() || before.is_some_and(|before| before.recorded_at() >= recorded) {
                let before = before.map(Image::recorded_at);
                let description =
                    format!("{entity} v{version}: recorded at {recorded:?}, the version before at {before:?}");
                self.add(7, description);
            }
        }
    }

    /// 7: The time of a version is at most 1 s later than the clocks of the processes that have written its entity.
    fn check_times_of_clocks(&mut self, entity: &str, images: &[Image]) {
        let is_far_ahead = |step: &Step| matches!(&step.kind, StepKind::FarAhead { entity: of, .. } if of == entity);
        if self.sets_time(entity) || self.schedule.steps.iter().any(is_far_ahead) {
            return;
        }
        let mut processes = BTreeMap::new();
        for image in images {
            let Written { process, at, .. } = &self.evidence.stream[image.index];
            // The clocks of operators and of stream-fn show virtual time.
            let number = process.unwrap_or(usize::MAX);
            processes
                .entry(number)
                .or_insert_with(|| ProcessClock::of(&self.schedule.settings, number));
            let fastest = processes.values().map(|clock| clock.latest(*at)).max();
            let recorded = RecordedAt::parse(image.recorded_at()).map_or(Duration::ZERO, RecordedAt::to_duration);
            let ahead = recorded.saturating_sub(fastest.unwrap_or_default());
            if image.request.is_some() && ahead > MAX_AHEAD {
                let (version, ahead) = (image.version, ahead.as_millis());
                let description = format!("{entity} v{version}: recorded {ahead} ms ahead of the fastest clock");
                self.add(7, description);
                return;
            }
        }
    }

    /// Returns `true` if another program replaces or removes the time of the latest item.
    fn sets_time(&self, entity: &str) -> bool {
        self.schedule.steps.iter().any(|step| match &step.kind {
            StepKind::OtherTime { entity: of, .. } | StepKind::PutLatest { entity: of, .. } => of == entity,
            _ => false,
        })
    }

    fn key(&self, version: u64) -> String {
        Version::new(version).map_or_else(String::new, |version| self.digits.version_key(version))
    }
}

/// Returns the partition key of the purge marker of an entity.
fn purge_marker_key(entity: &str) -> String {
    let mut key = "#vzero#purged#".to_owned();
    for byte in Sha256::digest(entity.as_bytes()) {
        let _ = write!(key, "{byte:02x}");
    }
    key
}

fn sequence_number(record: &Value) -> &str {
    text(record, "/dynamodb/SequenceNumber")
}
