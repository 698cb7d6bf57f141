//! Repair plan of an entity from its audit findings. No step overwrites a version.

use crate::{
    audit::collection::Finding,
    latest::recount::{Counter, recount},
};
use shared::domain::{
    AttributeValue, Item,
    attribution::{self, Writer},
    keys::{LATEST_KEY, VersionDigits},
    marks::unmarked,
    names,
    quarantine::QuarantinedRecord,
    version::Version,
    version_item::{InvalidImage, VersionItem, latest_of},
    version_set::VersionSet,
};

/// Maximum number of missing versions between the latest item, or the floor, and the version from which a repair continues
/// the counter. More of them are the sign of an item that does not belong to the entity: a counter that follows it cannot be
/// set back.
pub const MAX_MISSING: u64 = 10_000;

/// Maximum number from which a repair continues a counter, also above a floor: a partition takes at most 1,000 updates a second,
/// and reaches it after 31 years.
pub const MAX_COUNT: u64 = 1_000_000_000_000;

/// Repair step.
#[derive(Debug, Clone)]
pub enum Step {
    /// Puts the version item of the latest item, which is missing.
    Put(VersionItem),
    /// Raises the latest item's number: its counter was set back below existing versions. The latest item becomes the version
    /// after the highest one, or the highest one if both are equal.
    Raise {
        /// Current number.
        from: Version,
        /// New number.
        to: Version,
    },
    /// Sets `Latest` of a latest item that has none: another client wrote it. The latest item becomes the version after the
    /// highest one, or the highest one if both are equal.
    Adopt {
        /// New number.
        to: Version,
    },
    /// Moves a latest item from the padded sort key of version 0, such as `v00`, to `v0`.
    Move {
        /// Item at the padded key.
        padded: Item,
        /// Latest item to put.
        latest: Item,
        /// Its number.
        version: Version,
    },
    /// Puts the version in a quarantined record, unless it is stored already, and deletes the record from quarantine.
    Release {
        /// Version to put.
        version: VersionItem,
        /// Record to delete.
        record: QuarantinedRecord,
    },
    /// Begins a new sequence of times: the time of the latest item is far ahead. The latest item becomes the next version, with
    /// the same state.
    Retime {
        /// Number of the latest item.
        from: Version,
        /// New number.
        to: Version,
    },
    /// Continues the counter above the floor, see [`recount`].
    Recount {
        /// Number of the latest item.
        from: Counter,
        /// New number.
        to: Version,
    },
    /// Restores a deleted latest item from the highest version.
    Revive {
        /// Highest version.
        version: Version,
        /// Latest item to put.
        latest: Item,
    },
}

impl Step {
    /// Returns `true` if the step gives a version number to a latest item. It must then be checked again that there is no
    /// higher version.
    pub fn is_numbering(&self) -> bool {
        !matches!(self, Self::Put(_) | Self::Release { .. })
    }
}

/// Repair plan of an entity.
#[derive(Debug, Default)]
pub struct Plan {
    /// Steps that need only the entity's items.
    pub steps: Vec<Step>,
    /// Versions that must be restored from another source.
    pub missing: VersionSet,
    /// Findings that cannot be repaired.
    pub left: Vec<Finding>,
}

/// Returns the highest version that conflicts with the latest item, or exists without one.
pub fn highest(findings: &[Finding]) -> Option<Version> {
    let highest = findings.iter().filter_map(|finding| match finding {
        Finding::Stray { to, .. } | Finding::Orphan { to, .. } => Some(*to),
        Finding::LatestDiffers { version } => Some(*version),
        _ => None,
    });
    highest.max()
}

/// Returns the highest version if no repair continues from it: it is above [`MAX_COUNT`], or more than [`MAX_MISSING`] versions
/// are missing between it and the latest item, or the floor if there is none or it is higher.
pub fn out_of_reach(findings: &[Finding], latest: Option<Version>, floor: Version) -> Option<Version> {
    let highest = highest(findings)?;
    let mut existing = VersionSet::default();
    for finding in findings {
        if let Finding::Stray { from, to } | Finding::Orphan { from, to } = finding {
            existing.insert_range(from.get(), to.get());
        }
    }
    let first = latest.map_or(1, |latest| latest.get() + 1).max(floor.get());
    let is_far = highest.get() > MAX_COUNT || existing.gaps(first, highest.get()).len() > MAX_MISSING;
    is_far.then_some(highest)
}

