//! 1, 7: Readers see the stored versions, and the version that was the latest at a time.

use std::collections::{BTreeMap, BTreeSet};

use shared::domain::{keys::FLOOR_KEY, version::Version};

use crate::{
    check::{
        Check,
        model::{Entity, Image},
    },
    requests::text,
    stream::Written,
};

impl Check<'_> {
    /// 7: A read as of a time returns the last version that was recorded by then.
    pub(super) fn check_as_of(&mut self, entities: &BTreeMap<&str, Entity>) {
        let items = &self.evidence.items;
        for read in &self.evidence.as_of {
            let entity = read.entity.as_str();
            let version_of = |key: &str| self.digits.version_of(key).map(Version::get);
            let times = items.of(entity);
            let times = times.filter_map(|(key, item)| Some((version_of(key)?, text(item, "/RecordedAt/S"))));
            let times: BTreeMap<u64, &str> = times.collect();
            // Only a complete history has the times of all versions, and only one that no operator has started again.
            let is_deletion = |written: &Written| written.is_removal() && written.entity() == entity;
            let was_deleted = self.evidence.stream.iter().any(is_deletion);
            // A version before the floor, or one that was marked, cannot be read.
            let is_complete = items.get(entity, FLOOR_KEY).is_none()
                && times.len() as u64 == items.latest(entity).unwrap_or(0)
                && !times.is_empty();
            if was_deleted || !is_complete || times.values().any(|time| time.is_empty()) {
                continue;
            }
            // The time of a version of the model, or from the stream, which the model does not know.
            let images = entities.get(entity).map_or(&[][..], |entity| &entity.images);
            let time_of = |image: &Image| match image.recorded_at() {
                "" => times.get(&image.version).copied().unwrap_or_default().to_owned(),
                time => time.to_owned(),
            };
            // The recovery, which follows the reads, can create versions.
            let read_images = (images.iter()).filter(|image| image.index < self.evidence.recovered_from);
            let modelled: Vec<_> = read_images.map(|image| (image.version, time_of(image))).collect();
            // Another program has set the time back.
            if self.sets_time(entity) && !modelled.is_sorted_by_key(|(_, time)| time) {
                continue;
            }
            let expected = modelled.iter().rfind(|(_, time)| *time <= read.time);
            let expected = expected.map(|(version, _)| *version);
            if read.version != Ok(expected) {
                let (time, version) = (&read.time, &read.version);
                self.add::<7>(format!(
                    "{entity}: the version as of {time} is {version:?} instead of {expected:?}"
                ));
            }
        }
    }

    /// 1: A reader sees exactly the stored versions.
    pub(super) fn check_reads(&mut self) {
        let items = &self.evidence.items;
        for (entity, read) in &self.evidence.read {
            let read = match read {
                Ok(read) => read,
                Err(error) => {
                    self.add::<1>(format!("{entity}: a reader gets {error:?}"));
                    continue;
                }
            };
            let (latest, floor) = (items.latest(entity).unwrap_or(0), items.floor(entity));
            let versions = items.of(entity).filter_map(|(key, item)| {
                let version = self.digits.version_of(key)?.get();
                Some((version, item.get("TTL").is_some()))
            });
            let mut stored: BTreeMap<u64, bool> = versions.filter(|(version, _)| *version <= latest).collect();
            // The latest version is readable before its version item exists: v0 contains it.
            stored.entry(latest).or_default();
            // A pruned version can be read until it expires, and a prune that was interrupted leaves some without a time.
            let seen: BTreeSet<_> = read.iter().map(|(version, _)| *version).collect();
            let is_newest_first = read.is_sorted_by(|(before, _), (after, _)| before > after);
            let is_seen = |is_readable: &dyn Fn(u64, bool) -> bool| {
                let readable = stored
                    .iter()
                    .filter(|(version, marked)| is_readable(**version, **marked));
                is_newest_first && readable.map(|(version, _)| *version).eq(seen.iter().copied())
            };
            if !is_seen(&|version, _| version >= floor)
                && !is_seen(&|_, _| true)
                && !is_seen(&|version, marked| version >= floor || !marked)
            {
                self.add::<1>(format!(
                    "{entity}: a reader sees {seen:?} of {stored:?} from version {floor} on"
                ));
            }
            for (version, attributes) in read {
                // The latest version can be read from v0 alone.
                let Some(item) = items.get(entity, &self.key(*version)) else {
                    continue;
                };
                let is_stored =
                    |(name, value): (&String, &_)| serde_json::to_value(value).ok().as_ref() == item.get(name);
                if !attributes.iter().all(is_stored) {
                    self.add::<1>(format!("{entity} v{version}: a reader sees another state"));
                }
            }
        }
    }
}
