//! Plan of the steps for which an entity's own items suffice.

use shared::{
    domain::{
        AttributeValue, Item,
        entity::EntityId,
        keys::{LATEST_KEY, VersionDigits},
        marks::unmarked,
        names,
        version::Version,
        version_item::{InvalidImage, VersionItem, latest_of},
    },
    dynamodb::{Store, client::error::ServiceError},
};

use super::step::{Action, Change, Kind, Numbering};
use crate::{
    audit::collection::Finding,
    latest::{adopted, from_version::latest_from, moved},
    version_set::VersionSet,
};

/// Maximum number of missing versions between the latest item, or the floor, and the version from which a repair continues
/// the counter. More of them are the sign of an item that does not belong to the entity: a counter that follows it cannot be
/// set back.
pub(super) const MAX_MISSING: u64 = 10_000;
/// Maximum number from which a repair continues a counter, also above a floor: a partition takes at most 1,000 updates a second,
/// and reaches it after 31 years.
const MAX_COUNT: u64 = 1_000_000_000_000;

/// More than [`MAX_MISSING`] versions are missing.
const OUT_OF_REACH: &str = "more than 10000 versions before the highest one are missing: delete its item if it does not belong to \
                            the entity";

/// Items of an entity with findings.
#[derive(Debug)]
pub(super) struct Known {
    latest: Option<Item>,
    /// Latest item at the padded key of version 0, if there is none at its own.
    padded: Option<Item>,
    /// Number of the latest item, also at a padded key.
    counted: Option<Version>,
    /// Highest version that conflicts with the latest item, or exists without one.
    highest: Option<Version>,
    /// Item of the highest version.
    top: Option<Item>,
    floor: Version,
    /// `true` if the highest version was purged, as far as it was read.
    is_purged: bool,
    /// `true` if no repair continues from the highest version, see [`is_out_of_reach`].
    is_out_of_reach: bool,
}

/// Repair plan of an entity.
#[derive(Debug, Default)]
pub(super) struct Own {
    /// Steps that need only the entity's items.
    pub(super) actions: Vec<Action>,
    /// Versions that must be restored from another source.
    pub(super) missing: VersionSet,
    /// Findings that cannot be repaired, with the reason.
    pub(super) left: Vec<(Finding, &'static str)>,
}

impl Known {
    pub(super) async fn read(
        store: &Store,
        entity: &EntityId,
        findings: &[Finding],
        revive: bool,
    ) -> Result<Self, ServiceError> {
        let (digits, highest) = (store.digits(), highest(findings));
        let get = async |key: Option<String>| match key {
            Some(key) => store.get(entity, &key, true).await,
            None => Ok(None),
        };
        let latest = get(Some(LATEST_KEY.to_owned())).await?;
        let top = get(highest.map(|highest| digits.version_key(highest))).await?;
        let padded = get(digits.padded_latest_key().filter(|_| latest.is_none())).await?;
        let is_purged = match (&latest, highest.zip(top.as_ref())) {
            (None, Some((highest, top))) if revive => {
                let markers = store.removed([entity], false).await?;
                let marker = markers.marker(entity);
                marker.is_some_and(|marker| marker.covers_item(top, highest))
            }
            _ => false,
        };
        let floor = store.floor(entity, true).await?;
        Ok(Self {
            is_purged,
            ..Self::of(findings, latest, padded, top, floor)
        })
    }

    fn of(findings: &[Finding], latest: Option<Item>, padded: Option<Item>, top: Option<Item>, floor: Version) -> Self {
        let counted = latest.as_ref().or(padded.as_ref());
        let counted = counted.and_then(|latest| latest_of(latest).ok());
        Self {
            is_out_of_reach: is_out_of_reach(findings, counted, floor),
            latest,
            padded,
            counted,
            highest: highest(findings),
            top,
            floor,
            is_purged: false,
        }
    }

