use proptest::prelude::*;
use serde_json::json;
use shared::logging::chain;

use crate::update::*;

fn parse(json: Value) -> Result<Update, InvalidUpdate> {
    Update::parse(json, "default", Ordering::Arrival)
}

fn timestamp(json: &str) -> Result<i64, InvalidUpdate> {
    let update = Update::parse(serde_json::from_str(json).unwrap(), "default", Ordering::Time)?;
    assert!(!update.changes.contains_key(names::TIMESTAMP));
    Ok(update.timestamp.unwrap().get())
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
    let too_many: Map<_, _> = (0..=MAX_ATTRIBUTES)
        .map(|n| (format!("A{n}"), json!(1)))
        .chain([("ID".into(), json!("E"))])
        .collect();
    for (json, message) in [
        (json!([1]), "the update is not a JSON object"),
        (json!("text"), "the update is not a JSON object"),
        (json!({}), "ID is missing"),
        (json!({"ID": 7}), "ID is not a string"),
        (json!({"ID": null}), "ID is not a string"),
        (
            json!({"ID": ""}),
            "ID is not a partition key: the partition key is empty",
        ),
        (json!({"ID": "E", "PK": "x"}), "PK is reserved"),
        (json!({"ID": "E", "SK": "x"}), "SK is reserved"),
        (json!({"ID": "E", "Latest": 5}), "Latest is reserved"),
        (json!({"ID": "E", "TTL": null}), "TTL is reserved"),
        (json!({"ID": "E", "RecentRequests": {}}), "RecentRequests is reserved"),
        (json!({"ID": "E", "RecordedAt": "2026-01-01"}), "RecordedAt is reserved"),
        (json!({"ID": "E", "RestoredFrom": 1}), "RestoredFrom is reserved"),
        (json!({"ID": "E", "Sender": "AIDA"}), "Sender is reserved"),
        (
            json!({"ID": "E", "Time": "soon"}),
            "Time cannot be read: it is not an ISO 8601 date and time",
        ),
        (
            json!({"ID": "E", "Time": 5}),
            "Time cannot be read: it is not an ISO 8601 date and time",
        ),
        (
            json!({"ID": "E", "Timestamp": "soon"}),
            "Timestamp is not a whole number of epoch milliseconds",
        ),
        (
            json!({"ID": "E", "RequestSentAt": "soon"}),
            "RequestSentAt is neither an ISO 8601 date and time nor a whole number of epoch milliseconds",
        ),
        (json!({"ID": "E", "RequestId": 7}), "RequestId is not a string"),
        (
            json!({"ID": "E", "RequestId": ""}),
            "RequestId has 0 bytes, and 1 to 1000 are allowed",
        ),
        (
            json!({"ID": "E", "ExpectedVersion": -1}),
            "ExpectedVersion is not a whole number from 0",
        ),
        (
            json!({"ID": "E", "ExpectedVersion": 1.5}),
            "ExpectedVersion is not a whole number from 0",
        ),
        (
            json!({"ID": "E", "ExpectedVersion": "1"}),
            "ExpectedVersion is not a whole number from 0",
        ),
        (json!({"ID": "E", "Deleted": "yes"}), "Deleted is not true or false"),
        (
            json!({"ID": "E", "TypedValues": "yes"}),
            "TypedValues is not true or false",
        ),
        (
            json!({"ID": "E", "TypedValues": true, "A": {"$number": "one"}}),
            "the number in A cannot be stored: it is not a number",
        ),
        (
            json!({"ID": "E", "TypedValues": true, "A": {"$number": 5}}),
            "the value of A cannot be read: $number has an operand that it does not take",
        ),
        (
            json!({"ID": "E", "TypedValues": true, "A": [{"$strange": 5}]}),
            "the value of A cannot be read: $strange is no known form: put a map with such a name as {\"$map\": {…}}",
        ),
        (json!({"ID": "E", "": 1}), "an attribute has no name"),
        (
            Value::Object(too_many),
            "the update has 276 attributes, and 275 are allowed",
        ),
    ] {
        assert_eq!(chain(&parse(json.clone()).err().unwrap()), message, "{json}");
    }
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
        assert_eq!(
            chain(&nested(levels, innermost).err().unwrap()),
            too_deep,
            "{levels} {innermost}"
        );
    }
    let named = |name: String, value: Value| parse(json!({"ID": "E", name: value})).err().map(|error| chain(&error));
    let long = "x".repeat(65_536);
    assert_eq!(named("x".repeat(65_535), json!(1)), None);
    let too_long = "the name of an attribute has 65536 bytes, and 65535 are allowed";
    assert_eq!(named(long.clone(), json!(1)).unwrap(), too_long);
    assert_eq!(named(long.clone(), json!(null)).unwrap(), too_long);
    assert_eq!(
        named("A".to_owned(), json!([{"a": 1, long: 1}])).unwrap(),
        "the value of A cannot be stored: a name has 65536 bytes, and 65535 are allowed"
    );
    assert_eq!(
        named("A".to_owned(), json!({"": 1})).unwrap(),
        "the value of A cannot be stored: a name is empty"
    );
    let zeros = format!(r#"{{"ID": "E", "A": 1.{}}}"#, "0".repeat(1000));
    assert_eq!(
        chain(&parse(serde_json::from_str(&zeros).unwrap()).err().unwrap()),
        "the number in A cannot be stored: it is written in 1002 bytes, and 1000 are allowed"
    );
    let removed: Map<_, _> = (0..40)
        .map(|n| (format!("{n}{}", "x".repeat(60_000)), Value::Null))
        .chain([("ID".into(), json!("E"))])
        .collect();
    assert!(matches!(
        parse(Value::Object(removed)).err().unwrap(),
        InvalidUpdate::TooManyBytes { bytes: 2_400_130.. }
    ));
    let long = r#"{"ID": "E", "A": {"b": [123456789012345678901234567890123456789]}}"#;
    assert_eq!(
        chain(&parse(serde_json::from_str(long).unwrap()).err().unwrap()),
        "the number in A cannot be stored: it has 39 significant digits, and 38 are allowed"
    );
}

