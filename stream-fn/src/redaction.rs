//! Stream records without values that were erased, as texts for quarantine.
//!
//! Erased values are replaced by NULL, so that a redrive of the record finds their places, and stores a version with the mark of the
//! erasure. An attribute that cannot be read is left out. The rest of the text stays as it is.

use std::collections::{BTreeSet, HashMap};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde_json::json;
use shared::{
    domain::{
        AttributeValue,
        attached::AttachedTable,
        attributes,
        erase::places,
        erased::{Erasures, FINGERPRINTS},
        names,
    },
    json::{self, Members},
};

use crate::record::unwrap_kinesis;

/// Returns the text of a stream record, in which values are replaced that were erased. `attached` is the definition of an attached table.
pub fn without_erased(raw: &str, erasures: &Erasures, attached: Option<&AttachedTable>) -> String {
    let places = places(erasures, attached);
    match places.is_empty() {
        true => raw.to_owned(),
        false => record(raw, &places, attached.is_none()),
    }
}

fn record(raw: &str, places: &BTreeSet<Vec<String>>, is_own: bool) -> String {
    changed(raw, |name, part| match name {
        "dynamodb" => Some(changed(part, |name, part| match name {
            "NewImage" | "OldImage" => {
                json::members(part).ok()?;
                Some(changed(part, |name, value| attribute(name, value, places, is_own)))
            }
            _ => Some(part.to_owned()),
        })),
        "kinesis" => Some(changed(part, |name, part| {
            let inner = json::string(part)
                .filter(|_| name == "data")
                .and_then(|data| unwrap_kinesis(&data));
            let inner = inner.map(|inner| json!(BASE64.encode(record(&inner, places, is_own))).to_string());
            Some(inner.unwrap_or_else(|| part.to_owned()))
        })),
        _ => Some(part.to_owned()),
    })
}

