//! Evaluates CloudFormation's intrinsic functions, as far as the template uses them.
//! See <https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/intrinsic-function-reference.html>.

use std::collections::HashMap;

use serde_json::{Map, Value};
use thiserror::Error;

pub const REGION: &str = "us-east-1";
pub const ACCOUNT: &str = "000000000000";

/// Evaluates intrinsic functions within one template.
pub struct Resolver<'a> {
    document: &'a Value,
    parameters: HashMap<&'a str, Value>,
}

impl<'a> Resolver<'a> {
    /// Creates a resolver with the defaults of the template's parameters and these overrides.
    pub fn new(document: &'a Value, overrides: &[(String, String)]) -> Result<Self, Unresolved> {
        let declared = document.get("Parameters").and_then(Value::as_object);
        if let Some((name, _)) = overrides
            .iter()
            .find(|(name, _)| declared.is_none_or(|declared| !declared.contains_key(name)))
        {
            return Err(Unresolved::NoParameter(name.clone()));
        }
        let mut parameters = HashMap::new();
        for (name, parameter) in declared.into_iter().flatten() {
            let given = overrides.iter().rev().find(|(given, _)| given == name);
            let given = given.map(|(_, value)| Value::String(value.clone()));
            let value = given.or_else(|| parameter.get("Default").cloned());
            let value = value.ok_or_else(|| Unresolved::NoValue(name.clone()))?;
            if !allows(parameter, &value) {
                return Err(Unresolved::InvalidValue(name.clone(), text(&value)));
            }
            parameters.insert(name.as_str(), value);
        }
        Ok(Self { document, parameters })
    }

    pub fn resolve(&self, value: &Value) -> Result<Value, Unresolved> {
        match value {
            Value::Array(values) => {
                let values: Vec<_> = values
                    .iter()
                    .map(|value| self.resolve_member(value))
                    .collect::<Result<_, _>>()?;
                Ok(values.into_iter().flatten().collect())
            }
            Value::Object(members) => {
                if let Some((name, operand)) = intrinsic(members) {
                    return self.call(name, operand);
                }
                let mut resolved = Map::new();
                for (name, member) in members {
                    if let Some(member) = self.resolve_member(member)? {
                        resolved.insert(name.clone(), member);
                    }
                }
                Ok(Value::Object(resolved))
            }
            scalar => Ok(scalar.clone()),
        }
    }

    /// Returns `None` for `AWS::NoValue`, also as the result of a condition: it removes the member.
    fn resolve_member(&self, value: &Value) -> Result<Option<Value>, Unresolved> {
        let resolved = self.resolve(value)?;
        let is_removed = resolved.is_null() && !value.is_null();
        Ok((!is_removed).then_some(resolved))
    }

    fn call(&self, name: &str, operand: &Value) -> Result<Value, Unresolved> {
        let bad = || Unresolved::Operand(name.to_owned());
        match (name, operand.as_array().map(Vec::as_slice)) {
            ("Ref", _) => self.reference(operand.as_str().ok_or_else(bad)?),
            ("Fn::Sub", _) => self.substitute(operand).map(Value::String),
            ("Fn::GetAtt", Some([resource, attribute])) => {
                Ok(Value::String(self.attribute(&text(resource), &text(attribute))?))
            }
            ("Fn::If", Some([condition, yes, no])) => {
                let holds = self.named_condition(&text(condition))?;
                self.resolve(if holds { yes } else { no })
            }
            ("Fn::Join", Some([separator, parts])) => {
                let parts = self.resolve(parts)?;
                let parts: Vec<_> = parts.as_array().ok_or_else(bad)?.iter().map(text).collect();
                Ok(Value::String(parts.join(&text(separator))))
            }
            ("Fn::Split", Some([separator, whole])) => {
                let whole = text(&self.resolve(whole)?);
                Ok(whole.split(&text(separator)).map(Value::from).collect())
            }
            ("Fn::Select", Some([index, values])) => {
                let index = text(&self.resolve(index)?).parse::<usize>().map_err(|_| bad())?;
                self.resolve(values)?.get(index).cloned().ok_or_else(bad)
            }
            ("Fn::GetAtt" | "Fn::If" | "Fn::Join" | "Fn::Split" | "Fn::Select", _) => Err(bad()),
            _ => Err(Unresolved::Unknown(name.to_owned())),
        }
    }

    fn reference(&self, name: &str) -> Result<Value, Unresolved> {
        if let Some(value) = self.parameters.get(name) {
            return Ok(value.clone());
        }
        let pseudo = match name {
            "AWS::Region" => REGION,
            "AWS::AccountId" => ACCOUNT,
            "AWS::Partition" => "aws",
            "AWS::StackName" => "local",
            "AWS::StackId" => {
                "arn:aws:cloudformation:us-east-1:000000000000:stack/local/00000000-0000-4000-8000-000000000000"
            }
            "AWS::URLSuffix" => "amazonaws.com",
            "AWS::NoValue" => return Ok(Value::Null),
            _ if self.has_resource(name) => name,
            _ => return Err(Unresolved::NoName(name.to_owned())),
        };
        Ok(Value::String(pseudo.to_owned()))
    }

