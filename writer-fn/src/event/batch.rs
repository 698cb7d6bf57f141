//! Batches of SQS and Kinesis: updates of one entity are applied in order, different entities concurrently.
//!
//! A batch is divided into lanes. Messages that share an entity, of an update or of a change set, or a FIFO message group are in the same lane, and a lane is
//! processed in order. Messages that fail or are not started are returned as batch item failures. Not started are:
//!
//! - messages that the deadline does not allow to start;
//! - with `Ordering=arrival`, the later messages of an entity one of whose updates can succeed in a later delivery, also if
//!   only because of these messages. It would replace their values. An update that can never succeed stops no other update of
//!   its entity;
//! - the later messages of a FIFO group, after any failure.

use std::collections::{BTreeSet, HashMap, HashSet};

use aws_lambda_events::event::sqs::SqsBatchResponse;
use futures::{StreamExt as _, stream};
use shared::{clock::Deadline, config::Ordering, metrics::Tally, panics};

use crate::{
    error::{Error, InvalidEvent},
    event::{
        envelope::{Carrier, Envelope},
        message::Message,
    },
    metrics,
    update::Update,
    writer::{Writer, log, reject},
};

const MAX_CONCURRENT_LANES: usize = 64;

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
        .map(|message| Entry::open(message, |envelope, carrier| envelope.open(carrier, writer.ordering())))
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

    // That of Kinesis has the same form.
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
    updates: Result<Vec<Update>, Error>,
}

impl Entry {
    /// Parses the content of a message. A panic fails only this message.
    fn open(message: Message, open: impl FnOnce(Envelope, &Carrier) -> Result<Vec<Update>, InvalidEvent>) -> Self {
        let Message {
            id,
            group,
            carrier,
            body,
        } = message;
        Self {
            updates: panics::caught(|| open(body?, &carrier))
                .unwrap_or_else(|panicked| Err(panicked.into()))
                .map_err(Error::from),
            id,
            group,
        }
    }

    /// Returns what has an order that the message must keep.
    fn keys(&self) -> impl Iterator<Item = Key<'_>> {
        let updates = self.updates.as_ref().map_or(&[][..], Vec::as_slice);
        let entities = updates.iter().map(|update| Key::Entity(update.entity.as_str()));
        entities.chain(self.group.as_deref().map(Key::Group))
    }
}

/// Messages with the same key are processed in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Key<'a> {
    Entity(&'a str),
    /// FIFO message group.
    Group(&'a str),
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
    // Later messages with these keys are not started.
    let mut stopped = HashSet::new();
    for index in lane {
        let entry = &entries[index];
        let (updates, message) = (entry.updates.as_ref(), entry.id.as_deref());
        let is_started = deadline.allows_start() && !entry.keys().any(|key| stopped.contains(&key));
        let is_retryable = match updates {
            _ if !is_started => {
                log(updates.map_or(&[][..], Vec::as_slice), message, None);
                true
            }
            Ok(updates) => match writer.write(updates, message, deadline, tally).await {
                Ok(_) => continue,
                Err(error) => error.is_retryable(),
            },
            Err(error) => {
                reject(message, error, tally);
                false
            }
        };
        failed.push(index);
        // With an order by time, a late delivery is stale.
        let stops_entity = is_retryable && writer.ordering() == Ordering::Arrival;
        stopped.extend(entry.keys().filter(|key| stops_entity || matches!(key, Key::Group(_))));
    }
    failed
}

/// Groups the messages that must keep their order.
fn lanes(entries: &[Entry]) -> Vec<Vec<usize>> {
    let mut lanes: Vec<Vec<usize>> = Vec::new();
    let mut by_key: HashMap<Key, usize> = HashMap::new();
    for (index, entry) in entries.iter().enumerate() {
        let found: BTreeSet<usize> = entry.keys().filter_map(|key| by_key.get(&key).copied()).collect();
        // The smaller lanes move to the largest, so that a message moves seldom.
        let largest = found.iter().copied().max_by_key(|lane| lanes[*lane].len());
        let lane = largest.unwrap_or(lanes.len());
        if lane == lanes.len() {
            lanes.push(Vec::new());
        }
        for merged in found.into_iter().filter(|merged| *merged != lane) {
            for moved in std::mem::take(&mut lanes[merged]) {
                by_key.extend(entries[moved].keys().map(|key| (key, lane)));
                lanes[lane].push(moved);
            }
        }
        lanes[lane].push(index);
        by_key.extend(entry.keys().map(|key| (key, lane)));
    }
    lanes.retain(|lane| !lane.is_empty());
    for lane in &mut lanes {
        lane.sort_unstable();
    }
    lanes
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use shared::config::Ordering;

    use super::*;
    use crate::update::set;

    fn entry((entity, group): &(&str, &str)) -> Entry {
        let members: Vec<_> = entity.split('+').map(|entity| json!({"ID": entity})).collect();
        let json = if members.len() > 1 {
            json!({"Updates": members})
        } else {
            members[0].clone()
        };
        let updates = set::parse(json, "r", Ordering::Arrival);
        Entry {
            id: None,
            group: Some((*group).to_owned()).filter(|group| !group.is_empty()),
            updates: updates.map_err(|error| InvalidEvent::from(error).into()),
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
        let valid = entries.iter().map(|entry| entry.updates.is_ok()).collect::<Vec<_>>();
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
        // So does a change set, for all of its entities.
        check(
            &[("a", ""), ("b", ""), ("c", ""), ("b+d+a", ""), ("c", ""), ("d", "")],
            &[&[0, 1, 3, 5], &[2, 4]],
        );
        // A message without a valid update has only its group.
        check(&[("", "g"), ("a", "g"), ("", "")], &[&[0, 1], &[2]]);
    }
}
