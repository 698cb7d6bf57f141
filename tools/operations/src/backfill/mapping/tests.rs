use serde_json::{Value, json};

use super::*;

fn mapping(keys: &[&str], id: &str, rename: &[(&str, &str)], ordering: Ordering) -> Mapping {
    let pair = |(from, to): &(&str, &str)| ((*from).to_owned(), (*to).to_owned());
    Mapping {
        table: "Old".to_owned(),
        keys: keys.iter().map(|key| (*key).to_owned()).collect(),
        id: id.parse().unwrap(),
        rename: rename.iter().map(pair).collect(),
        ordering,
    }
}

fn update(mapping: &Mapping, item: Value) -> Result<(String, Vec<String>), Refusal> {
    let update = mapping.update(&serde_json::from_value(item).unwrap())?;
    assert_eq!(update.expected, Some(ExpectedVersion::Absent));
    Ok((update.entity.as_str().to_owned(), update.changes.into_keys().collect()))
}

#[test]
fn an_item_becomes_an_update() {
    let arrival = Ordering::Arrival;
    let named = |id: &str, names: &[&str]| Ok((id.to_owned(), names.iter().map(|name| (*name).to_owned()).collect()));
    let reserved = |name| Err(Refusal::Reserved(name));
    let plain = json!({"Id": {"S": "a"}, "No": {"N": "1.5"}, "B": {"BS": ["AA=="]}});
    for (mapping, item, expected) in [
        (
            mapping(&["Id"], "{Id}", &[], arrival),
            plain.clone(),
            named("a", &["B", "Id", "No"]),
        ),
        (
            mapping(&["Id", "No"], "x{Id}#{No}y", &[], arrival),
            plain.clone(),
            named("xa#1.5y", &["B", "Id", "No"]),
        ),
        (
            mapping(&["Id"], "{B}", &[], arrival),
            plain.clone(),
            Err(Refusal::NoText("B".to_owned())),
        ),
        (
            mapping(&["Id"], "{Id}", &[("B", "No")], arrival),
            plain.clone(),
            Err(Refusal::Twice("No".to_owned())),
        ),
        (
            mapping(&["Id"], "{Id}", &[("B", "TTL")], arrival),
            plain.clone(),
            reserved("TTL"),
        ),
        (
            mapping(&["Id"], "{Id}", &[], Ordering::Time),
            plain,
            Err(Refusal::NoTime),
        ),
        (
            mapping(&["PK", "SK"], "{PK}#{SK}", &[], arrival),
            json!({"PK": {"S": "p"}, "SK": {"S": "s"}, "A": {"NULL": true}}),
            named("p#s", &["A"]),
        ),
        (
            mapping(&["Id"], "{Id}", &[], arrival),
            json!({"Id": {"S": "a"}, "PK": {"S": "x"}}),
            reserved("PK"),
        ),
        (
            mapping(&["Id"], "{Id}", &[("TTL", "Ttl")], arrival),
            json!({"Id": {"S": "a"}, "TTL": {"N": "1"}}),
            named("a", &["Id", "Ttl"]),
        ),
        (
            mapping(&["Id"], "{Id}", &[], arrival),
            json!({"Id": {"S": "a"}, "RequestId": {"S": "x"}}),
            reserved("RequestId"),
        ),
        (
            mapping(&["Id"], "{Id}", &[], Ordering::Time),
            json!({"Id": {"S": "a"}, "Timestamp": {"N": "5"}}),
            named("a", &["Id"]),
        ),
        (
            mapping(&["Id"], "{Id}", &[], arrival),
            json!({"Id": {"S": ""}}),
            Err(Refusal::Id(InvalidEntityId::Empty)),
        ),
    ] {
        assert_eq!(update(&mapping, item.clone()), expected, "{mapping:?} {item}");
    }
}

#[test]
fn an_entity_is_complete_with_every_attribute_of_the_item() {
    let item = |json: Value| serde_json::from_value::<Item>(json).unwrap();
    let source = item(json!({"PK": {"S": "p"}, "TTL": {"N": "1"}, "Timestamp": {"N": "5"}, "A": {"S": "old"}}));
    for ordering in [Ordering::Arrival, Ordering::Time] {
        let mapping = mapping(&["PK"], "{PK}", &[("TTL", "Expires")], ordering);
        let latest = json!({
            "PK": {"S": "p"}, "SK": {"S": "v0"}, "Latest": {"N": "2"},
            "Expires": {"NULL": true}, "Timestamp": {"N": "9"}, "A": {"S": "new"}, "More": {"S": "x"},
        });
        assert!(mapping.is_complete(&source, &item(latest.clone())));
        for name in ["Expires", "Timestamp", "A"] {
            let mut latest = latest.clone();
            latest.as_object_mut().unwrap().remove(name);
            assert!(!mapping.is_complete(&source, &item(latest)), "{name}");
        }
    }
}

#[test]
fn request_ids_of_different_items_differ() {
    let mapping = mapping(&["A", "B"], "{A}{B}", &[], Ordering::Arrival);
    let id = |a: Value, b: Value| {
        let item = serde_json::from_value(json!({"A": a, "B": b})).unwrap();
        request_id(&mapping.table, &mapping.keys, &item)
            .unwrap()
            .as_str()
            .to_owned()
    };
    let s = |text: &str| json!({"S": text});
    assert_eq!(id(s("a"), s("bc")), id(s("a"), s("bc")));
    assert_ne!(id(s("a"), s("bc")), id(s("ab"), s("c")));
    assert_ne!(id(s("1"), s("x")), id(json!({"N": "1"}), s("x")));
    assert!(id(s("a"), s("b")).starts_with("backfill#Old#"));
    assert_eq!(id(s("a"), json!({"B": "AA=="})).len(), "backfill#Old#".len() + 64);
}

#[test]
fn invalid_templates() {
    for text in ["", "text", "{", "}", "{}", "{a}}", "}{a}", "{{a}}", "{a", "a{b}c}"] {
        assert_eq!(text.parse::<Template>(), Err(InvalidTemplate), "{text}");
    }
    assert!("{a}".parse::<Template>().unwrap().names("a"));
    assert!(!"a{b}".parse::<Template>().unwrap().names("a"));
    assert_eq!("a{b}#{c}d".parse::<Template>().unwrap().to_string(), "a{b}#{c}d");
}
