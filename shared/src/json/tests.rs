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
    for text in [
        lists(MAX_LEVELS + 1),
        objects(MAX_LEVELS + 1),
        lists(1_000_000),
        "[".repeat(1_000_000),
    ] {
        assert_eq!(parse(&text).unwrap_err().reason, Reason::Levels);
    }
    let deep = lists(1_000_000);
    assert_eq!(elements(&format!("[1, {deep}]")).unwrap(), ["1", &deep]);
    assert_eq!(members(&format!(r#"{{"a": {deep}}}"#)).unwrap().get("a"), Some(&*deep));
    // Siblings are no levels.
    let siblings = format!("[{}[]]", "[[]],".repeat(1000));
    assert!(parse(&siblings).is_ok());
}

#[test]
fn what_is_not_json_is_rejected() {
    for (text, reason, line, column) in [
        ("", Reason::End, 1, 1),
        (" \n", Reason::End, 2, 1),
        ("\u{feff}{}", Reason::Value, 1, 1),
        ("nul", Reason::Null, 1, 1),
        ("tru", Reason::Boolean, 1, 1),
        ("falsy", Reason::Boolean, 1, 1),
        ("{} {}", Reason::TrailingText, 1, 4),
        ("01", Reason::TrailingText, 1, 2),
        ("-", Reason::Number, 1, 2),
        ("+1", Reason::Value, 1, 1),
        (".5", Reason::Value, 1, 1),
        ("1.", Reason::Number, 1, 3),
        ("1e", Reason::Number, 1, 3),
        ("1e+", Reason::Number, 1, 4),
        ("NaN", Reason::Value, 1, 1),
        ("[1 2]", Reason::Comma, 1, 4),
        ("[1,]", Reason::Value, 1, 4),
        ("[,1]", Reason::Value, 1, 2),
        ("[1", Reason::End, 1, 3),
        ("[1}", Reason::Comma, 1, 3),
        ("{\"a\": 1,}", Reason::Name, 1, 9),
        ("{a: 1}", Reason::Name, 1, 2),
        ("{1: 1}", Reason::Name, 1, 2),
        ("{\"a\" 1}", Reason::Colon, 1, 6),
        ("{\"a\": 1", Reason::End, 1, 8),
        ("{\"a\"", Reason::End, 1, 5),
        ("{\n  \"a\": x\n}", Reason::Value, 2, 8),
        ("\"", Reason::End, 1, 2),
        ("\"\n\"", Reason::ControlCharacter, 1, 2),
        ("\"\\", Reason::End, 1, 3),
        ("\"\\x\"", Reason::Escape, 1, 3),
        ("\"\\u12é4\"", Reason::Escape, 1, 3),
        ("\"\\ud800\"", Reason::Escape, 1, 9),
        ("\"\\udc00\"", Reason::Escape, 1, 9),
        ("\"\\ud800\\u0041\"", Reason::Escape, 1, 15),
        ("'a'", Reason::Value, 1, 1),
    ] {
        let error = parse(text).unwrap_err();
        assert_eq!(error, InvalidJson { reason, line, column }, "{text}");
        assert!(serde_json::from_str::<Value>(text).is_err(), "{text}");
    }
    assert_eq!(
        parse_bytes(b"{\n\"a\xff\"").unwrap_err().to_string(),
        "the text is not UTF-8 at line 2 column 3"
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
