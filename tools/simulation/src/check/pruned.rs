//! 1: A version that was pruned and has expired is not in history again.

use super::{Check, model::Entity, text};

impl Check<'_> {
    /// 1: No record stores a pruned version again.
    pub(super) fn check_pruned(&mut self, name: &str, entity: &Entity) {
        // A later entity with the same key has its own versions.
        if entity.era > 0 || entity.is_restored_below || self.is_marked_as_purged(name) {
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
