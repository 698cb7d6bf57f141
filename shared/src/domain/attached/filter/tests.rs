use super::*;

fn keys() -> Vec<KeyAttribute> {
    let key = |name: &str, kind| KeyAttribute {
        name: name.to_owned(),
        kind,
    };
    vec![key("pk", KeyType::S), key("no", KeyType::N)]
}

fn parsed(filter: &Value) -> Result<Vec<Value>, InvalidFilter> {
    let filter = Filter::parse(filter, &keys())?;
    Ok(filter
        .patterns()
        .iter()
        .map(|pattern| serde_json::from_str(pattern).unwrap())
        .collect())
}

#[test]
fn rules_of_attributes_become_patterns_of_the_mapping() {
    let pattern = json!({"dynamodb": {"NewImage": {"a": {"S": ["x"]}}}, "eventName": [{"anything-but": "REMOVE"}]});
    for (filter, expected) in [
        (
            json!({"pk": [{"prefix": "ORDER#"}]}),
            vec![json!({"dynamodb": {"Keys": {"pk": {"S": [{"prefix": "ORDER#"}]}}}})],
        ),
        (json!({"no": [7.0, "1e2"]}), vec![json!({"dynamodb": {"Keys": {"no": {"N": ["7", "100"]}}}})]),
        (
            json!({"pk": ["a"], "status": ["open", {"suffix": "ed"}], "paid": [true], "qty": [1.50]}),
            ["NewImage", "OldImage"]
                .map(|image| {
                    json!({"dynamodb": {
                        "Keys": {"pk": {"S": ["a"]}},
                        image: {"status": {"S": ["open", {"suffix": "ed"}]}, "paid": {"BOOL": [true]}, "qty": {"N": ["1.5"]}},
                    }})
                })
                .to_vec(),
        ),
        (
            json!({"status": [{"anything-but": ["x", "y"]}, {"equals-ignore-case": "z"}]}),
            ["NewImage", "OldImage"]
                .map(|image| {
                    let rules = json!([{"anything-but": ["x", "y"]}, {"equals-ignore-case": "z"}]);
                    json!({"dynamodb": {image: {"status": {"S": rules}}}})
                })
                .to_vec(),
        ),
        (
            json!({"qty": [{"anything-but": 5.0}]}),
            ["NewImage", "OldImage"]
                .map(|image| json!({"dynamodb": {image: {"qty": {"N": [{"anything-but": "5"}]}}}}))
                .to_vec(),
        ),
        (
            json!({"pk": {"prefix": "O"}, "no": 7}),
            vec![json!({"dynamodb": {"Keys": {"pk": {"S": [{"prefix": "O"}]}, "no": {"N": ["7"]}}}})],
        ),
        (pattern.clone(), vec![pattern.clone()]),
        (json!({"userIdentity": {"type": ["Service"]}}), vec![json!({"userIdentity": {"type": ["Service"]}})]),
        (json!(pattern.to_string()), vec![pattern.clone()]),
        (json!(r#"{"pk": ["a"]}"#), vec![json!({"dynamodb": {"Keys": {"pk": {"S": ["a"]}}}})]),
        (
            json!([{"pk": ["a"]}, {"eventName": ["REMOVE"]}]),
            vec![json!({"dynamodb": {"Keys": {"pk": {"S": ["a"]}}}}), json!({"eventName": ["REMOVE"]})],
        ),
    ] {
        assert_eq!(parsed(&filter).unwrap(), expected, "{filter}");
    }
}

#[test]
fn invalid_filters_are_rejected() {
    let rules = |name: &str| InvalidFilter::Rules(name.to_owned());
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
        (json!({"eventName": []}), rules("eventName")),
        (json!({"eventName": "REMOVE"}), rules("eventName")),
        (json!({"dynamodb": {}}), InvalidFilter::NotAnObject),
        (
            json!({"dynamodb": {"Keys": {"pk": {"S": [{"like": "x"}]}}}}),
            rules("S"),
        ),
    ] {
        assert_eq!(parsed(&filter).unwrap_err(), expected, "{filter}");
    }
}

#[test]
fn the_limits_of_a_mapping_are_checked() {
    let many = |count: usize| json!(vec![json!({"eventName": ["INSERT"]}); count]);
    assert_eq!(parsed(&many(5)).unwrap().len(), 5);
    assert_eq!(parsed(&many(6)).unwrap_err(), InvalidFilter::TooMany(6));
    // Attributes outside of the key need two patterns.
    assert_eq!(
        parsed(&json!(vec![json!({"a": ["x"]}); 3])).unwrap_err(),
        InvalidFilter::TooMany(6)
    );
    // The pattern around the text has 44 characters, which need not be bytes.
    let around = parsed(&json!({"pk": [""]})).unwrap()[0].to_string().len();
    assert!(parsed(&json!({"pk": ["é".repeat(4096 - around)]})).is_ok());
    assert_eq!(
        parsed(&json!({"pk": ["é".repeat(4097 - around)]})).unwrap_err(),
        InvalidFilter::TooLong(4097)
    );
}