    /// There are no real resources: an ARN is invented, and any other attribute resolves to its path.
    fn attribute(&self, resource: &str, attribute: &str) -> Result<String, Unresolved> {
        if !self.has_resource(resource) {
            return Err(Unresolved::NoName(resource.to_owned()));
        }
        Ok(match attribute {
            "Arn" => format!("arn:aws:local:{REGION}:{ACCOUNT}:{resource}"),
            attribute => format!("{resource}.{attribute}"),
        })
    }

    /// SAM generates an event source mapping for an event, with the ids of the function and the event as its id. See
    /// <https://docs.aws.amazon.com/serverless-application-model/latest/developerguide/sam-specification-generated-resources.html>.
    fn has_resource(&self, name: &str) -> bool {
        let resources = self.document.get("Resources").and_then(Value::as_object);
        let is_generated = |(id, resource): (&String, &Value)| {
            let event = name.strip_prefix(id.as_str());
            event.is_some_and(|event| resource.pointer(&format!("/Properties/Events/{event}")).is_some())
        };
        resources.is_some_and(|resources| resources.contains_key(name) || resources.iter().any(is_generated))
    }

    fn substitute(&self, operand: &Value) -> Result<String, Unresolved> {
        let bad = || Unresolved::Operand("Fn::Sub".to_owned());
        let none = Map::new();
        let (template, variables) = match operand {
            Value::String(template) => (template, &none),
            Value::Array(parts) => match parts.as_slice() {
                [Value::String(template), Value::Object(variables)] => (template, variables),
                _ => return Err(bad()),
            },
            _ => return Err(bad()),
        };
        let mut out = String::new();
        let mut rest = template.as_str();
        while let Some((before, behind)) = rest.split_once("${") {
            let (name, after) = behind.split_once('}').ok_or_else(bad)?;
            out.push_str(before);
            match (name.strip_prefix('!'), variables.get(name), name.split_once('.')) {
                (Some(literal), ..) => out.extend(["${", literal, "}"]),
                (_, Some(variable), _) => out.push_str(&text(&self.resolve(variable)?)),
                (.., Some((resource, attribute))) => out.push_str(&self.attribute(resource, attribute)?),
                _ => out.push_str(&text(&self.reference(name)?)),
            }
            rest = after;
        }
        out.push_str(rest);
        Ok(out)
    }

    pub(super) fn named_condition(&self, name: &str) -> Result<bool, Unresolved> {
        let condition = self
            .document
            .get("Conditions")
            .and_then(|conditions| conditions.get(name));
        self.holds(
            condition.ok_or_else(|| Unresolved::NoName(name.to_owned()))?,
            Scope::Condition,
        )
    }

    /// Evaluates a condition, or a function of a rule.
    pub(super) fn holds(&self, function: &Value, scope: Scope) -> Result<bool, Unresolved> {
        let function = function.as_object().and_then(intrinsic);
        let (name, operand) = function.ok_or_else(|| Unresolved::Operand("a condition or a rule".to_owned()))?;
        let operands = operand.as_array().map(Vec::as_slice).unwrap_or_default();
        let holds = |one| self.holds(one, scope);
        let value = |one| match scope {
            Scope::Condition => self.resolve(one).map(|value| text(&value)),
            Scope::Rule => self.literal(one),
        };
        match (name, operands) {
            ("Condition", _) if scope == Scope::Condition => self.named_condition(&text(operand)),
            // All operands are evaluated, because an invalid one is an error.
            ("Fn::And", all @ [_, _, ..]) => all.iter().try_fold(true, |result, one| Ok(holds(one)? && result)),
            ("Fn::Or", any @ [_, _, ..]) => any.iter().try_fold(false, |result, one| Ok(holds(one)? || result)),
            ("Fn::Not", [inner]) => Ok(!holds(inner)?),
            ("Fn::Equals", [a, b]) => Ok(value(a)? == value(b)?),
            ("Fn::Contains", [Value::Array(values), sought]) if scope == Scope::Rule => {
                let values: Vec<_> = values.iter().map(value).collect::<Result<_, _>>()?;
                Ok(values.contains(&value(sought)?))
            }
            ("Fn::And" | "Fn::Or" | "Fn::Not" | "Fn::Equals", _) => Err(Unresolved::Operand(name.to_owned())),
            _ => Err(Unresolved::Unknown(name.to_owned())),
        }
    }

