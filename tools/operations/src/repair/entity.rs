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

use super::step::{Action, Numbering};
use crate::{
    audit::collection::Finding,
    latest::{adopted, latest_from, moved},
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

const TOO_FAR: &str =
    "the floor is too far above the versions: delete the item floor if it does not belong to the entity";

/// Items of an entity with findings.
#[derive(Debug)]
pub(super) struct Known {
    latest: Option<Item>,
    /// Latest item at the padded key of version 0, if there is none at its own.
    padded: Option<Item>,
    /// Number of the latest item, also at a padded key.
    counted: Option<Version>,
    /// Versions that the latest item does not count.
    uncounted: VersionSet,
    /// Highest of them, or the one that differs from the latest item.
    highest: Option<Version>,
    /// Item of the highest version.
    top: Option<Item>,
    floor: Version,
    /// `true` if the highest version was purged, as far as it was read.
    is_purged: bool,
    /// `true` if no repair continues from the highest version: it is above [`MAX_COUNT`], or more than [`MAX_MISSING`] versions are
    /// missing between it and the latest item, or the floor if there is none or it is higher.
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
        let (digits, floor) = (store.digits(), store.floor(entity, true).await?);
        let get = async |key: Option<String>| match key {
            Some(key) => store.get(entity, &key, true).await,
            None => Ok(None),
        };
        let latest = get(Some(LATEST_KEY.to_owned())).await?;
        let padded = get(digits.padded_latest_key().filter(|_| latest.is_none())).await?;
        let mut known = Self::of(findings, latest, padded, floor);
        known.top = get(known.highest.map(|highest| digits.version_key(highest))).await?;
        if let (None, Some(highest), Some(top), true) = (&known.latest, known.highest, &known.top, revive) {
            let removed = store.removed([entity], false).await?;
            let marker = removed.marker(entity);
            known.is_purged = marker.is_some_and(|marker| marker.covers_item(top, highest));
        }
        Ok(known)
    }

    fn of(findings: &[Finding], latest: Option<Item>, padded: Option<Item>, floor: Version) -> Self {
        let counted = latest.as_ref().or(padded.as_ref());
        let counted = counted.and_then(|latest| latest_of(latest).ok());
        let (mut uncounted, mut highest) = (VersionSet::default(), None);
        for finding in findings {
            if let Finding::Stray { from, to } | Finding::Orphan { from, to } = finding {
                uncounted.insert_range(from.get(), to.get());
                highest = highest.max(Some(*to));
            } else if let Finding::LatestDiffers { version } = finding {
                highest = highest.max(Some(*version));
            }
        }
        let first = counted.map_or(1, |latest| latest.get() + 1).max(floor.get());
        let is_far = |highest| highest > MAX_COUNT || uncounted.gaps(first, highest).len() > MAX_MISSING;
        Self {
            is_out_of_reach: highest.is_some_and(|highest| is_far(highest.get())),
            latest,
            padded,
            counted,
            uncounted,
            highest,
            top: None,
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
        if let Some(other) = findings
            .iter()
            .find(|finding| matches!(finding, Finding::OtherWidth { .. }))
        {
            // Any step would begin a second history beside them, or continue one.
            let why = "vzero admin table adopt stores the width of these versions, if all have it";
            own.left.push((*other, why));
            return own;
        }
        let (latest, top) = (self.latest.as_ref(), self.highest.zip(self.top.clone()));
        let number = |numbering, to| Action::Number {
            numbering,
            to,
            highest: self.highest,
        };
        if let Some(padded) = self.padded.as_ref().filter(|_| !self.is_out_of_reach)
            && let Some((to, latest)) = moved(padded, top.as_ref(), digits)
        {
            let padded = padded.clone();
            own.actions.push(number(Numbering::Move { padded, latest }, to));
            return own;
        }
        let revive = revive && !self.is_purged;
        let is_uncounted = latest.is_some_and(|latest| !latest.contains_key(names::LATEST));
        let mut recount = None;
        for finding in findings {
            let why = match finding {
                Finding::Gap { from, to } => {
                    own.missing.insert_range(from.get(), to.get());
                    continue;
                }
                // Each record in quarantine needs its own step, or cannot be repaired.
                Finding::Quarantined { .. } | Finding::Lagging { .. } => continue,
                Finding::Unpruned { .. } => "vzero admin prune removes them",
                _ if self.is_out_of_reach => OUT_OF_REACH,
                Finding::Orphan { .. } if !is_uncounted && (!revive || latest.is_some()) => match self.is_purged {
                    true => "the entity was purged; vzero admin purge deletes these versions",
                    false => "there is no latest item; --revive creates it from the highest version",
                },
                Finding::NoVersion { why } if *why != InvalidImage::NoLatest || !is_uncounted => {
                    "the latest item contains no valid version"
                }
                Finding::BelowFloor { floor } => {
                    recount = Some(*floor);
                    match floor.get() <= MAX_COUNT {
                        true => continue,
                        false => TOO_FAR,
                    }
                }
                // Repaired below; or of attached tables, which have no repair.
                _ => continue,
            };
            own.left.push((*finding, why));
        }
        if self.is_out_of_reach {
            return own;
        }
        if let Some(floor) = recount {
            // A latest item with an invalid `Latest` stays as it is.
            let is_valid = latest.is_none() || is_uncounted || self.counted.is_some();
            let to = next(floor).filter(|_| is_valid && floor.get() <= MAX_COUNT);
            let (is_tombstone, from) = (latest.is_none(), self.counted);
            own.actions
                .extend(to.map(|to| number(Numbering::Recount { is_tombstone, from }, to)));
            return own;
        }
        let adopted = || adopted(latest?, top.as_ref(), digits);
        let numbering = match (latest, self.counted, &top) {
            // The counter was set back: the version with the latest item's number is a different state.
            (Some(_), Some(from), Some((highest, _))) if *highest >= from => {
                let to = adopted().filter(|to| *to > from);
                to.map(|to| (Numbering::Raise { from }, to))
            }
            (Some(latest), Some(number), _) if own.missing.contains(number.get()) => {
                if let Ok(version) = VersionItem::from_image(latest.clone(), digits) {
                    own.missing = own.missing.without(&VersionSet::from_iter([number.get()]));
                    let source = LATEST_KEY.to_owned();
                    own.actions.push(Action::Put { version, source });
                }
                None
            }
            (Some(_), None, _) if is_uncounted => adopted().map(|to| (Numbering::Adopt, to)),
            (None, _, Some((highest, top))) if revive => Some((Numbering::Revive(revived(top, *highest)), *highest)),
            _ => None,
        };
        if let (Some((numbering, _)), Some((highest, _))) = (&numbering, top) {
            // From here on, the existing versions must have no gap.
            let first = match numbering {
                Numbering::Raise { from } => Some(from.get().saturating_add(1)),
                _ => self.uncounted.ranges().next().map(|(first, _)| first),
            };
            for (from, to) in self.uncounted.gaps(first.unwrap_or(1), highest.get()).ranges() {
                own.missing.insert_range(from, to);
            }
        }
        // Another step that numbers the latest item begins a new sequence of times too.
        let is_ahead = findings.iter().any(|finding| matches!(finding, Finding::Ahead { .. }));
        let retimed = self.counted.filter(|_| is_ahead);
        let retimed = retimed.and_then(|from| Some((Numbering::Retime { from }, next(from)?)));
        own.actions
            .extend(numbering.or(retimed).map(|(numbering, to)| number(numbering, to)));
        own
    }
}

fn next(version: Version) -> Option<Version> {
    version.get().checked_add(1).and_then(Version::new)
}

/// Returns the latest item whose current version is this version item.
fn revived(top: &Item, version: Version) -> Item {
    let mut latest = latest_from(unmarked(top), version);
    latest.insert(names::SK.to_owned(), AttributeValue::S(LATEST_KEY.to_owned()));
    latest
}

#[cfg(test)]
mod tests;
