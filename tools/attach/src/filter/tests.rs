use super::*;

fn keys() -> Vec<KeyAttribute> {
    let key = |name: &str, kind| KeyAttribute {
        name: name.to_owned(),
        kind,
    };
    vec![key("pk", KeyType::S), key("no", KeyType::N)]
}

fn parsed(filter: &Value) -> Result<Value, Invalid> {
    let pattern = pattern(filter, &keys())?;
    Ok(serde_json::from_str(&pattern).unwrap())
}

#[test]
fn rules_of_attributes_become_a_pattern_of_the_mapping() {
    // `IMAGE` stands for the new image or the old one: the pattern has both, with `$or`.
    for case in r#"
        {"pk": [{"prefix": "ORDER#"}]} => {"dynamodb": {"Keys": {"pk": {"S": [{"prefix": "ORDER#"}]}}}}
        {"no": [7.0, "1e2"]} => {"dynamodb": {"Keys": {"no": {"N": ["7", "100"]}}}}
        {"pk": ["a"], "status": ["open", {"suffix": "ed"}], "paid": [true], "qty": [1.50]} => {"Keys": {"pk": {"S": ["a"]}}, "IMAGE": {"status": {"S": ["open", {"suffix": "ed"}]}, "paid": {"BOOL": [true]}, "qty": {"N": ["1.5"]}}}
        {"status": [{"anything-but": ["x", "y"]}, {"equals-ignore-case": "z"}]} => {"IMAGE": {"status": {"S": [{"anything-but": ["x", "y"]}, {"equals-ignore-case": "z"}]}}}
        {"qty": [{"anything-but": 5.0}]} => {"IMAGE": {"qty": {"N": [{"anything-but": "5"}]}}}
        {"pk": {"prefix": "O"}, "no": 7} => {"dynamodb": {"Keys": {"pk": {"S": [{"prefix": "O"}]}, "no": {"N": ["7"]}}}}
        {"userIdentity": {"type": ["Service"]}} => {"userIdentity": {"type": ["Service"]}}
        "{\"pk\": [\"a\"]}" => {"dynamodb": {"Keys": {"pk": {"S": ["a"]}}}}
        "{\"eventName\": [{\"anything-but\": \"REMOVE\"}]}" => {"eventName": [{"anything-but": "REMOVE"}]}
        {"dynamodb": {"NewImage": {"a": {"S": ["x"]}}}, "eventName": ["MODIFY"]} => {"dynamodb": {"NewImage": {"a": {"S": ["x"]}}}, "eventName": ["MODIFY"]}
        [{"pk": ["a"]}, {"eventName": ["REMOVE"]}] => {"$or": [{"dynamodb": {"Keys": {"pk": {"S": ["a"]}}}}, {"eventName": ["REMOVE"]}]}
        [{"pk": ["a"]}, {"pk": ["b"]}] => {"dynamodb": {"$or": [{"Keys": {"pk": {"S": ["a"]}}}, {"Keys": {"pk": {"S": ["b"]}}}]}}
    "#
    .trim()
    .lines()
    {
        let (filter, expected) = case.split_once(" => ").unwrap();
        let images = ["NewImage", "OldImage"].map(|image| expected.replace("IMAGE", image));
        let expected = match expected.contains("IMAGE") {
            true => format!(r#"{{"dynamodb": {{"$or": [{}]}}}}"#, images.join(", ")),
            false => expected.to_owned(),
        };
        let [filter, expected] = [filter, &expected].map(|text| serde_json::from_str::<Value>(text).unwrap());
        assert_eq!(parsed(&filter).unwrap(), expected, "{filter}");
    }
}

#[test]
fn invalid_filters_are_rejected() {
    for case in r#"
        7; {}; []; [["a"]]; {"dynamodb": {}} => a pattern is an object that is not empty
        "{" => the string is not JSON
        {"pk": []} => the rules of pk are not a list of values
        {"a": [null]}; {"a": [{"exists": true}]}; {"a": [{"numeric": [">", 1]}]} => the rules of a are not a list of values
        {"a": [{"prefix": 1}]}; {"a": [{"prefix": "x", "suffix": "y"}]} => the rules of a are not a list of values
        {"a": [{"anything-but": ["x", 1]}]} => the rules of a are not a list of values
        {"no": ["x"]} => the rules of no are not a list of values
        {"a": ["x", 1]} => the rules of a are of different types
        {"pk": [1]} => the rules of pk are of different types
        {"no": [{"prefix": "1"}]} => the rules of no are of different types
        {"eventName": []}; {"eventName": "REMOVE"} => eventName is neither an object nor a list that is not empty
        {"dynamodb": {"Keys": {"pk": {"S": [{"like": "x"}]}}}} => a rule is unknown
    "#
    .trim()
    .lines()
    {
        let (filters, expected) = case.split_once(" => ").unwrap();
        for filter in filters.split(';') {
            let error = parsed(&serde_json::from_str(filter).unwrap()).unwrap_err();
            assert!(error.to_string().starts_with(expected), "{filter}: {error}");
        }
    }
}

#[test]
fn the_limit_of_the_parameter_is_checked() {
    // The pattern around the text has 44 characters, which need not be bytes.
    let around = parsed(&json!({"pk": [""]})).unwrap().to_string().len();
    assert!(parsed(&json!({"pk": ["é".repeat(2048 - around)]})).is_ok());
    assert_eq!(
        parsed(&json!({"pk": ["é".repeat(2049 - around)]})).unwrap_err(),
        Invalid("the pattern has 2049 characters, and 2048 are allowed".to_owned())
    );
}
