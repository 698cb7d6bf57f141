//! An SQS batch: messages of one entity in order, different entities side by side.

use std::collections::{HashMap, HashSet};

use aws_lambda_events::event::sqs::SqsBatchResponse;
use futures::{StreamExt as _, stream};
use shared::{clock::Deadline, domain::update::Update, metrics::Tally};

use crate::{
    Writer,
    error::{Error, InvalidEvent},
    metrics, refuse,
    request::Message,
};

/// The most lanes that are worked on at once.
const CONCURRENCY: usize = 32;

/// Applies the messages, and names those that failed or were not reached.
pub(crate) async fn write(
    writer: &Writer,
    messages: Vec<Message>,
    deadline: Deadline,
    tally: &Tally,
) -> Result<SqsBatchResponse, Error> {
    let total = messages.len();
    metrics::batch(tally, total);
    let entries: Vec<Entry> = messages
        .into_iter()
        .map(|message| Entry::open(writer, message))
        .collect();
    let lanes = lanes(&entries);
    let mut failed: Vec<usize> = stream::iter(lanes)
        .map(|lane| work_off(writer, &entries, lane, deadline, tally))
        .buffer_unordered(CONCURRENCY)
        .flat_map(stream::iter)
        .collect()
        .await;
    failed.sort_unstable();
    tracing::info!(messages = total, failed = failed.len(), "batch");

    let mut response = SqsBatchResponse::default();
    for index in failed {
        match &entries[index].id {
            Some(id) => response.add_failure(id),
            None => return Err(InvalidEvent::NoMessageId.into()),
        }
    }
    Ok(response)
}

struct Entry {
    id: Option<String>,
    group: Option<String>,
    update: Result<Update, Error>,
}

impl Entry {
    fn open(writer: &Writer, message: Message) -> Self {
        let Message { id, group, body } = message;
        // Without an id of any kind the update must name its own.
        let carrier = id.as_deref().unwrap_or_default();
        Self {
            update: body
                .and_then(|envelope| envelope.open(carrier, writer.ordering))
                .map_err(Error::from),
            id,
            group,
        }
    }
}

/// Works off one lane in order, and returns what failed. The first failure of a FIFO group ends it: what comes behind
/// must not overtake.
async fn work_off(
    writer: &Writer,
    entries: &[Entry],
    lane: Vec<usize>,
    deadline: Deadline,
    tally: &Tally,
) -> Vec<usize> {
    let mut failed = Vec::new();
    let mut stopped: HashSet<&str> = HashSet::new();
    for index in lane {
        let entry = &entries[index];
        let group_stopped = entry.group.as_deref().is_some_and(|group| stopped.contains(group));
        let done = !group_stopped && deadline.allows_start() && apply(writer, entry, tally).await;
        if !done {
            failed.push(index);
            stopped.extend(entry.group.as_deref());
        }
    }
    failed
}

async fn apply(writer: &Writer, entry: &Entry, tally: &Tally) -> bool {
    let message = entry.id.as_deref();
    match &entry.update {
        Ok(update) => writer.write(update, message, tally).await.is_ok(),
        Err(error) => {
            refuse(message, error, tally);
            false
        }
    }
}

/// The messages that have to keep their order, together: those of one entity, and those of one FIFO group.
fn lanes(entries: &[Entry]) -> Vec<Vec<usize>> {
    let mut lanes: Vec<Vec<usize>> = Vec::new();
    let mut by_entity: HashMap<&str, usize> = HashMap::new();
    let mut by_group: HashMap<&str, usize> = HashMap::new();
    for (index, entry) in entries.iter().enumerate() {
        let entity = entry.update.as_ref().ok().map(|update| update.entity.as_str());
        let group = entry.group.as_deref();
        let of_entity = entity.and_then(|entity| by_entity.get(entity).copied());
        let of_group = group.and_then(|group| by_group.get(group).copied());
        let lane = match (of_entity, of_group) {
            (Some(kept), Some(merged)) if kept != merged => {
                let moved = std::mem::take(&mut lanes[merged]);
                lanes[kept].extend(moved);
                lanes[kept].sort_unstable();
                for lane in by_entity.values_mut().chain(by_group.values_mut()) {
                    if *lane == merged {
                        *lane = kept;
                    }
                }
                kept
            }
            (Some(lane), _) | (None, Some(lane)) => lane,
            (None, None) => {
                lanes.push(Vec::new());
                lanes.len() - 1
            }
        };
        lanes[lane].push(index);
        if let Some(entity) = entity {
            by_entity.insert(entity, lane);
        }
        if let Some(group) = group {
            by_group.insert(group, lane);
        }
    }
    lanes.retain(|lane| !lane.is_empty());
    lanes
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use shared::domain::update::Ordering;

    use super::*;

    fn entry((entity, group): &(&str, &str)) -> Entry {
        let update = Update::parse(json!({"ID": entity}), "r", Ordering::Arrival);
        Entry {
            id: None,
            group: Some((*group).to_owned()).filter(|group| !group.is_empty()),
            update: update.map_err(|error| InvalidEvent::from(error).into()),
        }
    }

    #[test]
    fn what_shares_an_entity_or_a_group_shares_a_lane() {
        let check = |messages: &[(&str, &str)], expected: &[&[usize]]| {
            let entries: Vec<_> = messages.iter().map(entry).collect();
            assert_eq!(lanes(&entries), expected, "{messages:?}");
        };
        check(&[], &[]);
        check(&[("a", ""), ("b", ""), ("a", "")], &[&[0, 2], &[1]]);
        check(&[("a", "g"), ("b", "g"), ("c", "h")], &[&[0, 1], &[2]]);
        // The third joins the lanes of the first two.
        check(&[("a", "g"), ("b", "h"), ("a", "h"), ("b", "g")], &[&[0, 1, 2, 3]]);
        // A message without a readable update has only its group.
        check(&[("", "g"), ("a", "g"), ("", "")], &[&[0, 1], &[2]]);
    }
}