    /// Returns the highest number that the entity is known to have.
    pub(super) fn highest_known(&self) -> Version {
        let highest = self.highest.filter(|_| !self.is_out_of_reach);
        self.counted.into_iter().chain(highest).fold(self.floor, Version::max)
    }

    /// Returns `true` if versions can exist above the highest one that is known.
    pub(super) fn is_doubtful(&self) -> bool {
        let is_uncounted = self.latest.is_some() && self.counted.is_none();
        (self.highest.is_some() || is_uncounted) && !self.is_out_of_reach
    }

    /// Plans the repair of these findings. A missing latest item is restored only if `revive`. If the highest version is out of
    /// reach, the latest item stays as it is.
    pub(super) fn plan(&self, findings: &[Finding], revive: bool, digits: VersionDigits) -> Own {
        let mut own = Own::default();
        let (latest, top) = (self.latest.as_ref(), self.highest.zip(self.top.clone()));
        if let Some(padded) = self.padded.as_ref().filter(|_| !self.is_out_of_reach)
            && let Some((to, latest)) = moved(padded, top.as_ref(), digits)
        {
            let padded = padded.clone();
            own.actions
                .push(self.number(Kind::Move, Change::Move { padded, latest }, to));
            return own;
        }
        let revive = revive && !self.is_purged;
        let is_uncounted = latest.is_some_and(|latest| !latest.contains_key(names::LATEST));
        let mut existing = VersionSet::default();
        for finding in findings {
            match finding {
                Finding::Gap { from, to } => own.missing.insert_range(from.get(), to.get()),
                // Each record in quarantine needs its own step, or cannot be repaired.
                Finding::Quarantined { .. } | Finding::Lagging { .. } => {}
                _ if self.is_out_of_reach => own.left.push((*finding, self.why(finding))),
                Finding::Stray { from, to } => existing.insert_range(from.get(), to.get()),
                Finding::Orphan { from, to } if (revive && latest.is_none()) || is_uncounted => {
                    existing.insert_range(from.get(), to.get());
                }
                Finding::NoVersion { why } if *why == InvalidImage::NoLatest && is_uncounted => {}
                Finding::BelowFloor { floor } if floor.get() <= MAX_COUNT => {}
                Finding::Orphan { .. }
                | Finding::NoVersion { .. }
                | Finding::BelowFloor { .. }
                | Finding::Unpruned { .. } => own.left.push((*finding, self.why(finding))),
                // Repaired below; or of attached tables, which have no repair.
                _ => {}
            }
        }
        if self.is_out_of_reach {
            return own;
        }
        if let Some(floor) = findings.iter().find_map(uncounted_floor) {
            own.actions
                .extend((floor.get() <= MAX_COUNT).then(|| self.recounted(floor)).flatten());
            return own;
        }
        // The step that gives the latest item a number, and the version after which the existing ones must have no gap.
        let adopted = || adopted(latest?, top.as_ref(), digits);
        let first = existing.ranges().next().map_or(1, |(first, _)| first);
        let (numbering, first) = match (latest, self.counted, &top) {
            // The counter was set back: the version with the latest item's number is a different state.
            (Some(_), Some(number), Some((highest, _))) if *highest >= number => {
                let to = adopted().filter(|to| *to > number);
                let raise = to.map(|to| (Kind::Raise, Change::Raise(Some(number)), to));
                (raise, number.get().saturating_add(1))
            }
            (Some(latest), Some(number), _) if own.missing.contains(number.get()) => {
                if let Ok(version) = VersionItem::from_image(latest.clone(), digits) {
                    own.missing = own.missing.without(&VersionSet::from_iter([number.get()]));
                    let source = LATEST_KEY.to_owned();
                    own.actions.push(Action::Put { version, source });
                }
                (None, u64::MAX)
            }
            (Some(_), None, _) if is_uncounted => (adopted().map(|to| (Kind::Adopt, Change::Raise(None), to)), first),
            (None, _, Some((highest, top))) if revive => {
                let revived = Change::Create(Some(revived(top, *highest)));
                (Some((Kind::Revive, revived, *highest)), first)
            }
            _ => (None, u64::MAX),
        };
        if let Some((highest, _)) = top {
            for (from, to) in existing.gaps(first, highest.get()).ranges() {
                own.missing.insert_range(from, to);
            }
        }
        // Another step that numbers the latest item begins a new sequence of times too.
        let is_ahead = findings.iter().any(|finding| matches!(finding, Finding::Ahead { .. }));
        let numbering = numbering.or_else(|| {
            let from = self.counted.filter(|_| is_ahead)?;
            Some((Kind::Retime, Change::Raise(Some(from)), next(from)?))
        });
        own.actions
            .extend(numbering.map(|(kind, change, to)| self.number(kind, change, to)));
        own
    }

