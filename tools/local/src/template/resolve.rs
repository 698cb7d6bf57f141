//! Evaluates CloudFormation's intrinsic functions, as far as the template uses them, and the assertions of its rules.
//! See <https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/intrinsic-function-reference.html>.
//!
//! One function evaluates all of them: a condition or an assertion is a function whose value is a boolean. There are no real
//! resources, so a reference to one resolves to its logical id, its ARN is invented, and any other attribute is `Resource.Attribute`.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::error::LocalError;

pub const REGION: &str = "us-east-1";
pub const ACCOUNT: &str = "000000000000";
const STACK_ID: &str = "arn:aws:cloudformation:us-east-1:000000000000:stack/local/00000000-0000-4000-8000-000000000000";

/// Functions whose operands are a list.
const FUNCTIONS: &str = "Fn::GetAtt Fn::If Fn::Join Fn::Split Fn::Select Fn::And Fn::Or Fn::Not Fn::Equals";

/// Evaluates intrinsic functions within one template.
pub struct Resolver<'a> {
    document: &'a Value,
    parameters: HashMap<&'a str, Value>,
}

impl<'a> Resolver<'a> {
    /// Creates a resolver with the defaults of the template's parameters and these overrides.
    pub fn new(document: &'a Value, overrides: &[(String, String)]) -> Result<Self, LocalError> {
        let declared = document.get("Parameters").and_then(Value::as_object);
        let is_declared = |name: &str| declared.is_some_and(|declared| declared.contains_key(name));
        if let Some((name, _)) = overrides.iter().find(|(name, _)| !is_declared(name)) {
            return Err(LocalError::new(format!("there is no parameter {name}")));
        }
        let mut parameters = HashMap::new();
        for (name, parameter) in declared.into_iter().flatten() {
            let given = overrides.iter().rev().find(|(given, _)| given == name);
            let given = given.map(|(_, value)| Value::String(value.clone()));
            let value = given.or_else(|| parameter.get("Default").cloned());
            let value = value.ok_or_else(|| LocalError::new(format!("the parameter {name} has no value")))?;
            if !allows(parameter, &value) {
                return Err(LocalError::new(format!(
                    "the parameter {name} does not allow {}",
                    text(&value)
                )));
            }
            parameters.insert(name.as_str(), value);
        }
        Ok(Self { document, parameters })
    }

    /// Returns the resources of this type whose condition holds, by logical id.
    pub fn resources(&self, kind: &str) -> Result<Vec<(&'a str, &'a Value)>, LocalError> {
        let resources = self.document.get("Resources").and_then(Value::as_object);
        let resources = resources.ok_or_else(|| LocalError::new("Resources is missing or not an object"))?;
        let mut found = Vec::new();
        for (id, resource) in resources.iter().filter(|(_, resource)| resource["Type"] == kind) {
            if resource
                .get("Condition")
                .map_or(Ok(true), |name| self.condition(name))?
            {
                found.push((id.as_str(), resource));
            }
        }
        Ok(found)
    }

    /// Checks the section `Rules`: CloudFormation validates the parameters with it before it creates a stack.
    /// See <https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/rules-section-structure.html>.
    pub(super) fn check_rules(&self) -> Result<(), LocalError> {
        let Some(rules) = self.document.get("Rules") else {
            return Ok(());
        };
        let rules = rules
            .as_object()
            .ok_or_else(|| LocalError::new("Rules is not an object"))?;
        for (name, rule) in rules {
            let applies = rule.get("RuleCondition").map_or(Ok(true), |one| self.holds(one))?;
            let assertions = rule["Assertions"].as_array();
            for assertion in assertions.ok_or_else(|| LocalError::new(format!("{name} has no Assertions")))? {
                if !self.holds(&assertion["Assert"])? && applies {
                    let description = assertion.get("AssertDescription").map(text).unwrap_or_default();
                    return Err(LocalError::new(format!(
                        "the parameters violate the rule {name}: {description}"
                    )));
                }
            }
        }
        Ok(())
    }

