//! 3, 4, 8: A request creates one version, the responses to upstream are exact, and every update gets one.

use std::collections::{BTreeMap, HashMap};

use shared::config::MARKER_RETENTION;

use crate::{
    check::{
        Check,
        model::{Entity, Image},
        state::State,
    },
    evidence::{Answer, UpstreamResponse},
    schedule::{Content, Edit, Origin, StepKind, Update},
};

/// Size of the attribute `Large` up to which an item surely fits.
const FITS: usize = 400_000;

impl<'a> Check<'a> {
    /// 3: A request creates one version.
    pub(super) fn check_request_ids(&mut self, entity: &str, images: &[Image]) {
        let (updates, floor) = (self.updates(), self.evidence.items.floor(entity));
        let mut seen: HashMap<&str, &Image> = HashMap::new();
        for image in images {
            let Some(request) = image.request else { continue };
            let Some(before) = seen.insert(request, image) else {
                continue;
            };
            let is_near = |window| image.version.saturating_sub(before.version + 1) < u64::from(window);
            let is_kept = before.version >= floor;
            let guaranteed = match self.schedule.settings.smallest_window() {
                // A purge deletes the markers, and they expire.
                None => !self.is_marked_as_purged(entity) && !self.has_expired_markers(),
                // Deleting v0 deletes the recent requests.
                Some(window) if image.deletions == before.deletions && is_near(window) => true,
                // A repair restores those of the newest versions.
                Some(window) if is_near(window) && is_kept && self.is_restored_with(before, image, images, entity) => {
                    true
                }
                // History has the other requests, unless an operator has written or removed versions, or has started a new
                // history.
                Some(_) if image.era > 0 || self.has_manual_version(entity) || !is_kept => false,
                Some(_) => updates
                    .get(&(request, entity))
                    .is_some_and(|(_, update)| self.is_traceable(update)),
            };
            if guaranteed {
                let (first, second) = (before.version, image.version);
                self.add::<3>(format!(
                    "{entity}: request {request} created versions {first} and {second}"
                ));
            }
        }
    }

