use proptest::prelude::*;
use serde_json::json;
use shared::{config::Ordering, logging::chain};
use testkit::cases::cases;

use crate::update::{
    InvalidUpdate, MAX_ATTRIBUTES, Update,
    limits::{OF_MAP, count},
    nested::*,
};

fn parse(attributes: Value) -> Result<Update, InvalidUpdate> {
    let mut members = attributes;
    members["ID"] = json!("E");
    Update::parse(members, "r", Ordering::Arrival)
}

fn changes(attributes: Value) -> BTreeMap<String, Change> {
    parse(attributes).unwrap().changes
}

fn item(item: Value) -> Item {
    serde_json::from_value(item).unwrap()
}

#[test]
fn an_update_of_a_map_is_parsed() {
    let parsed = changes(json!({"A": {"$update": {"b.c": 1, "Old": null, "D": {"$update": {"E": {"F": null}}}}}}));
    let text = |text: Value| Change::Set(serde_json::from_value(text).unwrap());
    let inner = BTreeMap::from([("E".to_owned(), text(json!({"M": {"F": {"NULL": true}}})))]);
    let members = [
        ("b.c".to_owned(), text(json!({"N": "1"}))),
        ("Old".to_owned(), Change::Remove),
        ("D".to_owned(), Change::Update(inner)),
    ];
    assert!(parsed["A"] == Change::Update(BTreeMap::from(members)));
    assert_eq!(count(&parsed), 2 + 2 + 3 + 2 * OF_MAP);
}

#[test]
fn what_is_no_update_of_a_map() {
    const REFUSED: &str = r#"
        {"A": {"$update": {}}}                                    -> the update of A names no members
        {"A": {"$update": {"B": {"$update": {}}}}}                -> the update of A names no members
        {"A": {"$update": 1}}                                     -> $update in A is neither in place of an attribute nor of a member
        {"A": {"$update": null}}                                  -> $update in A is neither
        {"A": [{"$update": {"B": 1}}]}                            -> $update in A is neither
        {"A": {"B": {"$update": {"C": 1}}}}                       -> $update in A is neither
        {"A": {"$update": {"B": {"C": {"$update": {"D": 1}}}}}}   -> $update in A is neither
        {"A": {"$update": {"": 1}}}                               -> the value of A cannot be stored:
        {"A": {"$update": {"B": "1e999"}}, "PK": 1}               -> PK is reserved
        {"RecentRequests": {"$update": {"B": 1}}}                 -> RecentRequests is reserved
        {"Latest": {"$update": {"B": 1}}}                         -> Latest is reserved
        {"Actor": {"$update": {"B": 1}}}                          -> Actor describes one version
        {"ChangeSet": {"$update": {"B": 1}}}                      -> ChangeSet is not a string
        {"Reason": {"$update": {"B": 1}}}                         -> Reason describes one version
        {"Time": {"$update": {"B": 1}}}                           -> Time cannot be read
        {"Deleted": {"$update": {"B": 1}}}                        -> Deleted is not true or false
    "#;
    let deep = (0..40).fold(json!(1), |value, _| json!({"$update": {"A": value}}));
    let many: serde_json::Map<_, _> = (0..=MAX_ATTRIBUTES / 2).map(|n| (format!("A{n}"), json!(n))).collect();
    let many = json!({"A": {"$update": many}});
    for (attributes, message) in cases(REFUSED).chain([
        (json!({"A": deep}), "the value of A cannot be stored: "),
        (many, "the update has 280 attributes, and 275 are allowed"),
    ]) {
        let error = parse(attributes.clone()).map(drop).unwrap_err();
        assert!(chain(&error).starts_with(message), "{attributes}: {}", chain(&error));
    }
    // Other members make it an ordinary map.
    assert!(matches!(
        changes(json!({"A": {"$update": {"B": 1}, "C": 1}}))["A"],
        Change::Set(_)
    ));
    assert!(parse(json!({"A": {"$update": {"B": "x".repeat(400 * 1024)}}})).is_err());
}