    pub fn resolve(&self, value: &Value) -> Result<Value, LocalError> {
        match value {
            Value::Array(values) => {
                let values = values.iter().map(|value| self.member(value));
                Ok(values.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
            }
            Value::Object(members) => {
                if let Some((name, operand)) = intrinsic(members) {
                    return self.call(name, operand);
                }
                let members = members
                    .iter()
                    .map(|(name, member)| Ok(self.member(member)?.map(|member| (name.clone(), member))));
                let members: Vec<_> = members.collect::<Result<_, LocalError>>()?;
                Ok(Value::Object(members.into_iter().flatten().collect()))
            }
            scalar => Ok(scalar.clone()),
        }
    }

    /// Returns `None` for `AWS::NoValue`, also as the result of a condition: it removes the member.
    fn member(&self, value: &Value) -> Result<Option<Value>, LocalError> {
        let resolved = self.resolve(value)?;
        Ok((value.is_null() || !resolved.is_null()).then_some(resolved))
    }

    fn call(&self, name: &str, operand: &Value) -> Result<Value, LocalError> {
        let bad = || LocalError::new(format!("{name} has an invalid operand"));
        let resolved_text = |value| self.resolve(value).map(|value| text(&value));
        Ok(match (name, operand.as_array().map_or(&[][..], Vec::as_slice)) {
            ("Ref", _) => self.reference(operand.as_str().ok_or_else(bad)?)?,
            ("Condition", _) => self.condition(operand)?.into(),
            ("Fn::Sub", [Value::String(template), Value::Object(variables)]) => self.substitute(template, variables)?,
            ("Fn::Sub", _) => self.substitute(operand.as_str().ok_or_else(bad)?, &Map::new())?,
            ("Fn::GetAtt", [resource, attribute]) => self.attribute(&text(resource), &text(attribute))?,
            ("Fn::If", [condition, yes, no]) => self.resolve(if self.condition(condition)? { yes } else { no })?,
            ("Fn::Join", [separator, parts]) => {
                let parts = self.resolve(parts)?;
                let parts: Vec<_> = parts.as_array().ok_or_else(bad)?.iter().map(text).collect();
                parts.join(&text(separator)).into()
            }
            ("Fn::Split", [separator, whole]) => {
                let whole = resolved_text(whole)?;
                whole.split(&text(separator)).collect()
            }
            ("Fn::Select", [index, values]) => {
                let index: usize = resolved_text(index)?.parse().map_err(|_| bad())?;
                self.resolve(values)?.get(index).cloned().ok_or_else(bad)?
            }
            // All operands are evaluated, because an invalid one is an error.
            ("Fn::And", all @ [_, _, ..]) => self.all(all)?.into_iter().all(|holds| holds).into(),
            ("Fn::Or", any @ [_, _, ..]) => self.all(any)?.into_iter().any(|holds| holds).into(),
            ("Fn::Not", [inner]) => (!self.holds(inner)?).into(),
            ("Fn::Equals", [a, b]) => (resolved_text(a)? == resolved_text(b)?).into(),
            (name, _) if FUNCTIONS.split(' ').any(|function| function == name) => return Err(bad()),
            _ => return Err(LocalError::new(format!("the local stack does not support {name}"))),
        })
    }

    fn reference(&self, name: &str) -> Result<Value, LocalError> {
        Ok(match name {
            "AWS::Region" => REGION.into(),
            "AWS::AccountId" => ACCOUNT.into(),
            "AWS::Partition" => "aws".into(),
            "AWS::StackName" => "local".into(),
            "AWS::StackId" => STACK_ID.into(),
            "AWS::URLSuffix" => "amazonaws.com".into(),
            "AWS::NoValue" => Value::Null,
            name => match self.parameters.get(name) {
                Some(value) => value.clone(),
                None => self.resource(name)?.into(),
            },
        })
    }

    fn attribute(&self, resource: &str, attribute: &str) -> Result<Value, LocalError> {
        let resource = self.resource(resource)?;
        Ok(match attribute {
            "Arn" => format!("arn:aws:local:{REGION}:{ACCOUNT}:{resource}"),
            attribute => format!("{resource}.{attribute}"),
        }
        .into())
    }

    /// Returns the name of a resource that exists. SAM generates an event source mapping for an event, with the ids of the function
    /// and the event as its id. See
    /// <https://docs.aws.amazon.com/serverless-application-model/latest/developerguide/sam-specification-generated-resources.html>.
    fn resource<'b>(&self, name: &'b str) -> Result<&'b str, LocalError> {
        let resources = self.document.get("Resources").and_then(Value::as_object);
        let is_it = |(id, resource): (&String, &Value)| match name.strip_prefix(id.as_str()) {
            Some("") => true,
            Some(event) => resource.pointer(&format!("/Properties/Events/{event}")).is_some(),
            None => false,
        };
        let exists = resources.is_some_and(|resources| resources.iter().any(is_it));
        let missing = || LocalError::new(format!("there is no parameter or resource {name}"));
        exists.then_some(name).ok_or_else(missing)
    }

    fn substitute(&self, template: &str, variables: &Map<String, Value>) -> Result<Value, LocalError> {
        let (mut out, mut rest) = (String::new(), template);
        while let Some((before, behind)) = rest.split_once("${") {
            let end = || LocalError::new("Fn::Sub has an invalid operand");
            let (name, after) = behind.split_once('}').ok_or_else(end)?;
            out.push_str(before);
            match (name.strip_prefix('!'), variables.get(name), name.split_once('.')) {
                (Some(literal), ..) => out.extend(["${", literal, "}"]),
                (_, Some(variable), _) => out += &text(&self.resolve(variable)?),
                (.., Some((resource, attribute))) => out += &text(&self.attribute(resource, attribute)?),
                _ => out += &text(&self.reference(name)?),
            }
            rest = after;
        }
        Ok((out + rest).into())
    }

    fn condition(&self, name: &Value) -> Result<bool, LocalError> {
        let condition = self.document["Conditions"].get(text(name));
        self.holds(condition.ok_or_else(|| LocalError::new(format!("there is no condition {}", text(name))))?)
    }

    fn holds(&self, function: &Value) -> Result<bool, LocalError> {
        let holds = self.resolve(function)?.as_bool();
        holds.ok_or_else(|| LocalError::new("a condition or a rule has an invalid operand"))
    }

    fn all(&self, functions: &[Value]) -> Result<Vec<bool>, LocalError> {
        functions.iter().map(|function| self.holds(function)).collect()
    }
}

