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

/// Returns the entity and its attributes, `a B Id No`, or the reason of a refusal.
fn update(mapping: &Mapping, item: &str) -> String {
    match mapping.update(&serde_json::from_str(item).unwrap()) {
        Ok(update) => {
            assert_eq!(update.expected, Some(ExpectedVersion::Absent));
            let names = update.changes.keys().map(|name| format!(" {name}"));
            update.entity.as_str().to_owned() + &names.collect::<String>()
        }
        Err(why) => why.to_string(),
    }
}

#[test]
fn an_item_becomes_an_update() {
    // Key attributes, the template, and names before and after.
    for case in r#"
        Id {Id} | {"Id": {"S": "a"}, "No": {"N": "1.5"}, "B": {"BS": ["AA=="]}} => a B Id No
        Id,No x{Id}#{No}y | {"Id": {"S": "a"}, "No": {"N": "1.5"}} => xa#1.5y Id No
        Id {B} | {"Id": {"S": "a"}, "B": {"BS": ["AA=="]}} => B is neither a string nor a number
        Id {Id} B No | {"Id": {"S": "a"}, "No": {"N": "1.5"}, "B": {"S": "b"}} => two attributes would be No
        Id {Id} B TTL | {"Id": {"S": "a"}, "B": {"S": "b"}} => TTL is reserved: give it another name
        PK,SK {PK}#{SK} | {"PK": {"S": "p"}, "SK": {"S": "s"}, "A": {"NULL": true}} => p#s A
        Id {Id} | {"Id": {"S": "a"}, "PK": {"S": "x"}} => PK is reserved: give it another name
        Id {Id} TTL Ttl | {"Id": {"S": "a"}, "TTL": {"N": "1"}} => a Id Ttl
        Id {Id} | {"Id": {"S": "a"}, "RequestId": {"S": "x"}} => RequestId is reserved: give it another name
        Id {Id} | {"Id": {"S": ""}} => it has no partition key
    "#
    .trim()
    .lines()
    {
        let (options, rest) = case.trim().split_once(" | ").unwrap();
        let (item, expected) = rest.split_once(" => ").unwrap();
        let words: Vec<_> = options.split(' ').collect();
        let keys: Vec<_> = words[0].split(',').collect();
        let rename: Vec<_> = words[2..].chunks(2).map(|pair| (pair[0], pair[1])).collect();
        let mapping = mapping(&keys, words[1], &rename, Ordering::Arrival);
        assert_eq!(update(&mapping, item), expected, "{case}");
    }
    let by_time = mapping(&["Id"], "{Id}", &[], Ordering::Time);
    assert_eq!(update(&by_time, r#"{"Id": {"S": "a"}}"#), Refusal::NoTime.to_string());
    assert_eq!(
        update(&by_time, r#"{"Id": {"S": "a"}, "Timestamp": {"N": "5"}}"#),
        "a Id"
    );
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
