//! 2, 7: A change set is applied as a whole, at one time, and each of its versions says how many there are.

use std::collections::BTreeMap;

use crate::{
    check::{Check, model::Entity},
    requests::text,
};

impl<'a> Check<'a> {
    /// Returns `true` if there are change sets: each of them gives one time to several entities, also that of a clock that is ahead.
    pub(super) fn has_sets(&self) -> bool {
        (0..self.schedule.updates.len()).any(|update| self.schedule.set_of(update).len() > 1)
    }

    pub(super) fn check_sets(&mut self, entities: &BTreeMap<&'a str, Entity<'a>>) {
        for first in 0..self.schedule.updates.len() {
            let set = self.schedule.set_of(first);
            if set.len() < 2 || set[0] != first {
                continue;
            }
            let id = &self.schedule.updates[first].id;
            let mut written = Vec::new();
            for update in &set {
                let entity = self.schedule.updates[*update].entity.as_str();
                let images = entities.get(entity).map(|entity| entity.images.iter());
                let image = images.into_iter().flatten().find(|image| image.request == Some(id));
                written.extend(image.map(|image| {
                    let (recorded, size) = (image.recorded_at().to_owned(), text(&image.item, "/ChangeSetSize/N"));
                    (image.written.by.at, recorded, size.to_owned())
                }));
            }
            let Some((at, recorded, size)) = written.first().cloned() else {
                continue;
            };
            let is_whole = written.len() == set.len() && written.iter().all(|(other, ..)| *other == at);
            if !is_whole || size != set.len().to_string() || written.iter().any(|(.., other)| *other != size) {
                let applied = written.len();
                self.add::<2>(format!(
                    "{id}: {applied} of {} updates were applied together, with size {size}",
                    set.len()
                ));
            }
            if written.iter().any(|(_, other, _)| *other != recorded) {
                self.add::<7>(format!("{id}: its versions have different times"));
            }
        }
    }
}
