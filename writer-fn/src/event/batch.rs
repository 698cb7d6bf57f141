//! SQS batches: updates of one entity are applied in order, different entities concurrently.
//!
//! A batch is divided into lanes. Messages that share an entity or a FIFO message group are in the same lane, and a lane is
//! processed in order. Messages that fail or are not started are returned as batch item failures. Not started are:
//!
//! - messages that the deadline does not allow to start;
//! - with `Ordering=arrival`, the later messages of an entity one of whose updates can succeed in a later delivery, also if
//!   only because of these messages. It would replace their values. An update that can never succeed stops no other update of
//!   its entity;
//! - the later messages of a FIFO group, after any failure.

use std::collections::{HashMap, HashSet};

use aws_lambda_events::event::sqs::SqsBatchResponse;
use futures::{StreamExt as _, stream};
use shared::{clock::Deadline, config::Ordering, metrics::Tally, panics};

use crate::{
    error::{Error, InvalidEvent},
    event::request::{Carrier, Envelope, Message},
    metrics,
    update::Update,
    writer::{Writer, reject},
};

const MAX_CONCURRENT_LANES: usize = 32;

/// Applies the messages, and returns those that failed or were not started.
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
        .map(|message| Entry::open(message, |envelope, carrier| writer.open(envelope, carrier)))
        .collect();
    let lanes = lanes(&entries);
    let mut failed: Vec<usize> = stream::iter(lanes)
        .map(|lane| process_lane(writer, &entries, lane, deadline, tally))
        .buffer_unordered(MAX_CONCURRENT_LANES)
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
    /// Parses the update in a message. A panic fails only this message.
    fn open(message: Message, open: impl FnOnce(Envelope, &Carrier) -> Result<Update, InvalidEvent>) -> Self {
        let Message {
            id,
            group,
            carrier,
            body,
        } = message;
        Self {
            update: panics::caught(|| open(body?, &carrier))
                .unwrap_or_else(|panicked| Err(panicked.into()))
                .map_err(Error::from),
            id,
            group,
        }
    }

    /// Returns the entity, `None` without a valid update.
    fn entity(&self) -> Option<&str> {
        self.update.as_ref().ok().map(|update| update.entity.as_str())
    }
}

/// Processes one lane in order, and returns the messages that failed or were not started.
async fn process_lane(
    writer: &Writer,
    entries: &[Entry],
    lane: Vec<usize>,
    deadline: Deadline,
    tally: &Tally,
) -> Vec<usize> {
    let mut failed = Vec::new();
    let mut stopped = Stopped::default();
    for index in lane {
        let entry = &entries[index];
        let attempt = if deadline.allows_start() && !stopped.contains(entry) {
            apply(writer, entry, deadline, tally).await
        } else {
            Writer::log_not_started(entry.update.as_ref().ok(), entry.id.as_deref());
            Attempt::Retryable
        };
        if attempt != Attempt::Succeeded {
            failed.push(index);
            stopped.add(entry, attempt, writer.ordering());
        }
    }
    failed
}

/// Result of processing a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attempt {
    Succeeded,
    /// It was not applied, and a later delivery can apply it.
    Retryable,
    /// It can never be applied.
    Rejected,
}

/// FIFO groups and entities whose later messages are not started.
#[derive(Debug, Default)]
struct Stopped<'a> {
    groups: HashSet<&'a str>,
    entities: HashSet<&'a str>,
}

impl<'a> Stopped<'a> {
    fn contains(&self, entry: &Entry) -> bool {
        let has_stopped = |set: &HashSet<&str>, key: Option<&str>| key.is_some_and(|key| set.contains(key));
        has_stopped(&self.groups, entry.group.as_deref()) || has_stopped(&self.entities, entry.entity())
    }

    fn add(&mut self, entry: &'a Entry, attempt: Attempt, ordering: Ordering) {
        self.groups.extend(entry.group.as_deref());
        // With an order by time, a late delivery is stale.
        if attempt == Attempt::Retryable && ordering == Ordering::Arrival {
            self.entities.extend(entry.entity());
        }
    }
}

async fn apply(writer: &Writer, entry: &Entry, deadline: Deadline, tally: &Tally) -> Attempt {
    let message = entry.id.as_deref();
    match &entry.update {
        Ok(update) => match writer.write(update, message, deadline, tally).await {
            Ok(_) => Attempt::Succeeded,
            Err(error) if error.is_retryable() => Attempt::Retryable,
            Err(_) => Attempt::Rejected,
        },
        Err(error) => {
            reject(message, error, tally);
            Attempt::Rejected
        }
    }
}

/// Groups the messages that must keep their order: those of one entity, and those of one FIFO group.
fn lanes(entries: &[Entry]) -> Vec<Vec<usize>> {
    let mut lanes: Vec<Vec<usize>> = Vec::new();
    let mut by_entity: HashMap<&str, usize> = HashMap::new();
    let mut by_group: HashMap<&str, usize> = HashMap::new();
    for (index, entry) in entries.iter().enumerate() {
        let entity = entry.entity();
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
    use shared::config::Ordering;

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
    fn a_panic_fails_only_its_own_message() {
        let message = |id: &str| Message {
            id: Some(id.to_owned()),
            group: None,
            carrier: Carrier::invocation(id),
            body: Envelope::parse(r#"{"ID": "E"}"#),
        };
        let open = |envelope: Envelope, carrier: &Carrier| {
            assert_ne!(carrier.id, "b", "a defect");
            envelope.open(carrier, Ordering::Arrival)
        };
        let entries = ["a", "b", "c"].map(|id| Entry::open(message(id), open));
        let valid = entries.iter().map(|entry| entry.update.is_ok()).collect::<Vec<_>>();
        assert_eq!(valid, [true, false, true]);
        assert_eq!(entries[1].id.as_deref(), Some("b"));
    }

    #[test]
    fn messages_of_an_entity_or_a_group_share_a_lane() {
        let check = |messages: &[(&str, &str)], expected: &[&[usize]]| {
            let entries: Vec<_> = messages.iter().map(entry).collect();
            assert_eq!(lanes(&entries), expected, "{messages:?}");
        };
        check(&[], &[]);
        check(&[("a", ""), ("b", ""), ("a", "")], &[&[0, 2], &[1]]);
        check(&[("a", "g"), ("b", "g"), ("c", "h")], &[&[0, 1], &[2]]);
        // The third message merges the lanes of the first two.
        check(&[("a", "g"), ("b", "h"), ("a", "h"), ("b", "g")], &[&[0, 1, 2, 3]]);
        // A message without a valid update has only its group.
        check(&[("", "g"), ("a", "g"), ("", "")], &[&[0, 1], &[2]]);
    }
}
