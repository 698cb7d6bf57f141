//! Converts YAML with CloudFormation's short intrinsic functions to JSON with the long ones.

use saphyr::{LoadableYamlNode as _, Scalar, Yaml};
use serde_json::{Map, Number, Value};

use crate::error::{LocalError, failed};

/// Parses a template.
///
/// # Errors
///
/// Returns [`LocalError`] if the text is not one YAML document.
pub fn parse(text: &str) -> Result<Value, LocalError> {
    let documents = Yaml::load_from_str(text).map_err(failed("it is not YAML"))?;
    match documents.as_slice() {
        [document] => Ok(value(document)),
        _ => Err(LocalError::new("it is not one YAML document")),
    }
}

fn value(node: &Yaml) -> Value {
    match node {
        Yaml::Value(scalar) => match scalar {
            Scalar::Null => Value::Null,
            Scalar::Boolean(boolean) => Value::Bool(*boolean),
            Scalar::Integer(integer) => Value::Number((*integer).into()),
            Scalar::FloatingPoint(float) => Number::from_f64(float.into_inner()).map_or(Value::Null, Value::Number),
            Scalar::String(text) => Value::String(text.to_string()),
        },
        Yaml::Representation(text, ..) => Value::String(text.to_string()),
        Yaml::Sequence(values) => values.iter().map(value).collect(),
        Yaml::Mapping(members) => members
            .iter()
            .map(|(name, member)| (key(name), value(member)))
            .collect(),
        Yaml::Tagged(tag, inner) => intrinsic(&tag.suffix, value(inner)),
        Yaml::Alias(_) | Yaml::BadValue => Value::Null,
    }
}

/// `!Ref x` is `{"Ref": x}`, `!GetAtt a.b` is `{"Fn::GetAtt": ["a", "b"]}`; the others likewise.
fn intrinsic(tag: &str, operand: Value) -> Value {
    let (name, operand) = match (tag, operand) {
        ("Ref" | "Condition", operand) => (tag.to_owned(), operand),
        ("GetAtt", Value::String(path)) => {
            let (resource, attribute) = path.split_once('.').unwrap_or((&path, ""));
            ("Fn::GetAtt".to_owned(), vec![resource, attribute].into())
        }
        (_, operand) => (format!("Fn::{tag}"), operand),
    };
    Value::Object(Map::from_iter([(name, operand)]))
}

fn key(node: &Yaml) -> String {
    match value(node) {
        Value::String(text) => text,
        other => other.to_string(),
    }
}
