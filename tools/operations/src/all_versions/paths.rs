//! Path of one value in the versions of many entities, as `vzero log KEY --path` follows it: the path refers to the newest version of each.
//!
//! A path without elements of lists is the same in all versions. Any other is traced from the newest version back to the requested one, and
//! the versions at which it changes are kept for the other requests.

use std::collections::{BTreeMap, HashMap};

use item_diff::{path::Path, trace::Trace};
use shared::{
    domain::{entity::EntityId, version::Version, view::VersionView},
    dynamodb::{Store, read::versions::ReadError},
};

use crate::{
    rate_limit::RateLimiter,
    read::{
        history::{History, HistoryQuery},
        paced::Paced,
    },
};

/// Maximum number of entities whose paths are kept.
const MAX_ENTITIES: usize = 10_000;
/// Maximum number of versions that are read ahead. Who asks for one version after the other does not send a request for each.
const MAX_AHEAD: u64 = 255;

pub struct TracedPaths {
    table: Paced,
    path: Path,
    consistent: bool,
    entities: HashMap<EntityId, Traced>,
}

struct Traced {
    trace: Trace,
    /// Oldest version that was read.
    reached: Option<Version>,
    /// Number of versions that the next read reads beyond the requested one.
    ahead: u64,
    /// Paths by the newest version that has them. A path holds down to the next version of the map.
    paths: BTreeMap<u64, Option<Path>>,
}

impl TracedPaths {
    pub fn new(store: &Store, path: &Path, consistent: bool) -> Self {
        Self {
            table: Paced::new(store, &RateLimiter::unlimited()),
            path: path.clone(),
            consistent,
            entities: HashMap::new(),
        }
    }

    /// Reads at the rate of a limiter.
    #[must_use]
    pub fn at_rate_of(mut self, limiter: &RateLimiter) -> Self {
        self.table.limiter = limiter.clone();
        self
    }

    /// Returns the paths in the version before and in the version, `None` where the value did not exist.
    ///
    /// # Errors
    ///
    /// Returns [`ReadError`] if a request fails.
    pub async fn of(&mut self, view: &VersionView) -> Result<[Option<Path>; 2], ReadError> {
        let Some(trace) = Trace::new(&self.path).filter(|_| !view.is_late()) else {
            return Ok([Some(self.path.clone()), Some(self.path.clone())]);
        };
        if self.entities.len() >= MAX_ENTITIES && !self.entities.contains_key(&view.entity) {
            self.entities.clear();
        }
        let traced = self.entities.entry(view.entity.clone()).or_insert_with(|| Traced {
            paths: BTreeMap::from([(u64::MAX, trace.path.clone())]),
            trace,
            reached: None,
            ahead: 0,
        });
        let before = Version::new(view.version.get() - 1);
        let is_read = |reached: Version| reached <= before.unwrap_or(view.version);
        if !traced.reached.is_some_and(is_read) {
            let to = before.and_then(|before| Version::new(before.get().saturating_sub(traced.ahead).max(1)));
            traced.ahead = (2 * traced.ahead + 1).min(MAX_AHEAD);
            traced.read(&self.table, &view.entity, to, self.consistent).await?;
        }
        Ok([before.unwrap_or(view.version), view.version].map(|version| traced.at(version)))
    }
}

impl Traced {
    /// Reads versions back to one.
    async fn read(
        &mut self,
        Paced { store, limiter }: &Paced,
        entity: &EntityId,
        to: Option<Version>,
        consistent: bool,
    ) -> Result<(), ReadError> {
        let query = HistoryQuery {
            from: to,
            to: self.reached.and_then(|reached| Version::new(reached.get() - 1)),
            consistent,
            ..HistoryQuery::default()
        };
        limiter.ready().await;
        let Some(mut history) = History::read(store, entity, query).await? else {
            return Ok(());
        };
        while let Some(views) = history.next_page().await? {
            limiter.ready().await;
            for view in views.iter().filter(|view| !view.is_late() && !view.is_omitted()) {
                let [path, last] = self.trace.step(&view.attributes);
                if path != last {
                    self.paths.insert(view.version.get(), path);
                }
            }
        }
        self.reached = Some(to.unwrap_or(Version::FIRST));
        Ok(())
    }

    fn at(&self, version: Version) -> Option<Path> {
        let (_, path) = self.paths.range(version.get()..).next()?;
        path.clone()
    }
}
