use proptest::prelude::*;
use serde_json::json;
use shared::{domain::size, logging::chain};
use testkit::cases::cases;

use crate::update::{
    limits::{RECORD_BYTES, SET_BYTES},
    *,
};

fn parse(json: Value) -> Result<Update, InvalidUpdate> {
    Update::parse(json, "default", Ordering::Arrival)
}

#[test]
fn every_member_has_its_meaning() {
    let update = parse(json!({
        "ID": "Equipment#1", "RequestId": "r1", "ExpectedVersion": 3, "Deleted": true,
        "Time": "2020-11-01T20:04:00", "State": "WARNING1", "Old": null, "Nested": {"a": [1, null]},
    }))
    .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(update.entity.as_str(), "Equipment#1");
    assert_eq!(update.request_id.as_str(), "r1");
    assert_eq!(update.expected.map(ExpectedVersion::number), Some(3));
    assert!(update.deleted);
    assert!(update.timestamp.is_none());
    let names: Vec<_> = update.changes.keys().map(String::as_str).collect();
    assert_eq!(names, ["Nested", "Old", "State", "Time"]);
    assert!(update.changes["Old"] == Change::Remove);
    let nested = serde_json::from_value(json!({"M": {"a": {"L": [{"N": "1"}, {"NULL": true}]}}})).unwrap();
    assert!(update.changes["Nested"] == Change::Set(nested));
}