    /// Returns a parameter or a literal as text.
    fn literal(&self, operand: &Value) -> Result<String, Unresolved> {
        match operand {
            Value::Object(members) => match intrinsic(members) {
                Some(("Ref", Value::String(name))) => {
                    let parameter = self.parameters.get(name.as_str()).map(text);
                    parameter.ok_or_else(|| Unresolved::NoParameter(name.clone()))
                }
                Some((name, _)) if name != "Ref" => Err(Unresolved::Unknown(name.to_owned())),
                _ => Err(Unresolved::Operand("Ref".to_owned())),
            },
            Value::Array(_) | Value::Null => Err(Unresolved::Operand("a rule".to_owned())),
            literal => Ok(text(literal)),
        }
    }
}

/// Section of a template that contains a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// `Conditions`. An operand can be any function.
    Condition,
    /// `Rules`. An operand is a parameter or a literal, and `Fn::Contains` is a function.
    Rule,
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
    let is_number =
        parameter.get("Type").and_then(Value::as_str) != Some("Number") || text(value).parse::<f64>().is_ok();
    let bound = |name: &str| parameter.get(name).and_then(|bound| text(bound).parse::<f64>().ok());
    let number = text(value).parse::<f64>().unwrap_or_default();
    let is_within =
        bound("MinValue").is_none_or(|min| number >= min) && bound("MaxValue").is_none_or(|max| number <= max);
    is_allowed && is_number && is_within
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Unresolved {
    #[error("there is no parameter {0}")]
    NoParameter(String),
    /// A parameter without a default.
    #[error("the parameter {0} has no value")]
    NoValue(String),
    #[error("the parameter {0} does not allow {1}")]
    InvalidValue(String, String),
    #[error("there is no parameter or resource {0}")]
    NoName(String),
    #[error("{0} has an invalid operand")]
    Operand(String),
    #[error("the local stack does not support {0}")]
    Unknown(String),
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
            "Conditions": {
                "Yes": {"Fn::Equals": [{"Ref": "P"}, "p"]},
                "No": {"Fn::Not": [{"Condition": "Yes"}]},
                "Both": {"Fn::And": [{"Condition": "Yes"}, {"Condition": "No"}]},
                "Either": {"Fn::Or": [{"Condition": "Yes"}, {"Condition": "No"}]},
            },
            "Resources": {"R": {}, "F": {"Properties": {"Events": {"E": {}}}}},
        });
        let resolver = Resolver::new(&document, &[]).unwrap();
        for (value, expected) in [
            (json!({"Ref": "P"}), json!("p")),
            (json!({"Ref": "R"}), json!("R")),
            (json!({"Ref": "FE"}), json!("FE")),
            (json!({"Ref": "AWS::Region"}), json!("us-east-1")),
            (
                json!({"Fn::GetAtt": ["R", "Arn"]}),
                json!("arn:aws:local:us-east-1:000000000000:R"),
            ),
            (json!({"Fn::GetAtt": ["R", "Name"]}), json!("R.Name")),
            (
                json!({"Fn::Sub": "${P}-${R}-${R.Name}-${!P}-$"}),
                json!("p-R-R.Name-${P}-$"),
            ),
            (json!({"Fn::Sub": ["${V}", {"V": {"Ref": "N"}}]}), json!("3")),
            (json!({"Fn::If": ["Yes", 1, 2]}), json!(1)),
            (json!({"Fn::If": ["No", 1, 2]}), json!(2)),
            (json!({"Fn::If": ["Both", 1, 2]}), json!(2)),
            (json!({"Fn::If": ["Either", 1, 2]}), json!(1)),
            (json!({"Fn::Join": ["-", ["a", {"Ref": "P"}]]}), json!("a-p")),
            (json!({"Fn::Select": [1, ["a", "b"]]}), json!("b")),
            (json!({"Fn::Split": ["/", {"Fn::Sub": "a/${P}"}]}), json!(["a", "p"])),
            (json!({"Fn::Select": [1, {"Fn::Split": ["/", "a/b"]}]}), json!("b")),
            (
                json!({"a": {"Ref": "AWS::NoValue"}, "b": [{"Ref": "AWS::NoValue"}, 1]}),
                json!({"b": [1]}),
            ),
        ] {
            assert_eq!(resolver.resolve(&value), Ok(expected), "{value}");
        }
        for bad in [
            json!({"Ref": 7}),
            json!({"Ref": "Nothing"}),
            json!({"Ref": "FX"}),
            json!({"Fn::GetAtt": ["Nothing", "Arn"]}),
            json!({"Fn::Sub": "${P"}),
            json!({"Fn::Sub": 7}),
            json!({"Fn::If": ["Nothing", 1, 2]}),
            json!({"Fn::If": ["Yes"]}),
            json!({"Fn::Select": [9, ["a"]]}),
            json!({"Fn::Unheard": 1}),
        ] {
            assert!(resolver.resolve(&bad).is_err(), "{bad}");
        }
    }
}