    /// Returns `true` if the markers of the ledger expire in the schedule.
    fn has_expired_markers(&self) -> bool {
        let retention = u64::try_from(MARKER_RETENTION.as_millis()).unwrap_or(u64::MAX);
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
                let is_of = |kind: &StepKind| matches!(kind, StepKind::Asynchronous(update) if Some(*update) == index);
                let steps = self.schedule.steps.iter();
                steps.filter(|step| is_of(&step.kind)).count() <= 1
            }
            _ => true,
        }
    }

    pub(super) fn check_answers(&mut self, entities: &BTreeMap<&'a str, Entity<'a>>) {
        let none = Entity::default();
        for answer in &self.evidence.answers {
            let update = &self.schedule.updates[answer.update];
            let entity = entities.get(update.entity.as_str()).unwrap_or(&none);
            if let Err(reason) = self.is_correct(answer, update, entity) {
                let (entity, id, response) = (&update.entity, &update.id, &answer.response);
                self.add::<4>(format!("{entity} {id}: wrong response {response:?}: {reason}"));
            }
        }
        for (update, response) in &self.evidence.reused {
            let Update { entity, id, .. } = &self.schedule.updates[*update];
            self.add::<4>(format!(
                "{entity} {id}: another update with its request id got {response}"
            ));
        }
    }

    fn is_correct(&self, answer: &Answer, update: &Update, entity: &Entity) -> Result<(), &'static str> {
        let settings = &self.schedule.settings;
        // Before the response.
        let created = |version: Option<u64>| {
            let is_version = |image: &Image| version.is_none_or(|version| version == image.version);
            let is_it = |image: &&Image| image.carries == update.id && is_version(image);
            let first = entity.images.iter().find(is_it);
            first.is_some_and(|image| image.index < answer.to)
        };
        let mut own = entity.images.iter().filter(|image| image.request == Some(&update.id));
        let created_before = own.clone().any(|image| image.index < answer.from);
        // Only one delivery can have applied it.
        let created_now = own.find(|image| image.index >= answer.from);
        // Another update can come between the comparison and the update.
        let had_to_skip = settings.skip_unchanged
            && created_now.is_some_and(|image| {
                let mut states = entity.states_between(answer.from, image.index);
                states.all(|state| state.is_unchanged_by(update))
            });
        // An operator who deletes v0 lets history begin again.
        let was_applied = entity.era == 0 && created(None) && self.evidence.deliveries.get(&answer.update) == Some(&1);
        let at_some_time =
            |is_possible: &dyn Fn(&State) -> bool| entity.states_between(answer.from, answer.to).any(is_possible);
        let is_stale = || settings.by_time && at_some_time(&|state| state.is_later_than(update));
        let is_unchanged = || settings.skip_unchanged && at_some_time(&|state| state.is_unchanged_by(update));
        // A repair that raises the counter gives its number to the requests whose own numbers other versions have in history.
        let is_raised = |version: u64| {
            let is_taken = |image: &Image| image.carries == update.id && self.is_taken(&update.entity, image);
            let is_raise = |image: &Image| image.by_operator && image.version == version && image.index < answer.to;
            entity.images.iter().any(is_raise) && entity.images.iter().any(is_taken)
        };
        let require = |condition: bool, reason| if condition { Ok(()) } else { Err(reason) };
        match &answer.response {
            UpstreamResponse::Outcome(outcome, version) => match outcome.as_str() {
                "Written" if had_to_skip => Err("it changes nothing"),
                "Duplicate" if is_raised(*version) => require(created(None), "it was not applied"),
                "Written" | "Duplicate" => require(created(Some(*version)), "it did not create this version"),
                _ if was_applied => Err("it was applied"),
                "Unchanged" if created_before && self.is_remembered(update, entity) => {
                    Err("an earlier delivery was applied")
                }
                "Stale" => require(is_stale(), "no version is later"),
                "Unchanged" => require(is_unchanged(), "it changes the latest item"),
                _ => Err("unknown"),
            },
            UpstreamResponse::Accepted => {
                let is_done = created(None) || is_stale() || is_unchanged();
                require(is_done, "it created no version, and had to")
            }
            UpstreamResponse::Rejected(_) if was_applied => Err("it was applied"),
            UpstreamResponse::Rejected(kind) if kind == "VersionConflict" => {
                let conflicts = at_some_time(&|state| state.conflicts_with(update));
                require(
                    conflicts || self.can_fail(update),
                    "the latest version was the expected one",
                )
            }
            UpstreamResponse::Rejected(_) => {
                let has_no_map = at_some_time(&|state| state.has_no_map_for(update));
                require(has_no_map || self.can_fail(update), "the update is valid")
            }
        }
    }

    /// Returns `true` if the product knows each request of the entity, and each delivery of the update shows that there can be an
    /// earlier one.
    fn is_remembered(&self, update: &Update, entity: &Entity) -> bool {
        // A purge that was interrupted can have removed a part, and the markers of a ledger expire.
        let forgets = self.schedule.settings.window.is_none() && self.has_expired_markers();
        entity.era == 0 && !forgets && !self.can_fail(update) && self.is_traceable(update)
    }

    /// Returns `true` if history has a different item at the key of the image's version.
    fn is_taken(&self, entity: &str, image: &Image) -> bool {
        let stored = self.evidence.items.get(entity, &self.key(image.version));
        stored.is_some_and(|item| !image.is_stored_as(item))
    }

    /// 8: Functions respond before their timeout, and every update is answered once there are no more faults.
    pub(super) fn check_liveness(&mut self) {
        if self.evidence.overruns > 0 {
            let count = self.evidence.overruns;
            self.add::<8>(format!("{count} invocations did not end before their timeout"));
        }
        if !self.evidence.settled {
            self.add::<8>("the mapping did not reach the end of the stream".to_owned());
        }
        for (update, error) in &self.evidence.unanswered {
            let update = &self.schedule.updates[*update];
            if !self.can_fail(update) {
                let (entity, id) = (&update.entity, &update.id);
                self.add::<8>(format!("{entity} {id}: no response without faults: {error:?}"));
            }
        }
    }

    /// Returns `true` if an update can fail until an operator has repaired its entity.
    fn can_fail(&self, update: &Update) -> bool {
        let is_damage = |edit: &Edit| match edit {
            Edit::Delete | Edit::Recreate | Edit::WriteVersion(_) => true,
            // An update of such a large item can exceed its limit.
            Edit::Replace(content) => matches!(content, Content::Attributes | Content::Bytes),
            _ => false,
        };
        let size = update.members["Large"].as_str().map_or(0, str::len);
        size >= FITS || self.schedule.is_edited(&update.entity, is_damage) || self.has_lost_versions(&update.entity)
    }
}