/// Returns an object with changed members. `None` leaves a member out.
fn changed(object: &str, change: impl Fn(&str, &str) -> Option<String>) -> String {
    let Ok(members) = json::members(object) else {
        return object.to_owned();
    };
    let members =
        Members::iter(&members).filter_map(|(name, part)| Some(format!("{}:{}", json!(name), change(name, part)?)));
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

fn attribute(name: &str, value: &str, places: &BTreeSet<Vec<String>>, is_own: bool) -> Option<String> {
    if is_own && FINGERPRINTS.contains(&name) {
        return None;
    }
    // The state of a tombstone is one level deeper.
    let is_nested = is_own && name == names::TOMBSTONE_STATE;
    let own: Vec<_> = places.iter().filter(|place| is_nested || place[0] == name).collect();
    if own.is_empty() {
        return Some(value.to_owned());
    }
    let mut item = HashMap::from([(name.to_owned(), attributes::from_dynamodb_json(value).ok()?)]);
    let before = item.clone();
    for place in own {
        let outer = is_nested.then(|| name.to_owned());
        replace(&mut item, &outer.iter().chain(place).collect::<Vec<_>>());
    }
    // Members of a map have no order: a text without such values stays as it is.
    if item == before {
        return Some(value.to_owned());
    }
    serde_json::to_string(item.get(name)?).ok()
}

fn replace(map: &mut HashMap<String, AttributeValue>, names: &[&String]) {
    match (names, names.first().and_then(|name| map.get_mut(*name))) {
        ([_], Some(value)) => *value = AttributeValue::Null(true),
        ([_, rest @ ..], Some(AttributeValue::M(inner))) => replace(inner, rest),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::Value;
    use shared::domain::{
        attached::definition::{AttachedSettings, KeyAttribute, KeyType},
        erased::{ErasedPath, Erasure},
        recorded_at::RecordedAt,
        version::Version,
    };

    use super::*;

    #[test]
    fn erased_values_are_replaced_and_everything_else_stays() {
        const CASES: &str = r#"
            [["Attribute", "a"]]                 -> {"a": {"NULL": true}}
            [["Attribute", "m", "x"]]            -> {"m": {"M": {"x": {"NULL": true}, "y": {"N": "1.0"}}}}
            [["Attribute", "m", "z"]]            -> {}
            [["Attribute", "a"], ["Attribute", "bad", "x"]] -> {"a": {"NULL": true}, "bad": null}
            [["Attribute", "m"], ["Metadata", "Actor"]] -> {"m": {"NULL": true}, "Actor": {"NULL": true}, "TombstoneState": {"M": {"m": {"NULL": true}}}}
        "#;
        let table = AttachedSettings {
            table: "Orders".to_owned(),
            actor_attribute: Some("a".to_owned()),
            ..AttachedSettings::default()
        };
        let table = AttachedTable::new(table, vec![KeyAttribute::new("id", KeyType::S)]).unwrap();
        let image = json!({
            "id": {"S": "i"}, "a": {"S": "secret"}, "m": {"M": {"x": {"S": "secret"}, "y": {"N": "1.0"}}}, "bad": {"X": "secret"},
            "Actor": {"S": "amy"}, "TombstoneState": {"M": {"m": {"S": "secret"}}}, "RequestPayload": {"S": "p"}, "RecentRequests": {"M": {}},
        });
        let record = |image: &Value| {
            let change =
                json!({"Keys": {"id": {"S": "i"}}, "NewImage": image, "OldImage": image, "SequenceNumber": "7"});
            json!({"eventName": "MODIFY", "dynamodb": change})
        };
        for (paths, replaced) in testkit::cases::cases(CASES) {
            let path = |path: &Value| (ErasedPath::parse(&path.to_string()).unwrap(), erasure());
            let erasures = Erasures(paths.as_array().unwrap().iter().map(path).collect());
            let mut expected = image.clone();
            let replaced: Value = serde_json::from_str(replaced).unwrap();
            expected
                .as_object_mut()
                .unwrap()
                .extend(replaced.as_object().unwrap().clone());
            expected
                .as_object_mut()
                .unwrap()
                .retain(|name, value| !value.is_null() && !FINGERPRINTS.contains(&name.as_str()));
            let of = |raw: &Value, table| without_erased(&raw.to_string(), &erasures, table);
            let text = of(&record(&image), None);
            assert_eq!(without_erased(&text, &erasures, None), text);
            let own: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(own, record(&expected), "{paths}");
            // In a Kinesis record, the stream record is in base64.
            let data = |record: &Value| BASE64.encode(record.to_string());
            let outer = json!({"kinesis": {"data": data(&record(&image)), "sequenceNumber": "9"}});
            let outer: Value = serde_json::from_str(&of(&outer, None)).unwrap();
            let inner = unwrap_kinesis(outer["kinesis"]["data"].as_str().unwrap()).unwrap();
            assert_eq!(
                serde_json::from_str::<Value>(&inner).unwrap(),
                record(&expected),
                "{paths}"
            );
            // An image that is no object, and a text that is no record.
            assert!(!of(&record(&json!([{"S": "secret"}])), None).contains("secret"));
            assert_eq!(of(&json!("x"), None), "\"x\"");
            assert_eq!(without_erased(" {} ", &Erasures::default(), None), " {} ");
        }
        // The author is a copy of an attribute. The library's own names are names of the user here.
        for (path, replaced) in [("Metadata", "a"), ("Attribute", "id")] {
            let path = json!([path, if replaced == "a" { "Actor" } else { replaced }]);
            let erasures = Erasures([(ErasedPath::parse(&path.to_string()).unwrap(), erasure())].into());
            let redacted = without_erased(&record(&image).to_string(), &erasures, Some(&table));
            let mut expected = image.clone();
            if replaced == "a" {
                expected["a"] = json!({"NULL": true});
            }
            assert_eq!(
                serde_json::from_str::<Value>(&redacted).unwrap(),
                record(&expected),
                "{path}"
            );
        }
    }

    fn erasure() -> Erasure {
        Erasure {
            at: RecordedAt::since_epoch(Duration::from_secs(7)),
            to: Version::FIRST,
            reason: "asked".to_owned(),
        }
    }
}
