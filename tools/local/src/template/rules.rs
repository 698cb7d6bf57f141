//! Evaluates the section `Rules`: CloudFormation validates the parameters with it before it creates a stack.
//! See <https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/rules-section-structure.html>.
//!
//! An assertion is a function of parameters and literals: `Fn::And`, `Fn::Contains`, `Fn::Equals`, `Fn::Not`, `Fn::Or`. Other
//! functions, resources and conditions are rejected.

use serde_json::Value;

use super::{
    error::{TemplateError, object},
    resolve::{Resolver, Scope, text},
};

/// Checks all rules of a template.
///
/// # Errors
///
/// Returns [`TemplateError::Rule`] for the first assertion that fails, other errors for an invalid rule.
pub(super) fn check(document: &Value, resolver: &Resolver) -> Result<(), TemplateError> {
    let Some(rules) = document.get("Rules") else {
        return Ok(());
    };
    for (name, rule) in object(Some(rules), "Rules")? {
        let applies = match rule.get("RuleCondition") {
            Some(condition) => resolver.holds(condition, Scope::Rule)?,
            None => true,
        };
        let assertions = rule.get("Assertions").and_then(Value::as_array);
        for assertion in assertions.ok_or_else(|| TemplateError::missing(name, "Assertions"))? {
            let assert = assertion.get("Assert");
            let assert = assert.ok_or_else(|| TemplateError::missing(name, "Assert"))?;
            if applies && !resolver.holds(assert, Scope::Rule)? {
                let description = assertion.get("AssertDescription").map(text).unwrap_or_default();
                return Err(TemplateError::Rule(name.clone(), description));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use shared::logging::chain;

    use super::*;

    fn checked(rules: &Value, parameter: &str) -> Result<(), String> {
        let document = json!({
            "Parameters": {"P": {"Type": "String", "Default": "p"}, "N": {"Type": "Number", "Default": 3}},
            "Resources": {"R": {}},
            "Rules": rules,
        });
        let resolver = Resolver::new(&document, &[("P".to_owned(), parameter.to_owned())]).unwrap();
        check(&document, &resolver).map_err(|error| chain(&error))
    }

    fn rule(assertion: &Value) -> Value {
        json!({"Rule": {"Assertions": [{"Assert": assertion, "AssertDescription": "why"}]}})
    }

    #[test]
    fn every_function() {
        let equals = |text: &str| json!({"Fn::Equals": [{"Ref": "P"}, text]});
        for (assertion, holds) in [
            (equals("p"), true),
            (equals("q"), false),
            (json!({"Fn::Equals": [3, {"Ref": "N"}]}), true),
            (json!({"Fn::Contains": [["o", "p"], {"Ref": "P"}]}), true),
            (json!({"Fn::Contains": [["o", "pp"], {"Ref": "P"}]}), false),
            (json!({"Fn::Contains": [["1", "3"], {"Ref": "N"}]}), true),
            (json!({"Fn::Contains": [[{"Ref": "P"}], "p"]}), true),
            (json!({"Fn::Contains": [[], "p"]}), false),
            (json!({"Fn::Not": [equals("p")]}), false),
            (json!({"Fn::Not": [equals("q")]}), true),
            (json!({"Fn::And": [equals("p"), equals("p")]}), true),
            (json!({"Fn::And": [equals("p"), equals("q")]}), false),
            (json!({"Fn::Or": [equals("q"), equals("p")]}), true),
            (json!({"Fn::Or": [equals("q"), equals("q")]}), false),
        ] {
            let violated = || "the parameters violate the rule Rule: why".to_owned();
            let expected = holds.then_some(()).ok_or_else(violated);
            assert_eq!(checked(&rule(&assertion), "p"), expected, "{assertion}");
        }
        for bad in [
            json!({"Fn::Equals": ["p"]}),
            json!({"Fn::Equals": [["p"], "p"]}),
            json!({"Fn::Contains": ["p", "p"]}),
            json!({"Fn::Not": equals("p")}),
            json!({"Fn::And": [equals("p")]}),
            json!({"Fn::Or": [equals("p"), {"Fn::Unheard": []}]}),
            json!({"Fn::Equals": [{"Ref": "R"}, "R"]}),
            json!({"Fn::Equals": [{"Ref": "AWS::Region"}, "us-east-1"]}),
            json!({"Fn::Equals": [{"Fn::Sub": "p"}, "p"]}),
            json!({"Condition": "C"}),
            json!(true),
        ] {
            let error = checked(&rule(&bad), "p").unwrap_err();
            assert!(!error.contains("violate"), "{bad}: {error}");
        }
    }

    #[test]
    fn a_rule_applies_if_its_condition_holds() {
        let rules = json!({"Rule": {
            "RuleCondition": {"Fn::Equals": [{"Ref": "P"}, "strict"]},
            "Assertions": [
                {"Assert": {"Fn::Equals": [{"Ref": "N"}, "3"]}, "AssertDescription": "first"},
                {"Assert": {"Fn::Equals": [{"Ref": "N"}, "4"]}},
            ],
        }});
        assert_eq!(checked(&rules, "p"), Ok(()));
        let error = checked(&rules, "strict").unwrap_err();
        assert_eq!(error, "the parameters violate the rule Rule: ");
        for rules in [json!([]), json!({"Rule": {}}), json!({"Rule": {"Assertions": [{}]}})] {
            assert!(checked(&rules, "p").is_err(), "{rules}");
        }
    }
}