/// Returns the name and operand, if the object is an intrinsic function: one member with such a name.
fn intrinsic(members: &Map<String, Value>) -> Option<(&str, &Value)> {
    let (name, operand) = members.iter().next().filter(|_| members.len() == 1)?;
    let is_one = name == "Ref" || name == "Condition" || name.starts_with("Fn::");
    is_one.then_some((name.as_str(), operand))
}

fn allows(parameter: &Value, value: &Value) -> bool {
    let allowed = parameter.get("AllowedValues").and_then(Value::as_array);
    let is_allowed = allowed.is_none_or(|allowed| allowed.iter().any(|one| text(one) == text(value)));
    let number = text(value).parse::<f64>();
    let bound = |name: &str| parameter.get(name).and_then(|bound| text(bound).parse::<f64>().ok());
    let is_within = match number {
        Ok(number) => {
            bound("MinValue").is_none_or(|min| number >= min) && bound("MaxValue").is_none_or(|max| number <= max)
        }
        Err(_) => parameter["Type"] != "Number",
    };
    is_allowed && is_within
}

/// Converts a scalar to text: CloudFormation accepts numbers and booleans as strings, and strings as numbers.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_function() {
        let document = json!({
            "Parameters": {"P": {"Type": "String", "Default": "p"}, "N": {"Type": "Number", "Default": 3}},
            "Conditions": {"Yes": {"Fn::Equals": [{"Ref": "P"}, "p"]}, "No": {"Fn::Not": [{"Condition": "Yes"}]}},
            "Resources": {"R": {}, "F": {"Properties": {"Events": {"E": {}}}}},
        });
        let resolver = Resolver::new(&document, &[]).unwrap();
        for line in r#"{"Ref": "P"} = "p"
            {"Ref": "R"} = "R"
            {"Ref": "FE"} = "FE"
            {"Ref": "AWS::Region"} = "us-east-1"
            {"Fn::GetAtt": ["R", "Arn"]} = "arn:aws:local:us-east-1:000000000000:R"
            {"Fn::GetAtt": ["R", "Name"]} = "R.Name"
            {"Fn::Sub": "${P}-${R}-${R.Name}-${!P}-$"} = "p-R-R.Name-${P}-$"
            {"Fn::Sub": ["${V}", {"V": {"Ref": "N"}}]} = "3"
            {"Fn::If": ["Yes", 1, 2]} = 1
            {"Fn::If": ["No", 1, 2]} = 2
            {"Fn::And": [{"Condition": "Yes"}, {"Condition": "No"}]} = false
            {"Fn::And": [{"Condition": "Yes"}, {"Condition": "Yes"}]} = true
            {"Fn::Or": [{"Condition": "No"}, {"Condition": "Yes"}]} = true
            {"Fn::Or": [{"Condition": "No"}, {"Condition": "No"}]} = false
            {"Fn::Equals": [3, {"Ref": "N"}]} = true
            {"Fn::Join": ["-", ["a", {"Ref": "P"}]]} = "a-p"
            {"Fn::Select": [1, ["a", "b"]]} = "b"
            {"Fn::Split": ["/", {"Fn::Sub": "a/${P}"}]} = ["a", "p"]
            {"Fn::Select": [1, {"Fn::Split": ["/", "a/b"]}]} = "b"
            {"a": {"Ref": "AWS::NoValue"}, "b": [{"Ref": "AWS::NoValue"}, 1]} = {"b": [1]}
            {"Ref": 7} = error
            {"Ref": "Nothing"} = error
            {"Ref": "FX"} = error
            {"Fn::GetAtt": ["Nothing", "Arn"]} = error
            {"Fn::Sub": "${P"} = error
            {"Fn::Sub": 7} = error
            {"Fn::If": ["Nothing", 1, 2]} = error
            {"Fn::If": ["Yes"]} = error
            {"Fn::Select": [9, ["a"]]} = error
            {"Fn::Equals": ["p"]} = error
            {"Fn::Not": {"Condition": "Yes"}} = error
            {"Fn::Not": ["p"]} = error
            {"Fn::And": [{"Condition": "Yes"}]} = error
            {"Fn::Or": [{"Condition": "Yes"}, {"Fn::Unheard": []}]} = error
            {"Fn::Unheard": 1} = error"#
            .lines()
        {
            let (value, expected) = line.split_once(" = ").unwrap();
            let expected: Option<Value> = serde_json::from_str(expected).ok();
            let value = serde_json::from_str(value).unwrap();
            assert_eq!(resolver.resolve(&value).ok(), expected, "{line}");
        }
    }

    #[test]
    fn a_rule_applies_if_its_condition_holds() {
        let checked = |rules: Value, parameter: &str| {
            let document = json!({
                "Parameters": {"P": {"Type": "String", "Default": "p"}, "N": {"Type": "Number", "Default": 3}},
                "Rules": rules,
            });
            let resolver = Resolver::new(&document, &[("P".to_owned(), parameter.to_owned())]).unwrap();
            resolver.check_rules().map_err(|error| error.to_string())
        };
        let rules = json!({"Rule": {
            "RuleCondition": {"Fn::Equals": [{"Ref": "P"}, "strict"]},
            "Assertions": [
                {"Assert": {"Fn::Equals": [{"Ref": "N"}, "3"]}, "AssertDescription": "first"},
                {"Assert": {"Fn::Equals": [{"Ref": "N"}, "4"]}, "AssertDescription": "why"},
            ],
        }});
        assert_eq!(checked(rules.clone(), "p"), Ok(()));
        let error = "the parameters violate the rule Rule: why".to_owned();
        assert_eq!(checked(rules, "strict"), Err(error));
        for rules in [json!([]), json!({"Rule": {}}), json!({"Rule": {"Assertions": [{}]}})] {
            assert!(checked(rules.clone(), "p").is_err(), "{rules}");
        }
    }
}
