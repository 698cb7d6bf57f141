//! Change sets: updates of several entities of which all are applied or none.
//!
//! ```text
//! {"RequestId": "r-1", "ChangeSet": "move-7", "Actor": "amy", "Reason": "…", "RequestSentAt": "…",   of the set
//!  "Updates": [{"ID": "Bin#1", "ExpectedVersion": 3, "Parts": 4}, {"ID": "Bin#2", "Parts": 6}]}      of each update
//! ```
//!
//! Each member of the event belongs either to the set or to its updates, so no update can have another request id or author than the
//! others. The hash of each update is that of all of them: a request id with other updates is detected by each entity.

use std::{collections::HashMap, ops::RangeInclusive};

use serde_json::{Map, Value};
use shared::{config::Ordering, domain::names, printable::shortened};

use crate::update::{ID, InvalidUpdate, REQUEST_SENT_AT, Update, members::Members, payload::Payload};

/// Member of an event: the updates of a change set.
pub const UPDATES: &str = "Updates";
/// Number of entities of a change set. A transaction has at most
/// [100 actions](https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/transaction-apis.html).
pub const ENTITIES: RangeInclusive<usize> = 2..=100;
/// Members of a change set that its updates share.
const OF_SET: [&str; 5] = [
    names::REQUEST_ID,
    REQUEST_SENT_AT,
    names::CHANGE_SET,
    names::ACTOR,
    names::REASON,
];

/// Parses the updates of an event: one, or those of a change set, in the order of the event. See [`Update::parse`].
///
/// # Errors
///
/// Returns [`InvalidUpdate`] if the JSON is neither an update nor a change set, or if it can never be stored.
pub fn parse(json: Value, default_request_id: &str, ordering: Ordering) -> Result<Vec<Update>, InvalidUpdate> {
    match json {
        Value::Object(members) if is_set(&members) => parse_set(Members(members), default_request_id, ordering),
        json => Ok(vec![Update::parse(json, default_request_id, ordering)?]),
    }
}

/// Returns `true` if an event with these members is a change set.
pub(crate) fn is_set(members: &Map<String, Value>) -> bool {
    members.contains_key(UPDATES) && !members.contains_key(ID)
}

fn parse_set(mut set: Members, default_request_id: &str, ordering: Ordering) -> Result<Vec<Update>, InvalidUpdate> {
    let Some(Value::Array(updates)) = set.0.remove(UPDATES) else {
        return Err(InvalidUpdate::Updates);
    };
    if let Some(name) = set.0.keys().find(|name| !OF_SET.contains(&name.as_str())) {
        return Err(InvalidUpdate::OfEachUpdate(shortened(name).into_owned()));
    }
    if !ENTITIES.contains(&updates.len()) {
        return Err(InvalidUpdate::SetOf(updates.len()));
    }
    set.check_change_set()?;
    let mut shared = set.0.clone();
    shared.retain(|_, value| !value.is_null());
    let request_id = Value::from(set.request_id(default_request_id)?.as_str());
    shared.insert(names::REQUEST_ID.to_owned(), request_id.clone());
    shared.entry(names::CHANGE_SET).or_insert(request_id);
    let parse = |(index, json): (usize, Value)| {
        parse_member(json, &shared, ordering).map_err(|source| InvalidUpdate::InSet(index, Box::new(source)))
    };
    let mut updates: Vec<_> = updates.into_iter().enumerate().map(parse).collect::<Result<_, _>>()?;
    let mut seen = HashMap::new();
    for (index, update) in updates.iter().enumerate() {
        if let Some(first) = seen.insert(&update.entity, index) {
            return Err(InvalidUpdate::InSet(index, Box::new(InvalidUpdate::Twice(first))));
        }
    }
    let payload = payload(&updates);
    let size = updates.len();
    for update in &mut updates {
        update.change_set_size = u64::try_from(size).ok();
        update.request_payload = Some(payload.clone());
    }
    Ok(updates)
}

/// Parses an update of a set with these members.
fn parse_member(json: Value, shared: &Map<String, Value>, ordering: Ordering) -> Result<Update, InvalidUpdate> {
    let Value::Object(mut members) = json else {
        return Err(InvalidUpdate::NotAnObject);
    };
    if let Some(name) = OF_SET.into_iter().find(|name| members.contains_key(*name)) {
        return Err(InvalidUpdate::OfSet(name));
    }
    members.extend(shared.clone());
    Update::parse(Value::Object(members), "", ordering)
}