    fn number(&self, kind: Kind, change: Change, to: Version) -> Action {
        let highest = self.highest;
        Action::Number(Numbering {
            kind,
            change,
            to,
            highest,
        })
    }

    /// Returns `None` if the latest item has an invalid `Latest`, or if there is no higher number than the floor.
    fn recounted(&self, floor: Version) -> Option<Action> {
        let change = match &self.latest {
            None => Change::Create(None),
            Some(latest) if !latest.contains_key(names::LATEST) => Change::Raise(None),
            Some(latest) => Change::Raise(Some(latest_of(latest).ok()?)),
        };
        Some(self.number(Kind::Recount, change, next(floor)?))
    }

    /// Returns the reason why no step repairs a finding.
    fn why(&self, finding: &Finding) -> &'static str {
        match finding {
            Finding::Stray { .. }
            | Finding::Orphan { .. }
            | Finding::NoVersion { .. }
            | Finding::LatestDiffers { .. }
                if self.is_out_of_reach =>
            {
                OUT_OF_REACH
            }
            Finding::Orphan { .. } if self.is_purged => {
                "the entity was purged; vzero admin purge deletes these versions"
            }
            Finding::Orphan { .. } => "there is no latest item; --revive creates it from the highest version",
            Finding::BelowFloor { .. } => {
                "the floor is too far above the versions: delete the item floor if it does not belong to the entity"
            }
            Finding::Unpruned { .. } => "vzero admin prune removes them",
            _ => "the latest item contains no valid version",
        }
    }
}

fn next(version: Version) -> Option<Version> {
    version.get().checked_add(1).and_then(Version::new)
}

fn uncounted_floor(finding: &Finding) -> Option<Version> {
    match finding {
        Finding::BelowFloor { floor } => Some(*floor),
        _ => None,
    }
}

/// Returns the highest version that conflicts with the latest item, or exists without one.
fn highest(findings: &[Finding]) -> Option<Version> {
    let highest = findings.iter().filter_map(|finding| match finding {
        Finding::Stray { to, .. } | Finding::Orphan { to, .. } => Some(*to),
        Finding::LatestDiffers { version } => Some(*version),
        _ => None,
    });
    highest.max()
}

/// Returns `true` if no repair continues from the highest version: it is above [`MAX_COUNT`], or more than [`MAX_MISSING`]
/// versions are missing between it and the latest item, or the floor if there is none or it is higher.
fn is_out_of_reach(findings: &[Finding], latest: Option<Version>, floor: Version) -> bool {
    let Some(highest) = highest(findings) else {
        return false;
    };
    let mut existing = VersionSet::default();
    for finding in findings {
        if let Finding::Stray { from, to } | Finding::Orphan { from, to } = finding {
            existing.insert_range(from.get(), to.get());
        }
    }
    let first = latest.map_or(1, |latest| latest.get() + 1).max(floor.get());
    highest.get() > MAX_COUNT || existing.gaps(first, highest.get()).len() > MAX_MISSING
}

/// Returns the latest item whose current version is this version item.
fn revived(top: &Item, version: Version) -> Item {
    let mut latest = latest_from(unmarked(top), version);
    latest.insert(names::SK.to_owned(), AttributeValue::S(LATEST_KEY.to_owned()));
    latest
}

#[cfg(test)]
mod tests;