#[test]
fn what_alone_makes_too_large_an_item_is_refused() {
    let id = "E".repeat(100);
    // PK, SK, RequestId and A, with the record of the version and the marks that the version item may get.
    let others =
        "PK".len() + 100 + "SKv1".len() + "RequestIddefault".len() + "A".len() + RECORD_BYTES + size::MARKS_BYTES;
    let most = size::MAX_ITEM_BYTES - others;
    assert!(parse(json!({"ID": id, "A": "x".repeat(most)})).is_ok());
    assert_eq!(
        chain(&parse(json!({"ID": id, "A": "x".repeat(most + 1)})).err().unwrap()),
        "the version item would have 409601 bytes, and 409600 are allowed"
    );
    // With a short key, what DynamoDB adds for the update itself is more.
    let most = size::MAX_ITEM_BYTES - 5 * SET_BYTES - "RequestIddefault".len() - RECORD_BYTES - "A".len();
    assert!(parse(json!({"ID": "E", "A": "x".repeat(most)})).is_ok());
    assert_eq!(
        chain(&parse(json!({"ID": "E", "A": "x".repeat(most + 1)})).err().unwrap()),
        "the update has 409601 bytes, and 409600 are allowed"
    );
    // What is taken away is not stored.
    let removed = (0..6).map(|n| (format!("{n}{}", "x".repeat(60_000)), Value::Null));
    assert!(parse(Value::Object(removed.chain([("ID".into(), json!("E"))]).collect())).is_ok());
}

#[test]
fn the_time_that_orders_updates() {
    assert_eq!(
        timestamp(r#"{"ID":"E","Time":"2020-11-01T20:04:00"}"#),
        Ok(1_604_261_040_000)
    );
    assert_eq!(
        timestamp(r#"{"ID":"E","Timestamp":1721769060000}"#),
        Ok(1_721_769_060_000)
    );
    assert_eq!(
        timestamp(r#"{"ID":"E","Time":"2020-11-01T20:04:00Z","Timestamp":1604261040000}"#),
        Ok(1_604_261_040_000)
    );
    for (json, why) in [
        (r#"{"ID":"E"}"#, InvalidUpdate::NoTime),
        (r#"{"ID":"E","Time":null}"#, InvalidUpdate::NoTime),
        (r#"{"ID":"E","Time":"now"}"#, InvalidUpdate::Time(InvalidTime)),
        (r#"{"ID":"E","Time":5}"#, InvalidUpdate::Time(InvalidTime)),
        (r#"{"ID":"E","Timestamp":"5"}"#, InvalidUpdate::Timestamp),
        (r#"{"ID":"E","Timestamp":5.5}"#, InvalidUpdate::Timestamp),
        (
            r#"{"ID":"E","Time":"2020-11-01T20:04:00","Timestamp":5}"#,
            InvalidUpdate::TimesDisagree,
        ),
    ] {
        assert_eq!(timestamp(json), Err(why), "{json}");
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
