//! Pages of the partitions of the index: `Query`, eventually consistent.

use std::collections::HashMap;

use aws_sdk_dynamodb::operation::query::builders::QueryInputBuilder;
use shared::{
    domain::{
        AttributeValue, Item,
        attributes::text,
        recorded_at::RecordedAt,
        time_index::{INDEX_NAME, INSERTED_AT, PARTITION, PARTITIONS, late_partitions, parse, partitions},
    },
    dynamodb::{Store, client::error::ServiceError, read::query_items::Cursor, s},
};

use super::source::Window;
use crate::{rate_limit::RateLimiter, read::paced::Paced, segments::scan::Segment};

/// Read units of an eventually consistent query without results.
pub const EMPTY_UNITS: f64 = 0.5;

/// Reader of the partitions.
#[derive(Clone)]
pub(crate) struct IndexPages {
    pub(crate) table: Paced,
    /// Window of the entries, `None` for all.
    pub(crate) window: Option<Window>,
}

/// Partition of the first set, and the one of the second set with the versions of the same entities.
pub(crate) type Partitions = [String; 2];

/// Returns the partitions of a segment. All versions of an entity are in one pair.
pub(crate) fn partitions_of(segment: Segment) -> impl Iterator<Item = Partitions> {
    let pairs = partitions().zip(late_partitions()).zip(0..);
    let own = pairs.filter(move |(_, number)| number % segment.total == segment.index);
    own.map(|((first, late), _)| [first, late])
}

impl IndexPages {
    /// Reads a page of a partition, and returns the keys of its versions and the cursor of the next page, if there may be one.
    pub(crate) async fn page(
        &self,
        partition: &str,
        start: Option<Cursor>,
    ) -> Result<(Vec<Item>, Option<Cursor>), ServiceError> {
        let is_late = partition.starts_with("late");
        let keys = self.window.as_ref().map(|window| window.sort_keys(is_late));
        let limit = self.table.limiter.page_limit();
        let send = async |store: &Store| {
            let request = request(partition, keys.clone(), start.clone(), store.history_table()).set_limit(limit);
            let output = request.send_with(store.client()).await;
            output.map_err(|error| ServiceError::new("Query", &error))
        };
        let page = self.table.send(send).await?;
        let items = page.items.unwrap_or_default().into_iter().map(Item::from);
        Ok((items.collect(), page.last_evaluated_key.filter(|key| !key.is_empty())))
    }
}

/// Returns the `RecordedAt` in an entry of the index.
pub(crate) fn recorded_at(entry: &Item) -> Option<RecordedAt> {
    parse(text(entry, INSERTED_AT)?)?.1
}

/// Returns the place in a segment after which it continues: a partition, and the entity or item in it.
pub(crate) fn place(members: &[(&str, &str)]) -> Item {
    let members = members.iter();
    let members = members.map(|(name, value)| ((*name).to_owned(), AttributeValue::S((*value).to_owned())));
    Item::from(members.collect::<HashMap<_, _>>())
}

/// Builds the request for a page of a partition, with the first and the last sort key.
pub(crate) fn request(
    partition: &str,
    keys: Option<(String, Option<String>)>,
    start: Option<Cursor>,
    table: &str,
) -> QueryInputBuilder {
    let request = QueryInputBuilder::default()
        .table_name(table)
        .index_name(INDEX_NAME)
        .expression_attribute_names("#partition", PARTITION)
        .expression_attribute_values(":partition", s(partition))
        .set_exclusive_start_key(start);
    let Some((first, last)) = keys else {
        return request.key_condition_expression("#partition = :partition");
    };
    let request = request
        .expression_attribute_names("#inserted", INSERTED_AT)
        .expression_attribute_values(":first", s(first));
    match last {
        Some(last) => request
            .key_condition_expression("#partition = :partition AND #inserted BETWEEN :first AND :last")
            .expression_attribute_values(":last", s(last)),
        None => request.key_condition_expression("#partition = :partition AND #inserted >= :first"),
    }
}

/// Part of a window that was read to estimate the rest.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// About so many entries are in the window.
    pub entries: u64,
    /// Read units of the queries.
    pub read_units: f64,
}

/// Reads the first page of one partition, and returns what the whole window has and costs if the others are alike, and times are spread
/// evenly.
///
/// # Errors
///
/// Returns [`ServiceError`] if the request fails.
#[allow(clippy::cast_precision_loss, reason = "an estimate of a few digits")]
pub async fn sample(store: &Store, limiter: &RateLimiter, window: Window) -> Result<Sample, ServiceError> {
    let pages = IndexPages {
        table: Paced::new(store, limiter),
        window: Some(window),
    };
    let before = limiter.consumed().read;
    let (entries, next) = pages.page("0", None).await?;
    let units = limiter.consumed().read - before;
    let seconds = |time: RecordedAt| time.to_duration().as_secs_f64();
    let read_until = next.and_then(|next| Some(parse(text(&Item::from(next), INSERTED_AT)?)?.0));
    let share = read_until.map_or(1.0, |time| {
        let [first, last] = window.inserted_between(store.now()).map(seconds);
        ((seconds(time) - first) / (last - first).max(0.001)).clamp(1e-6, 1.0)
    });
    let partitions = f64::from(PARTITIONS);
    Ok(Sample {
        entries: times(entries.len() as f64, partitions / share),
        // The second set, which is almost empty, costs at least a query of each partition.
        read_units: units * partitions / share + EMPTY_UNITS * partitions,
    })
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an estimate of a few digits"
)]
fn times(count: f64, factor: f64) -> u64 {
    (count * factor).ceil() as u64
}
