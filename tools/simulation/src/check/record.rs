//! Records of latest items: what they say about a version.

use serde_json::{Map, Value, json};

use crate::{
    requests::text,
    schedule::{Origin, Update},
};

/// Returns the senders that a version of an update can have. A direct invocation has none.
pub(super) fn senders(update: &Update) -> Vec<String> {
    let (source, sender) = (format!("source-of-{}", update.id), format!("sender-of-{}", update.id));
    match update.origin {
        Origin::Client | Origin::TimedClient | Origin::LedgerClient | Origin::Invocation => vec![String::new(), sender],
        // A client can repeat it after the faults.
        Origin::Message => vec![sender, String::new()],
        Origin::Event => vec![format!("{source} via {sender}"), source],
    }
}

/// Attributes of a tombstone that are not state.
const OF_TOMBSTONE: [&str; 7] = [
    "Deleted",
    "RequestId",
    "RestoredFrom",
    "Actor",
    "Reason",
    "Time",
    "Timestamp",
];

/// Returns the attributes of an image without keys and the attributes that no update names. A tombstone of writer-fn has only the
/// state that its deletion set: other attributes can be removed from it later.
pub(super) fn plain(image: &Value) -> Map<String, Value> {
    let mut plain = image.as_object().cloned().unwrap_or_default();
    for name in [
        "PK",
        "SK",
        "TTL",
        "TombstoneStaged",
        "Latest",
        "RecentRequests",
        "RequestsSince",
        "RequestsDropped",
        "RequestsAhead",
        "RequestPayload",
        "Sender",
        "V0Id",
        "RecordedAt",
        "RecordedSince",
        "RecordedVersion",
        "RecordedTick",
    ] {
        plain.remove(name);
    }
    let state = plain.remove("TombstoneState").unwrap_or_default();
    if image["Deleted"]["BOOL"] == true {
        let is_own = image["RecordedVersion"]["N"] == image["Latest"]["N"];
        plain.retain(|name, _| !is_own || OF_TOMBSTONE.contains(&name.as_str()));
        plain.extend(state["M"].as_object().cloned().unwrap_or_default());
    }
    plain
}

/// Returns the version item of an image, without `RecordedAt` if another program wrote it.
pub(super) fn version_item(image: &Value, key: &str, is_own: bool) -> Value {
    let mut item = plain(image);
    item.insert("PK".to_owned(), image["PK"].clone());
    item.insert("SK".to_owned(), json!({"S": key}));
    let of_writer: &[_] = if is_own { &["RequestPayload", "Sender"] } else { &[] };
    for name in ["V0Id", "RecordedSince"].iter().chain(of_writer) {
        if let Some(value) = image.get(*name) {
            item.insert((*name).to_owned(), value.clone());
        }
    }
    if is_own {
        let ticks: u16 = text(image, "/RecordedTick/N").parse().unwrap_or(0);
        let micros = text(image, "/RecordedAt/S").strip_suffix("000Z").unwrap_or_default();
        item.insert("RecordedAt".to_owned(), json!({"S": format!("{micros}{ticks:03}Z")}));
    } else {
        for name in ["RequestId", "Actor", "Reason", "Time", "Timestamp"] {
            item.remove(name);
        }
        item.insert("RecordedBy".to_owned(), json!({"S": "stream"}));
    }
    Value::Object(item)
}
