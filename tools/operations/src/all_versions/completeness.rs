//! Time until which the versions of all entities are complete, and what it rests on.

use std::{mem, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use shared::domain::{keys::VersionDigits, recorded_at::RecordedAt, time::EpochMillis};
use stream_fn::record::{self, Content};

use super::Counts;

/// Oldest of the versions or stream records that history lacks.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct OldestRecord {
    pub time: Option<String>,
    /// Number of those that name no time.
    pub without_time: u64,
}

impl OldestRecord {
    pub(crate) fn add(&mut self, record: &str, digits: VersionDigits) {
        self.add_time(time_of(record, digits));
    }

    pub(super) fn add_time(&mut self, time: Option<RecordedAt>) {
        let (time, without_time) = (time.map(|time| time.to_string()), u64::from(time.is_none()));
        *self = mem::take(self).with(&Self { time, without_time });
    }

    pub(super) fn with(self, other: &Self) -> Self {
        Self {
            time: self.time.into_iter().chain(other.time.clone()).min(),
            without_time: self.without_time + other.without_time,
        }
    }
}

/// Returns the time of the version that a record would be: its own or that of the stream, if it is earlier.
fn time_of(record: &str, digits: VersionDigits) -> Option<RecordedAt> {
    let record = record::parse(record, digits);
    let own = match &record.content {
        Ok(Content::Version(version)) => RecordedAt::of(version.item()),
        _ => None,
    };
    let created = record
        .created_micros
        .map(|micros| RecordedAt::from_millis(EpochMillis::from_micros(micros)));
    own.into_iter().chain(created).min()
}

/// What the completeness of a search for versions rests on.
#[derive(Debug)]
pub struct Completeness<'a> {
    pub start: RecordedAt,
    pub counts: &'a Counts,
    /// `false` for the index, which lacks records in quarantine and what is not in history yet.
    pub is_scan: bool,
    /// `true` if latest items tell how far history lags. Attached tables have none.
    pub has_latest_items: bool,
    /// Records in failure documents, if they were read before the start.
    pub failures: Option<&'a OldestRecord>,
}

impl Completeness<'_> {
    /// Returns two minutes before the start: a scan finds all older versions, unless the stream is late. The time is for
    /// differences of clocks, the usual lag of the stream, and eventually consistent reads.
    fn before_start(&self) -> RecordedAt {
        RecordedAt::since_epoch(self.start.to_duration().saturating_sub(Duration::from_secs(120)))
    }

    /// Returns what history lacks, each with the names of its time and of the number of those without a time.
    fn lacking(&self) -> [([&'static str; 2], Option<&OldestRecord>); 3] {
        let Counts {
            missing, quarantined, ..
        } = self.counts;
        [
            (["OldestMissingVersion", "MissingWithoutTime"], Some(missing)),
            (["OldestInQuarantine", "InQuarantineWithoutTime"], Some(quarantined)),
            (["OldestFailureDocument", "FailureDocumentsWithoutTime"], self.failures),
        ]
    }

    /// Returns the time before which all versions were found, as far as it is known, and the name of what it rests on.
    pub fn until(&self) -> (RecordedAt, &'static str) {
        let start = (self.before_start(), "TwoMinutesBeforeStart");
        let time = |oldest: &OldestRecord| RecordedAt::parse(oldest.time.as_ref()?).ok();
        let oldest = self.lacking().into_iter();
        let oldest = oldest.filter_map(|([name, _], oldest)| Some((time(oldest?)?, name)));
        oldest.chain([start]).min_by_key(|(time, _)| *time).unwrap_or(start)
    }

    /// Returns what is not known.
    pub fn not_known(&self) -> Vec<&'static str> {
        let parts = [
            ("StreamIteratorAge", self.is_scan && self.has_latest_items),
            ("FailureDocuments", self.failures.is_some()),
            ("Quarantine", self.is_scan),
        ];
        let unknown = parts.into_iter().filter(|(_, is_known)| !is_known);
        unknown.map(|(name, _)| name).collect()
    }

    /// Returns the numbers of entities with missing versions, records in quarantine, and failed records whose time is not known.
    pub fn without_time(&self) -> [u64; 3] {
        self.lacking()
            .map(|(_, oldest)| oldest.map_or(0, |oldest| oldest.without_time))
    }

    /// Returns `{"CompleteUntil": …, "RestsOn": {"TwoMinutesBeforeStart": …, "OldestMissingVersion": …, "MissingWithoutTime": 0, …,
    /// "NotKnown": […]}}`.
    pub fn to_json(&self) -> Value {
        let mut rests_on = json!({"TwoMinutesBeforeStart": self.before_start().to_string()});
        for ([name, name_of_count], oldest) in self.lacking() {
            rests_on[name] = json!(oldest.and_then(|oldest| oldest.time.as_ref()));
            rests_on[name_of_count] = json!(oldest.map_or(0, |oldest| oldest.without_time));
        }
        rests_on["NotKnown"] = json!(self.not_known());
        json!({"CompleteUntil": self.until().0.to_string(), "RestsOn": rests_on})
    }
}
