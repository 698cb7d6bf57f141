//! Source of the versions of a period, the index by time or a scan, and what its reads cost: the choice of `vzero log --all`.

use maud::{Markup, html};
use operations::{
    all_versions::filter::VersionFilter,
    connection::Connection,
    error::OperationError,
    rate_limit::Limits,
    table_size::TableSize,
    time_index::{pages::sample, source::Source},
};
use serde_json::{Value, json};
use shared::domain::{layout::table_name, time_index::INDEX_NAME};
use tokio::{runtime::Handle, task::spawn_blocking};

use crate::{app::App, error::PageError, job::limited, page::count, value};

pub(super) struct Cost {
    pub(super) source: Source,
    /// Reason why an index is not used.
    why: Option<String>,
    size: TableSize,
    /// Number of items of the tables, or of entries of the index.
    pub(super) items: u64,
    /// Read units of the source, and those of the reads after it.
    units: [f64; 2],
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
        let each = size
            .bytes
            .checked_div(size.items)
            .unwrap_or_default()
            .div_ceil(4096)
            .max(1);
        // The index has no texts, so that each version is read for them.
        let reads = 2 + u64::from(source != Source::Scan && filter.has_texts());
        let then = (items * reads * each) as f64 * if connection.consistent { 1.0 } else { 0.5 };
        let units = [first, then];
        Ok(Self {
            source,
            why,
            size,
            items,
            units,
        })
    }

    /// Renders the cost of a filter before its reads.
    pub(super) async fn before(
        app: &App,
        filter: &VersionFilter,
        then: &str,
        json: &mut Value,
    ) -> Result<Markup, PageError> {
        let (connection, limits, filter) = (app.connection.clone(), app.options.limits(), filter.clone());
        let runtime = Handle::current();
        // The queries of the index cannot move between threads.
        let cost = spawn_blocking(move || runtime.block_on(Self::of(&connection, limits, &filter))).await;
        let cost = cost.map_err(|_| PageError::Conflict("the cost is not known".to_owned()))??;
        Ok(cost.shown(app, then, json))
    }

    /// Renders the cost, with that of the reads after it.
    pub(super) fn shown(&self, app: &App, then: &str, json: &mut Value) -> Markup {
        let is_scan = self.source == Source::Scan;
        let (names, source) = (
            app.store().tables().map(table_name),
            if is_scan { "scan" } else { "index" },
        );
        let units = |units: f64| format!("{units:.0} read units{}", app.options.price(units, 0.0));
        let [first, reads] = self.units.map(units);
        json["Estimate"] = json!({"Items": self.items, "ReadUnits": self.units, "Source": source, "NoIndex": self.why});
        html! {
            p {
                @if is_scan {
                    "A scan reads all of " (value::word(&names.collect::<Vec<_>>().join(" and "))) ": about " (count(self.items, "item")) ", "
                    (self.size.bytes.div_ceil(1_000_000)) " MB, "
                } @else {
                    "The index " (INDEX_NAME) " has the versions of the period: about " (count(self.items, "version")) ", if its partitions are alike, "
                }
                (first) ". " (then) ": " @if is_scan { "at most " } @else { "about " } (reads)
                @if let Some(units) = app.options.max_read_units { ", at most " (units) " read units per second" }
                "."
            }
            @if let Some(why) = &self.why { p.muted { "It is a scan because " (value::plain(why)) "." } }
        }
    }
}