/// Plans the repair of these findings. `top` is the item of the [`highest`] version. A missing latest item is restored only
/// if `revive`. If the highest version is [out of reach](out_of_reach), the latest item stays as it is.
pub fn plan(
    findings: &[Finding],
    latest: Option<&Item>,
    top: Option<&Item>,
    floor: Version,
    revive: bool,
    digits: VersionDigits,
) -> Plan {
    let mut plan = Plan::default();
    let number = latest.map(latest_of).and_then(Result::ok);
    if out_of_reach(findings, number, floor).is_some() {
        for finding in findings {
            match finding {
                Finding::Gap { from, to } => plan.missing.insert_range(from.get(), to.get()),
                Finding::Quarantined { .. } | Finding::Lagging { .. } => {}
                finding => plan.left.push(*finding),
            }
        }
        return plan;
    }
    let mut existing = VersionSet::default();
    for finding in findings {
        match finding {
            Finding::Gap { from, to } => plan.missing.insert_range(from.get(), to.get()),
            Finding::Stray { from, to } => existing.insert_range(from.get(), to.get()),
            Finding::Orphan { from, to } if (revive && latest.is_none()) || is_uncounted(latest) => {
                existing.insert_range(from.get(), to.get());
            }
            Finding::NoVersion {
                why: InvalidImage::NoLatest,
            } if is_uncounted(latest) => {}
            Finding::Orphan { .. } | Finding::NoVersion { .. } | Finding::Unpruned { .. } => plan.left.push(*finding),
            // Each record in quarantine needs its own step, or cannot be repaired.
            Finding::LatestDiffers { .. }
            | Finding::Ahead { .. }
            | Finding::Lagging { .. }
            | Finding::BelowFloor { .. }
            | Finding::Quarantined { .. }
            // Findings of attached tables, which have no repair.
            | Finding::Differs { .. }
            | Finding::Unordered { .. }
            | Finding::Late { .. }
            | Finding::Missed { .. }
            | Finding::Omitted { .. } => {}
        }
    }
    if let Some(floor) = findings.iter().find_map(Finding::uncounted_floor) {
        if floor.get() > MAX_COUNT {
            plan.left.push(Finding::BelowFloor { floor });
            return plan;
        }
        plan.steps
            .extend(recount(floor, latest).map(|(from, to)| Step::Recount { from, to }));
        return plan;
    }
    match (latest, number, highest(findings).zip(top)) {
        // The counter was set back: the version with the latest item's number is a different state.
        (Some(latest), Some(number), Some((highest, top))) if highest >= number => {
            let beyond = number.get().saturating_add(1);
            plan.add_missing(&existing.gaps(beyond, highest.get()));
            plan.steps
                .extend(raise(latest, number, &(highest, top.clone()), digits));
        }
        (Some(latest), Some(number), _) if plan.missing.contains(number.get()) => {
            if let Ok(version) = VersionItem::from_image(latest.clone(), digits) {
                plan.missing = plan.missing.without(&VersionSet::from_iter([number.get()]));
                plan.steps.push(Step::Put(version));
            }
        }
        (Some(uncounted), None, highest) if is_uncounted(latest) => {
            let highest = highest.map(|(version, top)| (version, top.clone()));
            if let Some((highest, _)) = &highest {
                let first = existing.ranges().next().map_or(1, |(first, _)| first);
                plan.add_missing(&existing.gaps(first, highest.get()));
            }
            plan.steps
                .extend(adopted(uncounted, highest.as_ref(), digits).map(|to| Step::Adopt { to }));
        }
        (None, _, Some((highest, top))) if revive => {
            let first = existing.ranges().next().map_or(1, |(first, _)| first);
            plan.add_missing(&existing.gaps(first, highest.get()));
            plan.steps.push(Step::Revive {
                version: highest,
                latest: revived(top, highest),
            });
        }
        _ => {}
    }
    // Another step that numbers the latest item begins a new sequence of times too.
    let is_ahead = findings.iter().any(|finding| matches!(finding, Finding::Ahead { .. }));
    if is_ahead
        && !plan.steps.iter().any(Step::is_numbering)
        && let Some((from, to)) = number.and_then(|from| Some((from, Version::new(from.get() + 1)?)))
    {
        plan.steps.push(Step::Retime { from, to });
    }
    plan
}

impl Plan {
    fn add_missing(&mut self, versions: &VersionSet) {
        for (from, to) in versions.ranges() {
            self.missing.insert_range(from, to);
        }
    }
}

/// Returns `true` if there is a latest item without `Latest`.
fn is_uncounted(latest: Option<&Item>) -> bool {
    latest.is_some_and(|latest| !latest.contains_key(names::LATEST))
}

/// Returns the number of a latest item without `Latest`: that of the highest version if both are equal, otherwise the next
/// one. `None` if there is no higher one.
pub fn adopted(latest: &Item, highest: Option<&(Version, Item)>, digits: VersionDigits) -> Option<Version> {
    let Some((highest, top)) = highest else {
        return Some(Version::FIRST);
    };
    let same = VersionItem::from_image(at(latest, *highest), digits).is_ok_and(|made| made.is_same_as(top));
    match same {
        true => Some(*highest),
        false => highest.get().checked_add(1).and_then(Version::new),
    }
}

/// Plans to move a latest item from the padded key of version 0 to `v0`. It keeps its number, if that is above the
/// highest version. Otherwise it gets that of the highest version if both are equal, or the next one.
pub fn move_padded(padded: &Item, highest: Option<&(Version, Item)>, digits: VersionDigits) -> Option<Step> {
    let own = latest_of(padded).ok();
    let is_counted = own.is_some_and(|own| highest.is_none_or(|(highest, _)| *highest < own));
    let version = match own {
        Some(own) if is_counted => own,
        _ => adopted(padded, highest, digits)?,
    };
    Some(Step::Move {
        padded: padded.clone(),
        latest: at(padded, version),
        version,
    })
}

fn raise(latest: &Item, from: Version, highest: &(Version, Item), digits: VersionDigits) -> Option<Step> {
    let to = adopted(latest, Some(highest), digits)?;
    (to > from).then_some(Step::Raise { from, to })
}

/// Returns a latest item as that of another version.
fn at(latest: &Item, version: Version) -> Item {
    let own = latest_of(latest).is_ok_and(|current| Writer::of(latest, current) == Writer::Own);
    let mut latest = latest.clone();
    let number = AttributeValue::N(version.to_string());
    latest.insert(names::SK.to_owned(), AttributeValue::S(LATEST_KEY.to_owned()));
    latest.insert(names::LATEST.to_owned(), number.clone());
    if own {
        latest.insert(names::RECORDED_VERSION.to_owned(), number);
    }
    latest
}

/// Returns the latest item whose current version is this version item.
pub fn revived(top: &Item, version: Version) -> Item {
    let mut latest = attribution::latest_from(unmarked(top), version);
    latest.insert(names::SK.to_owned(), AttributeValue::S(LATEST_KEY.to_owned()));
    latest
}

#[cfg(test)]
mod tests;
