//! Pages of the partitions of the index: `Query`, eventually consistent.

use std::collections::HashMap;

use aws_sdk_dynamodb::operation::query::builders::QueryInputBuilder;
use shared::{
    domain::{
        AttributeValue, Item,
        attributes::text,
        names,
        recorded_at::RecordedAt,
        time_index::{INDEX_NAME, INSERTED_AT, PARTITION, PARTITIONS, late_partitions, parse, partitions},
    },
    dynamodb::{Store, client::error::ServiceError, read::query_items::Cursor, s},
};

use super::source::Window;
use crate::{
    rate_limit::RateLimiter,
    read::paced::Paced,
    segments::{progress::Progress, scan::Segment},
};

/// Read units of an eventually consistent query without results.
pub const EMPTY_UNITS: f64 = 0.5;

/// Reader of the partitions.
#[derive(Clone)]
pub struct IndexPages {
    pub table: Paced,
    pub window: Window,
}

/// Returns the partitions of a segment, each of the first set with the one of the second set that has the same entities.
pub(crate) fn partitions_of(segment: Segment) -> impl Iterator<Item = [String; 2]> {
    let pairs = partitions().zip(late_partitions()).zip(0..);
    let own = pairs.filter(move |(_, number)| number % segment.total == segment.index);
    own.map(|((first, late), _)| [first, late])
}

/// Returns the `RecordedAt` in an entry of the index.
pub(crate) fn recorded_at(entry: &Item) -> Option<RecordedAt> {
    parse(text(entry, INSERTED_AT)?)?.1
}

/// Returns the place in a segment at which a partition begins.
pub(crate) fn beginning(partition: &str) -> Item {
    HashMap::from([(PARTITION.to_owned(), AttributeValue::S(partition.to_owned()))]).into()
}

impl IndexPages {
    /// Reads a page of a partition, and returns the keys of its versions and the cursor of the next page, if there may be one.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if the request fails.
    pub async fn page(
        &self,
        partition: &str,
        start: Option<Cursor>,
    ) -> Result<(Vec<Item>, Option<Cursor>), ServiceError> {
        let limit = self.table.limiter.page_limit();
        let send = async |store: &Store| {
            let request = request(partition, &self.window, start.clone(), store.history_table()).set_limit(limit);
            let output = request.send_with(store.client()).await;
            output.map_err(|error| ServiceError::new("Query", &error))
        };
        let page = self.table.send(send).await?;
        let items = page.items.unwrap_or_default().into_iter().map(Item::from);
        Ok((items.collect(), page.last_evaluated_key.filter(|key| !key.is_empty())))
    }

    /// Reads the next page of a segment's partitions. The progress continues after it.
    pub(crate) async fn next_page<C, D>(
        &self,
        partitions: &[String],
        progress: &mut Progress<C, D>,
    ) -> Result<Vec<Item>, ServiceError> {
        let after = progress.after.take();
        let started = after.as_ref().and_then(|after| text(after, PARTITION));
        let started = partitions.iter().position(|name| Some(name.as_str()) == started);
        let mut left = partitions.iter().skip(started.unwrap_or_default());
        let Some(partition) = left.next() else {
            progress.done = true;
            return Ok(Vec::new());
        };
        // Only the cursor of a page has the key of an item.
        let start = after.filter(|after| after.contains_key(names::PK)).map(Cursor::from);
        let (entries, next) = self.page(partition, start).await?;
        progress.after = next.map(Item::from).or_else(|| left.next().map(|next| beginning(next)));
        progress.done = progress.after.is_none();
        Ok(entries)
    }

    /// Calls `add` for each entry of a partition.
    pub(crate) async fn each<E: From<ServiceError>>(
        &self,
        partition: &str,
        mut add: impl FnMut(Item) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut cursor = None;
        loop {
            let (entries, next) = self.page(partition, cursor).await?;
            entries.into_iter().try_for_each(&mut add)?;
            cursor = next;
            if cursor.is_none() {
                return Ok(());
            }
        }
    }
}

/// Reads one partition. Returns how many entries all partitions of the first set have if they are alike, and the read units of all queries.
///
/// # Errors
///
/// Returns [`ServiceError`] if a request fails.
pub async fn sample(store: &Store, limiter: &RateLimiter, window: Window) -> Result<(u64, f64), ServiceError> {
    let table = Paced::new(store, limiter);
    let (before, mut entries) = (limiter.consumed().read, 0);
    let count = |_| {
        entries += u64::from(PARTITIONS);
        Ok::<_, ServiceError>(())
    };
    IndexPages { table, window }.each("0", count).await?;
    let units = limiter.consumed().read - before;
    // The second set has few entries.
    Ok((entries, (units + EMPTY_UNITS) * f64::from(PARTITIONS)))
}

/// Builds the request for a page of a partition.
pub(crate) fn request(partition: &str, window: &Window, start: Option<Cursor>, table: &str) -> QueryInputBuilder {
    let (first, last) = window.sort_keys(partition.starts_with("late"));
    let condition = match last {
        Some(_) => "#partition = :partition AND #inserted BETWEEN :first AND :last",
        None => "#partition = :partition AND #inserted >= :first",
    };
    let request = QueryInputBuilder::default()
        .table_name(table)
        .index_name(INDEX_NAME)
        .key_condition_expression(condition)
        .expression_attribute_names("#partition", PARTITION)
        .expression_attribute_names("#inserted", INSERTED_AT)
        .expression_attribute_values(":partition", s(partition))
        .expression_attribute_values(":first", s(first))
        .set_exclusive_start_key(start);
    match last {
        Some(last) => request.expression_attribute_values(":last", s(last)),
        None => request,
    }
}
