//! 7: Each version has a time, which is later than that of the version before, and hardly ahead of the clocks. Readers see the version
//! that was the latest at a time.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use shared::domain::{
    keys::{FLOOR_KEY, LATEST_KEY},
    recorded_at::RecordedAt,
    version::Version,
};

use crate::{
    caller::Author,
    check::{
        Check,
        model::{Entity, Image},
    },
    clock::ProcessClock,
    requests::text,
    schedule::Edit,
    stream::Written,
};

/// Maximum time by which a version can be recorded ahead of the fastest clock that has written its entity.
const MAX_AHEAD: Duration = Duration::from_secs(1);

impl Check<'_> {
    /// 7: Each version item has a time, also that of another program's version. Only a repair that has no record of the latest version
    /// stores none.
    pub(super) fn check_recorded(&mut self) {
        let mut latest: HashMap<&str, &str> = HashMap::new();
        for written in &self.evidence.stream {
            let (entity, key) = (written.entity(), written.key());
            if key == LATEST_KEY {
                latest.insert(entity, text(written.image(), "/Latest/N"));
            }
            let Some(version) = self.digits.version_of(key) else {
                continue;
            };
            let is_latest = || latest.get(entity).is_some_and(|latest| *latest == version.to_string());
            let is_known = match written.by.author {
                Author::Operator => !is_latest(),
                Author::Other => false,
                _ => true,
            };
            if is_known && written.event() == "INSERT" && text(written.image(), "/RecordedAt/S").is_empty() {
                self.add::<7>(format!("{entity} {key} has no time"));
            }
        }
    }

    /// 7: The times of the versions that a writer created strictly increase.
    pub(super) fn check_times(&mut self, entity: &str, images: &[Image]) {
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
            let before = before.map(Image::recorded_at);
            if RecordedAt::parse(recorded).is_err() || before.is_some_and(|before| before >= recorded) {
                self.add::<7>(format!(
                    "{entity} v{version}: recorded at {recorded:?}, the one before at {before:?}"
                ));
            }
        }
    }

    /// 7: The time of a version is at most 1 s later than the clocks of the processes that have written its entity.
    pub(super) fn check_times_of_clocks(&mut self, entity: &str, images: &[Image]) {
        let is_far_ahead = |edit: &Edit| matches!(edit, Edit::FarAhead(_));
        if self.has_sets() || self.sets_time(entity) || self.schedule.is_edited(entity, is_far_ahead) {
            return;
        }
        let mut processes = BTreeMap::new();
        for image in images {
            let written = image.written;
            // The clocks of operators and of stream-fn show virtual time.
            let number = written.by.process.unwrap_or(usize::MAX);
            let clock = || ProcessClock::of(&self.schedule.settings, number);
            processes.entry(number).or_insert_with(clock);
            let fastest = processes.values().map(|clock| clock.latest(written.by.at)).max();
            let recorded = RecordedAt::parse(image.recorded_at()).map_or(Duration::ZERO, RecordedAt::to_duration);
            let ahead = recorded.saturating_sub(fastest.unwrap_or_default());
            if image.request.is_some() && ahead > MAX_AHEAD {
                let (version, ahead) = (image.version, ahead.as_millis());
                self.add::<7>(format!(
                    "{entity} v{version}: recorded {ahead} ms ahead of the fastest clock"
                ));
                return;
            }
        }
    }

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

    /// Returns `true` if another program replaces or removes the time of the latest item.
    pub(super) fn sets_time(&self, entity: &str) -> bool {
        let sets = |edit: &Edit| matches!(edit, Edit::OtherTime(_) | Edit::Replace(_));
        self.schedule.is_edited(entity, sets)
    }
}
