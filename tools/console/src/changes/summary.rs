//! Counts of the versions that a filter selects from a result, and their time line.

use std::{collections::BTreeMap, sync::Arc};

use operations::{
    all_versions::{filter::key_words, tally::Tally},
    error::OperationError,
};
use serde_json::{Value, json};
use shared::{
    domain::{recorded_at::RecordedAt, time::EpochMillis},
    dynamodb::Store,
};

use super::{cost::Cost, filter::Filter, line::Line, scan::Scan};
use crate::lock::lock;

/// Versions of a page.
const PAGE: u64 = 50;
/// Maximum number of bars.
const BARS: i64 = 60;
/// Maximum number of names of a group in JSON.
const NAMES: usize = 1000;
/// Widths of bars, in seconds.
const WIDTHS: [i64; 16] = [
    1, 5, 10, 30, 60, 300, 600, 1800, 3600, 10_800, 21_600, 43_200, 86_400, 604_800, 2_592_000, 31_536_000,
];

pub(super) struct Summary {
    pub(super) tally: Tally,
    pub(super) missing: u64,
    pub(super) undated: u64,
    pub(super) completeness: Value,
    /// First and last time of the time line.
    pub(super) period: Option<[i64; 2]>,
    pub(super) width: i64,
    /// Number of versions by the start of their bar.
    pub(super) bars: BTreeMap<i64, u64>,
    /// Versions of the page.
    pub(super) lines: Vec<Line>,
    pub(super) cost: Arc<Cost>,
}

impl Summary {
    /// Reads all versions, and keeps those of a page, from 0.
    pub(super) fn of(scan: &Scan, filter: &Filter, store: &Store, page: u64) -> Result<Self, OperationError> {
        let mut found = lock(&scan.found);
        let none = || OperationError::NotFound("result".to_owned());
        let found = found.as_mut().ok_or_else(none)?;
        let ends = found.times.map(|[oldest, newest]| {
            let ends = [
                filter.scanned.since.unwrap_or(oldest),
                filter.scanned.until.unwrap_or(newest),
            ];
            ends.map(|time| time.floor_millis().get())
        });
        let period = ends.filter(|[first, last]| first <= last);
        let length = period.map_or(0, |[first, last]| last - first);
        let mut widths = WIDTHS.into_iter().map(|width| width * 1000);
        let width = widths.find(|width| length / width < BARS - 1);
        let mut summary = Self {
            tally: Tally::default(),
            missing: found.missing,
            undated: found.counts.undated,
            completeness: found.completeness.clone(),
            period,
            width: width.unwrap_or(length / BARS + 1),
            bars: BTreeMap::new(),
            lines: Vec::new(),
            cost: Arc::clone(&found.cost),
        };
        for line in found.lines.read_from(0)? {
            let (line, _) = line?;
            if !filter.selects(&line, store) {
                continue;
            }
            let names = [&line.actor, &line.reason, &line.change_set].map(Clone::clone);
            let key = key_words(store, &line.entity).join(" ");
            summary.tally.add(names, &key, line.paths.as_ref());
            if let Some(time) = line.time() {
                let millis = time.floor_millis().get();
                *summary
                    .bars
                    .entry(millis - millis.rem_euclid(summary.width))
                    .or_default() += 1;
            }
            if (summary.tally.versions - 1) / PAGE == page {
                summary.lines.push(line);
            }
        }
        Ok(summary)
    }

    pub(super) fn page_count(&self) -> u64 {
        self.tally.versions.div_ceil(PAGE)
    }

    pub(super) fn ends(&self, start: i64) -> [RecordedAt; 2] {
        let end = RecordedAt::from_millis(EpochMillis::new(start + self.width - 1));
        let last = std::time::Duration::from_nanos(999_999);
        [RecordedAt::from_millis(EpochMillis::new(start)), end.after(last)]
    }

    /// Returns `{"Versions": 7, "Actor": [{"Name": …, "Versions": 2}], …, "TimeLine": [{"Since": …, "Until": …, "Versions": 2}]}`.
    pub(super) fn to_json(&self) -> Value {
        let bars = self.bars.iter().map(|(start, count)| {
            let [since, until] = self.ends(*start).map(|time| time.to_string());
            json!({"Since": since, "Until": until, "Versions": count})
        });
        let mut json = json!({"Versions": self.tally.versions, "TimeLine": bars.collect::<Vec<_>>()});
        for (group, names) in self.tally.groups() {
            let names = names.into_iter().take(NAMES);
            json[group] = names
                .map(|(name, count)| json!({"Name": name, "Versions": count}))
                .collect();
        }
        json
    }
}
