use proptest::prelude::*;
use serde_json::json;

use super::*;

const RAW_VALUE: &str = "$serde_json::private::RawValue";
const NUMBER: &str = "$serde_json::private::Number";

#[test]
fn reserved_names_are_data() {
    for text in [
        format!(r#"{{"{RAW_VALUE}":"{{\"x\": 1}}"}}"#),
        format!(r#"{{"{RAW_VALUE}":{{"S":"a"}}}}"#),
        format!(r#"[{{"{NUMBER}":"1"}},{{"{NUMBER}":"no number"}},{{"{NUMBER}":{{}}}}]"#),
        format!(r#"{{"a":{{"{RAW_VALUE}":"[","b":{{"{NUMBER}":1.50}}}}}}"#),
        format!(r#"{{"a":"{RAW_VALUE}"}}"#),
    ] {
        let value = parse(&text).unwrap();
        assert_eq!(value.to_string(), text, "{text}");
    }
    // The name can be written with escapes.
    let escaped = parse(r#"{"\u0024serde_json::private::RawValue": "[1"}"#).unwrap();
    assert_eq!(escaped, json!({RAW_VALUE: "[1"}));
}

#[test]
fn documents_in_strings_stay_strings() {
    // As `serde_json::Value`, it overflows the stack.
    let text = testkit::hostile::overflow(120, 100);
    let value = parse(&text).unwrap();
    assert_eq!(parse(&value.to_string()).unwrap(), value);
    let mut inner = &value;
    while let Value::Array(values) = inner {
        inner = &values[0];
    }
    assert!(inner[RAW_VALUE].as_str().unwrap().starts_with("[[["));
}

#[test]
fn nesting_has_a_limit_only_where_a_tree_grows() {
    let lists = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let objects = |levels: usize| format!("{}1{}", r#"{"a":"#.repeat(levels), "}".repeat(levels));
    for text in [lists(MAX_LEVELS), objects(MAX_LEVELS)] {
        assert_eq!(parse(&text).unwrap().to_string(), text);
    }
    for text in [lists(MAX_LEVELS + 1), objects(MAX_LEVELS + 1), lists(100_000)] {
        assert_eq!(parse(&text).unwrap_err().reason, Reason::Levels);
    }
    // The error of the parser, and not a stack overflow.
    assert!(parse(&"[".repeat(1_000_000)).is_err());
    let deep = lists(1_000_000);
    assert_eq!(elements(&format!("[1, {deep}]")).unwrap(), ["1", &deep]);
    assert_eq!(members(&format!(r#"{{"a": {deep}}}"#)).unwrap().get("a"), Some(&*deep));
    // Siblings are no levels.
    let siblings = format!("[{}[]]", "[[]],".repeat(1000));
    assert!(parse(&siblings).is_ok());
}

#[test]
fn an_error_names_its_place_and_no_part_of_the_document() {
    for (text, expected) in [
        ("", "EOF while parsing a value at line 1 column 0"),
        ("oops", "expected value at line 1 column 1"),
        ("{\n  \"a\": x\n}", "expected value at line 2 column 8"),
        ("{\"a\": 1,}", "key must be a string at line 1 column 9"),
        ("{} {}", "trailing characters at line 1 column 4"),
        ("{\"a\": [\n1, \"\\ud800\"]}", "invalid escape at line 2 column 4"),
        (
            "{\n\"\\udc00\": 1}",
            "lone leading surrogate in hex escape at line 1 column 1",
        ),
    ] {
        assert_eq!(parse(text).unwrap_err().to_string(), expected, "{text}");
    }
    for (error, expected) in [
        (
            members(r#""secret""#).unwrap_err(),
            "expected an object at line 1 column 8",
        ),
        (
            elements(r#"{"secret": 1}"#).unwrap_err(),
            "expected a list at line 1 column 0",
        ),
        (
            parse_bytes(b"{\n\"a\xff\"").unwrap_err(),
            "the text is not UTF-8 at line 2 column 3",
        ),
    ] {
        assert_eq!(error.to_string(), expected);
    }
    let (found, error) = documents("{\"a\": 1}\n2 [");
    assert_eq!(found, ["{\"a\": 1}", "2"]);
    assert_eq!((error.unwrap().line, documents(" ")), (2, (vec![], None)));
    assert_eq!(
        (number(" -1.50"), number("\"1\""), number("1 2")),
        (Some("-1.50"), None, None)
    );
}

#[test]
fn the_last_member_of_a_name_counts() {
    let text = r#"{"a": 1, "b": 2, "\u0061": 3}"#;
    assert_eq!(parse(text).unwrap().to_string(), r#"{"a":3,"b":2}"#);
    assert_eq!(members(text).unwrap().get("a"), Some("3"));
}

#[test]
fn half_a_surrogate_pair_harms_only_its_own_part() {
    let parts = elements(r#"["\ud800", "ok"]"#).unwrap();
    assert_eq!(string(parts[0]), None);
    assert_eq!(string(parts[1]).as_deref(), Some("ok"));
}

fn any_document() -> impl Strategy<Value = Value> {
    let name = prop_oneof![
        Just(RAW_VALUE.to_owned()),
        Just(NUMBER.to_owned()),
        "\\PC{0,5}",
        "[\\x00-\\x7f]{0,3}"
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        "-?(0|[1-9][0-9]{0,40})(\\.[0-9]{1,40})?([eE][+-]?[0-9]{1,3})?"
            .prop_map(|number| Value::Number(number.parse().unwrap())),
        name.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((name.clone(), inner), 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn every_document_is_read_as_it_was_written(value in any_document()) {
        for text in [value.to_string(), format!(" {value:#}\n")] {
            prop_assert_eq!(&parse(&text).unwrap(), &value);
            prop_assert_eq!(check(&text).unwrap(), text.trim());
        }
    }

    #[test]
    fn it_accepts_what_serde_json_accepts(text in "[\\[\\]{}\",:\\\\u0-9dDaebtrfnulls.+ -]{0,30}") {
        let other = serde_json::from_str::<Value>(&text);
        let own = parse(&text);
        prop_assert_eq!(own.is_ok(), other.is_ok());
        prop_assert_eq!(own.ok(), other.ok());
        // Only what is in a string differs.
        prop_assert!(check(&text).is_ok() || parse(&text).is_err());
    }
}

#[test]
fn objects_are_read_in_the_pass_of_their_object() {
    const SHAPE: Shape = Shape(&[("a", Shape(&[("b", Shape(&[]))]))]);
    let text = r#"{"x": [1], "a": {"b": {"c": 1}, "d": {"e": 2}}, "y": {"b": 3}}"#;
    let mut outer = nested(text, SHAPE).unwrap();
    let mut a = outer.take("a").unwrap();
    let b = a.take("b").unwrap();
    assert_eq!(b.members.get("c"), Some("1"));
    assert_eq!(a.members.get("d"), Some(r#"{"e": 2}"#));
    assert_eq!(
        (outer.members.get("x"), outer.members.get("y")),
        (Some("[1]"), Some(r#"{"b": 3}"#))
    );
    // The last member counts.
    for (text, is_there) in [
        ("{}", false),
        (r#"{"a": null}"#, false),
        (r#"{"a": {}, "a": null}"#, false),
        (r#"{"a": null, "a": {}}"#, true),
    ] {
        assert_eq!(nested(text, SHAPE).unwrap().take("a").is_some(), is_there, "{text}");
    }
    for text in [
        "",
        "7",
        "[]",
        r#"{"a": 7}"#,
        r#"{"a": {"b": []}}"#,
        "{} {}",
        r#"{"a": {}"#,
    ] {
        assert!(nested(text, SHAPE).is_err(), "{text}");
    }
    for text in [
        format!(r#"{{"a": {{"{RAW_VALUE}": "[1]"}}}}"#),
        format!(r#"{{"a": {{"{NUMBER}": "1"}}}}"#),
    ] {
        assert_eq!(
            nested(&text, SHAPE).unwrap().take("a").unwrap().members.iter().count(),
            1
        );
    }
}

#[test]
fn a_list_is_read_in_the_pass_of_its_object() {
    for (text, expected) in [
        (
            r#"{"x": 1, "l": [1, {"a": 2}], "y": []}"#,
            Some(&["1", r#"{"a": 2}"#][..]),
        ),
        (r#"{"l": [1], "l": []}"#, Some(&[])),
        // The last member counts, also if an earlier one is no list.
        (r#"{"l": 7, "l": [2]}"#, Some(&["2"])),
        (r#"{"x": []}"#, None),
    ] {
        assert_eq!(elements_of(text, "l").unwrap().as_deref(), expected, "{text}");
    }
    for text in ["", "7", "[]", r#"{"l": 7}"#, r#"{"l": [2], "l": 7}"#, r#"{"l": []} 1"#] {
        assert!(elements_of(text, "l").is_err(), "{text}");
    }
}
