//! Source of the versions of a period, the index by time or a scan, and what its reads cost: the choice of `vzero log --all`.

use operations::{
    all_versions::filter::VersionFilter,
    connection::Connection,
    error::OperationError,
    rate_limit::Limits,
    table_size::TableSize,
    time_index::{pages::sample, source::Source},
};

use crate::job::limited;

pub(super) struct Cost {
    pub(super) source: Source,
    /// Reason why an index is not used.
    pub(super) why: Option<String>,
    pub(super) size: TableSize,
    /// Number of items of the tables, or of entries of the index.
    pub(super) items: u64,
    /// Read units of the source, and of the reads after it.
    pub(super) units: [f64; 2],
}

impl Cost {
    /// Chooses the source of the versions of a filter. Of an index, it reads one partition.
    #[allow(clippy::cast_precision_loss, reason = "an estimate of a few digits")]
    pub(super) async fn of(
        connection: &Connection,
        limits: Limits,
        filter: &VersionFilter,
    ) -> Result<Self, OperationError> {
        let (store, pace) = limited(connection, limits);
        let (source, why) = Source::choose(&store, filter.since, filter.until).await?;
        let size = TableSize::of(&store).await?;
        let (items, first) = match source {
            Source::Scan => (size.items, (size.bytes as f64 / 8192.0).ceil()),
            Source::Index(window) => sample(&store, &pace, window).await?,
        };
        let each = size.bytes.checked_div(size.items).unwrap_or_default();
        // The index has no texts, so that each version is read for them.
        let reads = 2 + u64::from(source != Source::Scan && filter.has_texts());
        let then = (items * reads * each.div_ceil(4096).max(1)) as f64 * if connection.consistent { 1.0 } else { 0.5 };
        let units = [first, then];
        Ok(Self {
            source,
            why,
            size,
            items,
            units,
        })
    }
}