#[test]
fn each_content_has_its_own_hash() {
    let payload = |attributes: Value| parse(attributes).unwrap().payload().as_str().to_owned();
    let contents = [
        json!({"A": {"$update": {"B": 1}}}),
        json!({"A": {"B": 1}}),
        json!({"A": {"$update": {"B": 2}}}),
        json!({"A": {"$update": {"B": null}}}),
        json!({"A": {"$update": {"B": {"$update": {"C": 1}}}}}),
        json!({"A": {"$update": {"B": {"$update": {"C": 1}}, "D": 1}}}),
        json!({"A": {"$update": {"B": {"$update": {"C": 1, "D": 1}}}}}),
        json!({"A": {"$update": {"B": 1}}, "C": 1}),
        json!({"A": {"$update": {"B": 1, "C": 1}}}),
    ];
    let hashes: std::collections::BTreeSet<_> = contents.iter().cloned().map(payload).collect();
    assert_eq!(hashes.len(), contents.len());
    assert_eq!(
        payload(json!({"A": {"$update": {"B": 1}}})),
        payload(json!({"A": {"$update": {"B": 1.0}}}))
    );
}

#[test]
fn a_missing_map_is_named_by_its_path() {
    const MISSING: &str = r#"
        {"A": {"$update": {"X": 1}}}                                        -> none
        {"A": {"$update": {"B": {"$update": {"X": 1}}}}}                    -> none
        {"X": {"C": 1}, "Y": null}                                          -> none
        {"S": {"$update": {"X": 1}}}                                        -> S
        {"A": {"$update": {"L": {"$update": {"X": 1}}}}}                    -> A.L
        {"A": {"$update": {"B": {"$update": {"C": {"$update": {"X": 1}}}}}}} -> A.B.C
        {"X": {"$update": {"X": 1}}}                                        -> X
    "#;
    let stored = item(json!({"A": {"M": {"B": {"M": {}}, "L": {"L": []}}}, "S": {"S": "x"}}));
    for (attributes, expected) in cases(MISSING) {
        let missing = missing_map(&changes(attributes.clone()), Some(&stored));
        assert_eq!(missing.as_deref().unwrap_or("none"), expected, "{attributes}");
    }
    let missing = missing_map(&changes(json!({"A": {"$update": {"X": 1}}})), None);
    assert_eq!(missing.as_deref(), Some("A"));
}

/// Plain JSON with few names, so that paths often meet.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![(0..3u8).prop_map(|number| json!(number)), Just(json!("x"))];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop::collection::btree_map("[a-c.]", inner, 0..4).prop_map(|members| json!(members))
    })
}

/// Changes of the attributes `a` to `c`, at any depth.
fn any_changes() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![any_json(), Just(Value::Null)];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop::collection::btree_map("[a-c.]", inner, 1..4).prop_map(|members| json!({"$update": members}))
    })
}

/// The model: changes plain JSON members in place. Returns `false` if a map is missing.
fn change(value: Option<&mut Value>, update: &Value) -> bool {
    let (Some(Value::Object(map)), Some(members)) = (value, update.as_object()) else {
        return false;
    };
    members.iter().all(|(name, member)| match member {
        Value::Null => {
            map.shift_remove(name);
            true
        }
        Value::Object(inner) if inner.len() == 1 && inner.contains_key(UPDATE) => {
            change(map.get_mut(name), &inner[UPDATE])
        }
        value => {
            map.insert(name.clone(), value.clone());
            true
        }
    })
}

proptest! {
    /// The result equals that of the model, and the map is missing for both or for none.
    #[test]
    fn the_result_is_that_of_the_model(
        stored in prop::collection::btree_map("[a-c.]", any_json(), 0..4),
        update in prop::collection::btree_map("[a-c.]", any_changes(), 1..4),
    ) {
        let mut model = json!(stored);
        let applied = change(Some(&mut model), &json!(update));
        let convert = |value| shared::domain::attributes::from_json(value);
        let AttributeValue::M(map) = convert(json!(stored)).unwrap() else { unreachable!() };
        let changes: BTreeMap<_, _> =
            update.into_iter().map(|(name, value)| (name, from_json(value, &convert).unwrap())).collect();
        let missing = missing_map(&changes, Some(&Item::from(map.clone())));
        prop_assert_eq!(missing.is_none(), applied, "{:?}", missing);
        if applied {
            let mut result = AttributeValue::M(map);
            apply(&mut result, &changes);
            prop_assert_eq!(result, convert(model).unwrap());
        }
    }
}
