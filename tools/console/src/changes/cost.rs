//! Source of the versions of a period, the index by time or a scan, and what its reads cost: the choice of `vzero log --all`.

use std::num::NonZeroU32;

use maud::{Markup, html};
use operations::{
    all_versions::filter::VersionFilter,
    connection::Connection,
    error::OperationError,
    rate_limit::{Limits, RateLimiter},
    table_size::TableSize,
    time_index::{pages::sample, source::Source},
};
use serde_json::{Value, json};
use shared::{
    domain::{layout::table_name, time_index::INDEX_NAME},
    dynamodb::Store,
    logging::chain,
};

use tokio::{runtime::Handle, task::spawn_blocking};

use crate::{app::App, page::count, value};

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

/// Returns the store with a separate meter, so that only its requests are limited.
pub(super) fn limited(
    connection: &Connection,
    read: Option<NonZeroU32>,
    write: Option<NonZeroU32>,
) -> (Store, RateLimiter) {
    let (store, meter) = connection.metered();
    (store, RateLimiter::new(meter, Limits { read, write }))
}

impl Cost {
    /// Chooses the source of the versions of a filter. Of an index, it reads one partition.
    pub(super) async fn of(
        (store, pace): (&Store, &RateLimiter),
        consistent: bool,
        filter: &VersionFilter,
    ) -> Result<Self, OperationError> {
        let (source, why) = Source::choose(store, filter.since, filter.until).await?;
        let size = TableSize::of(store).await?;
        #[allow(clippy::cast_precision_loss, reason = "an estimate of a few digits")]
        let (items, first) = match source {
            Source::Scan => (size.items, (size.bytes as f64 / 8192.0).ceil()),
            Source::Index(window) => sample(store, pace, window).await?,
        };
        let each = size.bytes.checked_div(size.items).unwrap_or_default();
        // The index has no texts, so that each version is read for them.
        let reads = 2 + u64::from(source != Source::Scan && filter.has_texts());
        #[allow(clippy::cast_precision_loss, reason = "an estimate of a few digits")]
        let then = (items * reads * each.div_ceil(4096).max(1)) as f64 * if consistent { 1.0 } else { 0.5 };
        Ok(Self {
            source,
            why,
            size,
            items,
            units: [first, then],
        })
    }

    /// Renders the cost of a filter before its reads, and the name of the button that starts them.
    pub(super) async fn before(
        app: &App,
        filter: &VersionFilter,
        then: &str,
        json: &mut Value,
    ) -> (Markup, &'static str) {
        let (connection, read, filter) = (app.connection.clone(), app.options.max_read_units, filter.clone());
        let runtime = Handle::current();
        // The queries of the index cannot move between threads.
        let cost = spawn_blocking(move || {
            let (store, pace) = limited(&connection, read, None);
            let cost = Self::of((&store, &pace), connection.consistent, &filter);
            runtime.block_on(cost).map_err(|error| chain(&error))
        });
        match cost.await.unwrap_or_else(|error| Err(error.to_string())) {
            Ok(cost) => (cost.shown(app, then, json), cost.action()),
            Err(why) => (
                html! { p.note.bad { "The cost is not known: " (value::plain(&why)) } },
                "Scan the table",
            ),
        }
    }

    pub(super) fn action(&self) -> &'static str {
        match self.source {
            Source::Scan => "Scan the table",
            Source::Index(_) => "Read the index",
        }
    }

    /// Renders the cost, with that of the reads after it.
    pub(super) fn shown(&self, app: &App, then: &str, json: &mut Value) -> Markup {
        let is_scan = self.source == Source::Scan;
        let (names, at_most) = (app.store().tables(), if is_scan { "at most " } else { "about " });
        let names = names.map(table_name).collect::<Vec<_>>().join(" and ");
        let [first, reads] = self.units.map(|units| {
            let price = app
                .options
                .cost
                .map(|cost| format!(", USD {:.2} on demand", cost(units, 0.0)));
            format!("{units:.0} read units{}", price.unwrap_or_default())
        });
        json["Estimate"] = json!({
            "Items": self.items, "ReadUnits": self.units, "Source": if is_scan { "scan" } else { "index" }, "NoIndex": self.why,
        });
        html! {
            p {
                @if is_scan {
                    "A scan reads all of " (value::word(&names)) ": about " (count(self.items, "item")) ", " (self.size.bytes.div_ceil(1_000_000)) " MB, "
                } @else {
                    "The index " (INDEX_NAME) " has the versions of the period: about " (count(self.items, "version")) ", if its partitions are alike, "
                }
                (first) ". " (then) ": " (at_most) (reads)
                @if let Some(units) = app.options.max_read_units { ", at most " (units) " read units per second" }
                "."
            }
            @if let Some(why) = &self.why { p.muted { "It is a scan because " (value::plain(why)) "." } }
        }
    }
}
