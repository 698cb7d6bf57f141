//! 1: A version that was pruned and has expired is not in history again.

use shared::domain::keys::FLOOR_KEY;

use super::{
    Check,
    model::{Entity, Image},
    text,
};
use crate::{
    caller::Author,
    schedule::{Command, Step, StepKind},
};

impl Check<'_> {
    /// 1: While the latest version is a tombstone, a prune keeps the version that an undelete restores.
    pub(super) fn check_tombstones(&mut self, name: &str, entity: &Entity) {
        let is_repair = |step: &Step| matches!(step.kind, StepKind::Command(Command::Repair | Command::Revive));
        // An undelete restores such a version, which is not among the images.
        let is_manual = self.evidence.manual_versions.iter().any(|(entity, _)| entity == name);
        if entity.era > 0 || is_manual || self.schedule.steps.iter().any(is_repair) {
            return;
        }
        let is_deleted = |image: &&Image| image.item["Deleted"]["BOOL"] == true;
        for (index, written) in self.evidence.stream[..self.evidence.recovered_from].iter().enumerate() {
            let record = &written.record;
            let is_floor =
                text(record, "/dynamodb/Keys/PK/S") == name && text(record, "/dynamodb/Keys/SK/S") == FLOOR_KEY;
            if !is_floor || written.author != Author::Operator {
                continue;
            }
            let before = entity.images.iter().filter(|image| image.index < index);
            let is_tombstone = before.clone().next_back().is_some_and(|image| is_deleted(&image));
            let kept = before.rev().find(|image| !is_deleted(image)).map(|image| image.version);
            let floor: u64 = text(record, "/dynamodb/NewImage/Floor/N").parse().unwrap_or(0);
            if is_tombstone && kept.is_some_and(|kept| kept < floor) {
                let kept = kept.unwrap_or_default();
                self.add(1, format!("{name} v{kept} was pruned, and an undelete restores it"));
            }
        }
    }

    /// 1: No record stores a pruned version again.
    pub(super) fn check_pruned(&mut self, name: &str, entity: &Entity) {
        // A later entity with the same key has its own versions.
        if entity.era > 0 || self.is_marked_as_purged(name) {
            return;
        }
        let items = &self.evidence.recovery.items;
        let is_in = |key: &str| {
            let mut items = items.iter();
            items.any(|item| text(item, "/PK/S") == name && text(item, "/SK/S") == key)
        };
        let mut again: Vec<_> = self
            .evidence
            .pruned
            .iter()
            .filter(|(entity, _)| entity == name)
            .collect();
        again.retain(|pruned| !self.evidence.manual_versions.contains(*pruned) && is_in(&pruned.1));
        let again: Vec<_> = again.into_iter().map(|(_, key)| key.clone()).collect();
        for key in again {
            self.add(1, format!("{name} {key} was pruned, and is in history again"));
        }
    }
}
