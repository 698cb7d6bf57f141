use super::*;

fn keys() -> Vec<KeyAttribute> {
    let key = |name: &str, kind| KeyAttribute {
        name: name.to_owned(),
        kind,
    };
    vec![key("pk", KeyType::S), key("no", KeyType::N)]
}

fn parsed(filter: &Value) -> Result<Value, InvalidFilter> {
    let pattern = pattern(filter, &keys())?;
    Ok(serde_json::from_str(&pattern).unwrap())
}

/// Returns the pattern for rules of the new image, or of the old one.
fn of_images(keys: &Value, rules: &Value) -> Value {
    let images = ["NewImage", "OldImage"].map(|image| {
        let mut change = keys.clone();
        change[image] = rules.clone();
        change
    });
    json!({"dynamodb": {"$or": images}})
}

#[test]
fn rules_of_attributes_become_a_pattern_of_the_mapping() {
    let pattern = json!({"dynamodb": {"NewImage": {"a": {"S": ["x"]}}}, "eventName": [{"anything-but": "REMOVE"}]});
    for (filter, expected) in [
        (
            json!({"pk": [{"prefix": "ORDER#"}]}),
            json!({"dynamodb": {"Keys": {"pk": {"S": [{"prefix": "ORDER#"}]}}}}),
        ),
        (
            json!({"no": [7.0, "1e2"]}),
            json!({"dynamodb": {"Keys": {"no": {"N": ["7", "100"]}}}}),
        ),
        (
            json!({"pk": ["a"], "status": ["open", {"suffix": "ed"}], "paid": [true], "qty": [1.50]}),
            of_images(
                &json!({"Keys": {"pk": {"S": ["a"]}}}),
                &json!({"status": {"S": ["open", {"suffix": "ed"}]}, "paid": {"BOOL": [true]}, "qty": {"N": ["1.5"]}}),
            ),
        ),
        (
            json!({"status": [{"anything-but": ["x", "y"]}, {"equals-ignore-case": "z"}]}),
            of_images(
                &json!({}),
                &json!({"status": {"S": [{"anything-but": ["x", "y"]}, {"equals-ignore-case": "z"}]}}),
            ),
        ),
        (
            json!({"qty": [{"anything-but": 5.0}]}),
            of_images(&json!({}), &json!({"qty": {"N": [{"anything-but": "5"}]}})),
        ),
        (
            json!({"pk": {"prefix": "O"}, "no": 7}),
            json!({"dynamodb": {"Keys": {"pk": {"S": [{"prefix": "O"}]}, "no": {"N": ["7"]}}}}),
        ),
        (pattern.clone(), pattern.clone()),
        (
            json!({"userIdentity": {"type": ["Service"]}}),
            json!({"userIdentity": {"type": ["Service"]}}),
        ),
        (json!(pattern.to_string()), pattern.clone()),
        (
            json!(r#"{"pk": ["a"]}"#),
            json!({"dynamodb": {"Keys": {"pk": {"S": ["a"]}}}}),
        ),
        (
            json!([{"pk": ["a"]}, {"eventName": ["REMOVE"]}]),
            json!({"$or": [{"dynamodb": {"Keys": {"pk": {"S": ["a"]}}}}, {"eventName": ["REMOVE"]}]}),
        ),
        (
            json!([{"pk": ["a"]}, {"pk": ["b"]}]),
            json!({"dynamodb": {"$or": [{"Keys": {"pk": {"S": ["a"]}}}, {"Keys": {"pk": {"S": ["b"]}}}]}}),
        ),
    ] {
        assert_eq!(parsed(&filter).unwrap(), expected, "{filter}");
    }
}

#[test]
fn invalid_filters_are_rejected() {
    let rules = |name: &str| InvalidFilter::Rules(name.to_owned());
    let member = |name: &str| InvalidPattern::Member(name.to_owned()).into();
    for (filter, expected) in [
        (json!(7), InvalidFilter::NotAnObject),
        (json!({}), InvalidFilter::NotAnObject),
        (json!([]), InvalidFilter::NotAnObject),
        (json!([["a"]]), InvalidFilter::NotAnObject),
        (json!("{"), InvalidFilter::NotJson),
        (json!({"pk": []}), rules("pk")),
        (json!({"a": [null]}), rules("a")),
        (json!({"a": [{"exists": true}]}), rules("a")),
        (json!({"a": [{"numeric": [">", 1]}]}), rules("a")),
        (json!({"a": [{"prefix": 1}]}), rules("a")),
        (json!({"a": [{"prefix": "x", "suffix": "y"}]}), rules("a")),
        (json!({"a": [{"anything-but": ["x", 1]}]}), rules("a")),
        (json!({"no": ["x"]}), rules("no")),
        (json!({"a": ["x", 1]}), InvalidFilter::Types("a".to_owned())),
        (json!({"pk": [1]}), InvalidFilter::Types("pk".to_owned())),
        (json!({"no": [{"prefix": "1"}]}), InvalidFilter::Types("no".to_owned())),
        (json!({"eventName": []}), member("eventName")),
        (json!({"eventName": "REMOVE"}), member("eventName")),
        (json!({"dynamodb": {}}), InvalidPattern::NotAnObject.into()),
        (
            json!({"dynamodb": {"Keys": {"pk": {"S": [{"like": "x"}]}}}}),
            InvalidPattern::Rule.into(),
        ),
    ] {
        assert_eq!(parsed(&filter).unwrap_err(), expected, "{filter}");
    }
}

#[test]
fn the_limit_of_a_mapping_is_checked() {
    // The pattern around the text has 44 characters, which need not be bytes.
    let around = parsed(&json!({"pk": [""]})).unwrap().to_string().len();
    assert!(parsed(&json!({"pk": ["é".repeat(4096 - around)]})).is_ok());
    assert_eq!(
        parsed(&json!({"pk": ["é".repeat(4097 - around)]})).unwrap_err(),
        InvalidFilter::TooLong(4097)
    );
}