/// Returns the hash of all updates, in any order.
fn payload(updates: &[Update]) -> Payload {
    let mut parts: Vec<_> = (updates.iter())
        .map(|update| (update.entity.as_str(), update.payload()))
        .collect();
    parts.sort_unstable_by_key(|(entity, _)| *entity);
    let parts = parts.iter().flat_map(|(entity, payload)| [*entity, payload.as_str()]);
    Payload::of_operation(&["change set"].into_iter().chain(parts).collect::<Vec<_>>(), &[].into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use shared::{domain::change::Change, logging::chain};
    use testkit::cases::cases;

    use super::*;

    fn set(json: Value) -> Result<Vec<Update>, InvalidUpdate> {
        parse(json, "message-1", Ordering::Arrival)
    }

    #[test]
    fn what_is_refused_and_why() {
        const REFUSED: &str = r#"
            {"Updates": {}}                                         -> Updates is not a list
            {"Updates": []}                                         -> Updates has 0 updates, and 2 to 100 are allowed
            {"Updates": [{"ID": "a"}]}                              -> Updates has 1 updates, and 2 to 100 are allowed
            {"Updates": [{"ID": "a"}, {"ID": "b"}, {"ID": "a"}]}    -> Updates[2] is invalid: Updates[0] has the same ID
            {"Updates": [{"ID": "a"}, 7]}                           -> Updates[1] is invalid: the update is not a JSON object
            {"Updates": [{"ID": "a"}, {}]}                          -> Updates[1] is invalid: ID is missing
            {"Updates": [{"ID": "a"}, {"ID": "b", "Latest": 1}]}    -> Updates[1] is invalid: Latest is reserved
            {"Updates": [{"ID": "a"}, {"ID": "b", "ChangeSetSize": 2}]} -> Updates[1] is invalid: ChangeSetSize is reserved
            {"Updates": [{"ID": "a"}, {"ID": "b", "RequestId": "r"}]}   -> Updates[1] is invalid: RequestId belongs to the whole change set: put it beside Updates
            {"Updates": [{"ID": "a", "Actor": "x"}, {"ID": "b"}]}   -> Updates[0] is invalid: Actor belongs to the whole change set: put it beside Updates
            {"Updates": [{"ID": "a", "ChangeSet": null}, {"ID": "b"}]} -> Updates[0] is invalid: ChangeSet belongs to the whole change set: put it beside Updates
            {"State": 1, "Updates": [{"ID": "a"}, {"ID": "b"}]}     -> State belongs to one entity: put it into each element of Updates
            {"Time": 1, "Updates": [{"ID": "a"}, {"ID": "b"}]}      -> Time belongs to one entity: put it into each element of Updates
            {"ChangeSet": 7, "Updates": [{"ID": "a"}, {"ID": "b"}]} -> ChangeSet is not a string of 1 to 1000 bytes
            {"RequestId": 7, "Updates": [{"ID": "a"}, {"ID": "b"}]} -> RequestId is not a string
            {"RequestId": "", "Updates": [{"ID": "a"}, {"ID": "b"}]} -> RequestId has 0 bytes, and 1 to 1000 are allowed
        "#;
        for (json, message) in cases(REFUSED) {
            assert_eq!(chain(&set(json.clone()).err().unwrap()), message, "{json}");
        }
        let many =
            |count: usize| json!({"Updates": (0..count).map(|n| json!({"ID": n.to_string()})).collect::<Vec<_>>()});
        assert!(set(many(100)).is_ok());
        assert!(set(many(101)) == Err(InvalidUpdate::SetOf(101)));
    }

    #[test]
    fn the_members_of_the_set_are_those_of_each_update() {
        let json = json!({
            "RequestId": "r", "Actor": "amy", "Reason": null, "RequestSentAt": 5,
            "Updates": [{"ID": "b", "ExpectedVersion": 3, "A": {"$update": {"B": 1}}}, {"ID": "a", "Deleted": true}],
        });
        let updates = set(json.clone()).unwrap_or_else(|error| panic!("{error}"));
        let [first, second] = &updates[..] else { panic!() };
        assert_eq!((first.entity.as_str(), second.entity.as_str()), ("b", "a"));
        assert!(first.expected.is_some() && second.expected.is_none() && second.deleted && first.changes_members());
        for update in [first, second] {
            assert_eq!((update.request_id.as_str(), update.change_set_size), ("r", Some(2)));
            assert_eq!(update.sent_at, first.sent_at);
            assert!(update.sent_at.is_some() && update.payload() == first.payload());
            // The set is named after its request.
            let text = |text: &str| Change::Set(shared::domain::attributes::s(text));
            assert!(update.changes[names::CHANGE_SET] == text("r") && update.changes[names::ACTOR] == text("amy"));
            assert!(!update.changes.contains_key(names::REASON));
        }
        let without = json!({"Updates": [{"ID": "a"}, {"ID": "b"}]});
        assert_eq!(set(without).unwrap()[0].request_id.as_str(), "message-1");
        // An entity with such an attribute is updated alone.
        assert!(set(json!({"ID": "E", "Updates": []})).is_ok_and(|updates| updates.len() == 1));
    }

    #[test]
    fn another_update_makes_another_set() {
        let payload = |updates: Value| set(json!({"Updates": updates})).unwrap()[0].payload();
        let [a, b] = [json!({"ID": "a", "A": 1}), json!({"ID": "b", "A": 1})];
        let one = payload(json!([a, b]));
        assert!(one == payload(json!([b, a])));
        for other in [
            json!([a, b, {"ID": "c"}]),
            json!([a, {"ID": "b", "A": 2}]),
            json!([a, {"ID": "c", "A": 1}]),
        ] {
            assert!(one != payload(other.clone()), "{other}");
        }
    }
}
