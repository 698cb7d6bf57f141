use proptest::prelude::*;
use serde_json::json;
use shared::domain::{attributes::same_value, entity::EntityId, version::Version, view::VersionView};

use super::*;
use crate::versions::with_tombstone;

fn item(item: Value) -> Item {
    serde_json::from_value(item).unwrap()
}

fn line(old: Value, new: Value) -> String {
    summary(Some(&item(old)), &item(new), 10)
}

#[test]
fn each_kind_of_change() {
    for (old, new, expected) in [
        (json!({"S": "placed"}), json!({"S": "paid"}), "A: placed → paid"),
        (json!({"N": "120"}), json!({"N": "90"}), "A: 120 → 90"),
        (json!({"N": "1"}), json!({"N": "1.0"}), ""),
        (json!({"N": "5"}), json!({"S": "5"}), "A: 5 → \"5\""),
        (json!({"BOOL": true}), json!({"NULL": true}), "A: true → null"),
        (json!({"S": "1.50"}), json!({"S": "007"}), r#"A: "1.50" → "007""#),
        (json!({"S": "true"}), json!({"S": "null"}), r#"A: "true" → "null""#),
        (json!({"S": "[1]"}), json!({"S": "{x}"}), r#"A: "[1]" → {x}"#),
        (json!({"S": ""}), json!({"S": " x"}), "A: \"\" → \" x\""),
        (json!({"S": "a, b"}), json!({"S": "a → b"}), "A: \"a, b\" → \"a → b\""),
        (json!({"SS": ["b", "a"]}), json!({"SS": ["a", "b"]}), ""),
        (json!({"SS": ["a", "b"]}), json!({"SS": ["c", "a"]}), "A: +c -b"),
        (json!({"NS": ["1", "2"]}), json!({"NS": ["1.0", "3"]}), "A: +3 -2"),
        (
            json!({"BS": ["YQ=="]}),
            json!({"BS": ["Yg=="]}),
            "A: +\"Yg==\" -\"YQ==\"",
        ),
        (
            json!({"S": "x\u{1b}"}),
            json!({"S": "x\\u{1b}"}),
            r#"A: "x\u001b" → "x\\u{1b}""#,
        ),
        (
            json!({"S": "YQ=="}),
            json!({"B": "YQ=="}),
            r#"A: "YQ==" → {"$binary":"YQ=="}"#,
        ),
        (
            json!({"L": [{"N": "1"}, {"N": "2"}, {"N": "3"}]}),
            json!({"L": [{"N": "3"}, {"N": "1"}, {"N": "2"}]}),
            "A[0] moved from [2]",
        ),
        (
            json!({"SS": ["1"]}),
            json!({"NS": ["1"]}),
            "A: {\"$strings\":[\"1\"]} → {\"$numbers\":[1]}",
        ),
        (json!({"L": [{"N": "1"}]}), json!({"L": []}), "-A[0]"),
        (json!({"M": {}}), json!({"M": {"B": {"N": "1"}}}), "+A.B: 1"),
        (
            json!({"M": {"City": {"S": "Bonn"}, "Old": {"N": "1"}, "Same": {"N": "1"}}}),
            json!({"M": {"City": {"S": "Berlin"}, "New": {"SS": ["x"]}, "Same": {"N": "1"}}}),
            "A.City: Bonn → Berlin, +A.New: {\"$strings\":[\"x\"]}, -A.Old",
        ),
    ] {
        assert_eq!(line(json!({"A": old}), json!({"A": new})), expected, "{expected}");
    }
    let (old, new) = (
        json!({"Note": {"S": "x"}, "Same": {"N": "1"}}),
        json!({"Same": {"N": "1"}, "Qty": {"N": "5"}}),
    );
    assert_eq!(line(old, new.clone()), "-Note, +Qty: 5");
    assert_eq!(summary(None, &item(new.clone()), 10), "+Qty: 5, +Same: 1");
    assert_eq!(summary(None, &item(new), 1), "+Qty: 5, +1 more");
    assert_eq!(summary(None, &item(json!({})), 1), "");
}

#[test]
fn long_and_hidden_text() {
    let text = |text: &str| item(json!({"A\u{1b}": {"S": text}}));
    let fits = "é".repeat(MAX_VALUE_CHARS);
    let named = r#"+"A\u001b": "#;
    assert_eq!(summary(None, &text(&fits), 1), format!("{named}{fits}"));
    let long = format!("{fits}é");
    let shortened = format!("{named}{}…", "é".repeat(MAX_VALUE_CHARS - 1));
    assert_eq!(summary(None, &text(&long), 1), shortened);
    assert_eq!(
        summary(None, &text("a\n\u{202e}b"), 1),
        format!(r"{named}a\n\u{{202e}}b")
    );
    // Long texts are shown where they differ.
    for (old, new, expected) in [
        (
            "the red door",
            "the blue door",
            "…sssssss the [-red-]{+blue+} door ssssss…",
        ),
        (
            "(amount: 12)",
            "(amount: 120)",
            "…ss (amount: [-12-]{+120+}) ssssssssss…",
        ),
        ("", "new", "…sssssssssss {+new+} sssssssssss…"),
        (
            &"a".repeat(40),
            &"b".repeat(40),
            "…sssssssssss [-aaaaaaaaaaaaaaaaaaa…-]{+bbbbbbbbbbbbbbbbbbb…+} sssssssssss…",
        ),
    ] {
        let long = |text: &str| item(json!({"A": {"S": format!("{0} {text} {0}", "s".repeat(60))}}));
        assert_eq!(summary(Some(&long(old)), &long(new), 1), format!("A: {expected}"));
    }
}

#[test]
fn a_text_cannot_look_like_another_part_of_the_line() {
    let named = |name: &str| item(json!({name: {"N": "1"}}));
    for (name, shown) in [
        ("Address.City", r#"+"Address.City": 1"#),
        ("z, Total: 120 → 90", r#"+"z, Total: 120 → 90": 1"#),
        ("-Note", r#"+"-Note": 1"#),
        ("Straße 1", "+Straße 1: 1"),
    ] {
        assert_eq!(summary(None, &named(name), 5), shown);
    }
    assert_eq!(word("alice"), "alice");
    assert_eq!(
        word("amy  Status: paid → refunded"),
        r#""amy  Status: paid → refunded""#
    );
}

#[test]
fn a_tombstone_is_a_change() {
    let view = |item: Value| {
        let item = serde_json::from_value(item).unwrap();
        with_tombstone(&VersionView::new(EntityId::new("E").unwrap(), Version::FIRST, item))
    };
    let (live, deleted) = (view(json!({})), view(json!({"Deleted": {"BOOL": true}})));
    assert_eq!(summary(Some(&live), &deleted, 5), "+Deleted: true");
    assert_eq!(summary(Some(&deleted), &live, 5), "-Deleted");
}

fn any_item() -> impl Strategy<Value = Item> {
    let leaf = prop_oneof![
        "[ab→, \"\u{1b}]{0,3}".prop_map(AttributeValue::S),
        (0..3u8).prop_map(|number| AttributeValue::N(number.to_string())),
        prop::collection::btree_set("[a-c]", 1..3).prop_map(|set| AttributeValue::Ss(set.into_iter().collect())),
    ];
    let value = leaf.prop_recursive(3, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(AttributeValue::L),
            prop::collection::hash_map("[a-b]", inner, 0..3).prop_map(AttributeValue::M),
        ]
    });
    prop::collection::hash_map("[A-C]", value, 0..4).prop_map(Item::from)
}

proptest! {
    /// Without a change, the line is empty; with one, it never is, and the limit only shortens it.
    #[test]
    fn a_line_tells_if_versions_differ(old in any_item(), new in any_item(), limit in 0usize..4) {
        let all = summary(Some(&old), &new, usize::MAX);
        let same = same_value(&AttributeValue::M(old.clone().into()), &AttributeValue::M(new.clone().into()));
        prop_assert_eq!(all.is_empty(), same, "{}", all);
        let short = summary(Some(&old), &new, limit);
        prop_assert_eq!(short.is_empty(), same);
        prop_assert!(!short.contains(printable::is_hidden));
        prop_assert_eq!(summary(Some(&new), &new, limit), "");
    }
}