#[test]
fn typed_values_are_read_on_request_only() {
    let digits = "12345678901234567890123456789012345678";
    let value = json!({"Amount": {"$number": digits}, "Currency": "EUR"});
    let change = |typed: Value| {
        let update =
            parse(json!({"ID": "E", "TypedValues": typed, "Price": value, "Text": "5", "Gone": null})).unwrap();
        assert_eq!(update.changes.keys().collect::<Vec<_>>(), ["Gone", "Price", "Text"]);
        assert!(update.changes["Gone"] == Change::Remove);
        assert!(update.changes["Text"] == Change::Set(AttributeValue::S("5".to_owned())));
        update
    };
    let stored = |amount: Value| {
        let price = json!({"M": {"Amount": amount, "Currency": {"S": "EUR"}}});
        Change::Set(serde_json::from_value(price).unwrap())
    };
    let (typed, untyped) = (change(json!(true)), change(json!(false)));
    assert!(typed.changes["Price"] == stored(json!({"N": digits})));
    assert!(untyped.changes["Price"] == stored(json!({"M": {"$number": {"S": digits}}})));
    assert!(change(json!(null)) == untyped);
    // A number and its text are the same update.
    let number: Value = serde_json::from_str(&format!(r#"{{"ID": "E", "A": {digits}}}"#)).unwrap();
    let text = json!({"ID": "E", "TypedValues": true, "A": {"$number": digits}});
    assert!(parse(number).unwrap().payload() == parse(text).unwrap().payload());
}

#[test]
fn what_an_update_leaves_out_has_a_default() {
    let update = parse(json!({"ID": "E", "RequestId": null, "ExpectedVersion": null, "Deleted": null})).unwrap();
    assert_eq!(update.request_id.as_str(), "default");
    assert_eq!(update.expected, None);
    assert!(!update.deleted);
    assert!(update.changes.is_empty());
    let zero = parse(json!({"ID": "E", "ExpectedVersion": 0})).unwrap();
    assert_eq!(zero.expected, Some(ExpectedVersion::Absent));
}

#[test]
fn what_is_refused_and_why() {
    const REFUSED: &str = r#"
        [1]                                     -> the update is not a JSON object
        "text"                                  -> the update is not a JSON object
        {}                                      -> ID is missing
        {"ID": 7}                               -> ID is not a string
        {"ID": null}                            -> ID is not a string
        {"ID": ""}                              -> ID is not a partition key: the partition key is empty
        {"ID": "E", "PK": "x"}                  -> PK is reserved
        {"ID": "E", "SK": "x"}                  -> SK is reserved
        {"ID": "E", "Latest": 5}                -> Latest is reserved
        {"ID": "E", "TTL": null}                -> TTL is reserved
        {"ID": "E", "RecentRequests": {}}       -> RecentRequests is reserved
        {"ID": "E", "RecordedAt": "2026-01-01"} -> RecordedAt is reserved
        {"ID": "E", "RestoredFrom": 1}          -> RestoredFrom is reserved
        {"ID": "E", "Sender": "AIDA"}           -> Sender is reserved
        {"ID": "E", "Time": "soon"}             -> Time cannot be read: it is not an ISO 8601 date and time
        {"ID": "E", "Time": 5}                  -> Time cannot be read: it is not an ISO 8601 date and time
        {"ID": "E", "Timestamp": "soon"}        -> Timestamp is not a whole number of epoch milliseconds
        {"ID": "E", "RequestSentAt": "soon"}    -> RequestSentAt is neither an ISO 8601 date and time nor a whole number of epoch milliseconds
        {"ID": "E", "RequestId": 7}             -> RequestId is not a string
        {"ID": "E", "RequestId": ""}            -> RequestId has 0 bytes, and 1 to 1000 are allowed
        {"ID": "E", "ChangeSet": 7}             -> ChangeSet is not a string of 1 to 1000 bytes
        {"ID": "E", "ChangeSet": ""}            -> ChangeSet is not a string of 1 to 1000 bytes
        {"ID": "E", "ChangeSet": ["a"]}         -> ChangeSet is not a string of 1 to 1000 bytes
        {"ID": "E", "TypedValues": true, "ChangeSet": {"$number": "7"}} -> ChangeSet is not a string of 1 to 1000 bytes
        {"ID": "E", "ExpectedVersion": -1}      -> ExpectedVersion is not a whole number from 0
        {"ID": "E", "ExpectedVersion": 1.5}     -> ExpectedVersion is not a whole number from 0
        {"ID": "E", "ExpectedVersion": "1"}     -> ExpectedVersion is not a whole number from 0
        {"ID": "E", "Deleted": "yes"}           -> Deleted is not true or false
        {"ID": "E", "TypedValues": "yes"}       -> TypedValues is not true or false
        {"ID": "E", "": 1}                      -> an attribute has no name
        {"ID": "E", "A": {"": 1}}               -> the value of A cannot be stored: a name is empty
        {"ID": "E", "TypedValues": true, "A": {"$number": "one"}}    -> the number in A cannot be stored: it is not a number
        {"ID": "E", "TypedValues": true, "A": {"$number": 5}}        -> the value of A cannot be read: $number has an operand that it does not take
        {"ID": "E", "TypedValues": true, "A": [{"$strange": 5}]}     -> the value of A cannot be read: $strange is no known form: put a map with such a name as {"$map": {…}}
        {"ID": "E", "A": {"b": [123456789012345678901234567890123456789]}} -> the number in A cannot be stored: it has 39 significant digits, and 38 are allowed
    "#;
    for (json, message) in cases(REFUSED) {
        assert_eq!(chain(&parse(json.clone()).err().unwrap()), message, "{json}");
    }
}

#[test]
fn a_change_set_is_an_attribute_of_its_version() {
    let set = |name: Value| {
        let update = parse(json!({"ID": "E", "ChangeSet": name}))?;
        assert_eq!(update.new_state().count(), 0);
        Ok::<_, InvalidUpdate>(update.changes["ChangeSet"].clone())
    };
    // Two bytes each.
    for (text, is_valid) in [
        ("x".repeat(1000), true),
        ("x".repeat(1001), false),
        ("é".repeat(500), true),
        ("é".repeat(501), false),
    ] {
        let expected = is_valid.then(|| Change::Set(AttributeValue::S(text.clone())));
        let found = set(json!(text));
        assert!(found == expected.ok_or(InvalidUpdate::ChangeSet), "{}", text.len());
    }
    assert!(set(json!(null)) == Ok(Change::Remove));
    let payload = |json: Value| parse(json).unwrap().payload();
    let one = payload(json!({"ID": "E", "ChangeSet": "a"}));
    assert!(one != payload(json!({"ID": "E", "ChangeSet": "b"})) && one != payload(json!({"ID": "E"})));
}

#[test]
fn values_that_cannot_be_stored_are_rejected() {
    let nested = |levels: usize, innermost: &str| {
        let text = format!("{}{innermost}{}", "[".repeat(levels), "]".repeat(levels));
        parse(serde_json::from_str(&format!(r#"{{"ID": "E", "A": {text}}}"#)).unwrap())
    };
    let too_deep = "the value of A cannot be stored: its lists and maps are deeper than 32 levels";
    assert!(nested(31, "7").is_ok() && nested(31, r#""x""#).is_ok() && nested(31, "").is_ok());
    for (levels, innermost) in [
        (32, "7"),
        (32, ""),
        (31, "[]"),
        (31, "{}"),
        (31, r#"{"a": 1}"#),
        (100, ""),
    ] {
        let error = nested(levels, innermost).err().unwrap();
        assert_eq!(chain(&error), too_deep, "{levels} {innermost}");
    }
    let (longest, long) = ("x".repeat(65_535), "x".repeat(65_536));
    let zeros = serde_json::from_str(&format!("1.{}", "0".repeat(1000))).unwrap();
    let too_long = Some("the name of an attribute has 65536 bytes, and 65535 are allowed");
    let inner = Some("the value of A cannot be stored: a name has 65536 bytes, and 65535 are allowed");
    let digits = Some("the number in A cannot be stored: it is written in 1002 bytes, and 1000 are allowed");
    for (name, value, expected) in [
        (&*longest, json!(1), None),
        (&long, json!(1), too_long),
        (&long, json!(null), too_long),
        ("A", json!([{"a": 1, &long: 1}]), inner),
        ("A", zeros, digits),
    ] {
        let error = parse(json!({"ID": "E", name: value})).err().map(|error| chain(&error));
        assert_eq!(error.as_deref(), expected);
    }
    let of = |attributes: usize, name: &str, value: &Value| {
        let attributes = (0..attributes).map(|n| (format!("{n}{name}"), value.clone()));
        parse(Value::Object(
            attributes.chain([("ID".to_owned(), json!("E"))]).collect(),
        ))
    };
    let removed = of(40, &"x".repeat(60_000), &Value::Null);
    assert!(matches!(
        removed.err().unwrap(),
        InvalidUpdate::TooManyBytes(2_400_130..)
    ));
    // Removed attributes are not stored.
    assert!(of(6, &"x".repeat(60_000), &Value::Null).is_ok());
    assert!(of(MAX_ATTRIBUTES, "A", &json!(1)).is_ok());
    let error = of(MAX_ATTRIBUTES + 1, "A", &json!(1)).err().unwrap();
    assert_eq!(chain(&error), "the update has 276 attributes, and 275 are allowed");
}

#[test]
fn what_alone_makes_too_large_an_item_is_refused() {
    let record = "RequestIddefault".len() + RECORD_BYTES + "A".len();
    let long = "E".repeat(100);
    for (id, others, message) in [
        // PK, SK, and the marks that the version item may get.
        (
            &*long,
            "PK".len() + 100 + "SKv1".len() + size::MARKS_BYTES,
            "the version item would have",
        ),
        // With a short key, what DynamoDB adds for the update itself is more.
        ("E", 5 * SET_BYTES, "the update has"),
    ] {
        let most = size::MAX_ITEM_BYTES - others - record;
        assert!(parse(json!({"ID": id, "A": "x".repeat(most)})).is_ok());
        let error = parse(json!({"ID": id, "A": "x".repeat(most + 1)})).err().unwrap();
        assert_eq!(chain(&error), format!("{message} 409601 bytes, and 409600 are allowed"));
    }
}

#[test]
fn the_time_that_orders_updates() {
    const TIMES: &str = r#"
        {"Time": "2020-11-01T20:04:00"}                               -> 1604261040000
        {"Timestamp": 1721769060000}                                  -> 1721769060000
        {"Time": "2020-11-01T20:04:00Z", "Timestamp": 1604261040000}  -> 1604261040000
        {}                                                            -> Time is missing, and updates are ordered by time
        {"Time": null}                                                -> Time is missing, and updates are ordered by time
        {"Time": "now"}                                               -> Time cannot be read
        {"Time": 5}                                                   -> Time cannot be read
        {"Timestamp": "5"}                                            -> Timestamp is not a whole number of epoch milliseconds
        {"Timestamp": 5.5}                                            -> Timestamp is not a whole number of epoch milliseconds
        {"Time": "2020-11-01T20:04:00", "Timestamp": 5}               -> Time and Timestamp are different times
    "#;
    for (mut json, expected) in cases(TIMES) {
        json["ID"] = json!("E");
        let update = Update::parse(json.clone(), "default", Ordering::Time);
        assert!(
            update
                .as_ref()
                .is_ok_and(|update| !update.changes.contains_key(names::TIMESTAMP))
                || update.is_err()
        );
        let found = update.map(|update| update.timestamp.unwrap().get().to_string());
        assert_eq!(found.unwrap_or_else(|error| error.to_string()), expected, "{json}");
    }
}

#[test]
fn in_order_of_arrival_a_time_is_an_attribute() {
    let update = parse(json!({"ID": "E", "Timestamp": 5, "Time": "1970-01-01T00:00:00.005Z"})).unwrap();
    assert!(update.changes.contains_key(names::TIMESTAMP) && update.changes.contains_key(names::TIME));
    assert_eq!(update.timestamp, None);
    let update = parse(json!({"ID": "E", "RequestSentAt": "1970-01-01T00:00:00.005Z"})).unwrap();
    assert_eq!(update.sent_at, Some(SentAt::since(EpochMillis::new(5))));
    assert!(update.changes.is_empty());
}

proptest! {
    #[test]
    fn any_json_is_read_or_refused(text in "\\PC{0,40}", id in ".{0,10}") {
        if let Ok(json) = serde_json::from_str(&text) {
            let _ = parse(json);
        }
        let _ = Update::parse(json!({"ID": id, "Time": text, "Timestamp": text}), &id, Ordering::Time);
    }
}
