//! Parts of requests: expressions, conditions, and the writes of a transaction.

use std::collections::HashSet;

use serde_json::Value;
use writer_fn::counter::rules;

use crate::requests::text;

/// Members of a write.
pub(super) const CONDITION: &str = "ConditionExpression";
pub(super) const UPDATE: &str = "UpdateExpression";
pub(super) const NAMES: &str = "ExpressionAttributeNames";
pub(super) const VALUES: &str = "ExpressionAttributeValues";

/// Returns the writes of a kind, `Put`, `Update` or `Delete`, in a request of one write or in a transaction.
pub(super) fn writes<'a>(kind: &str, operation: &str, body: &'a mut Value) -> Vec<&'a mut Value> {
    if operation == format!("{kind}Item") {
        return vec![body];
    }
    let items = match operation {
        "TransactWriteItems" => body.get_mut("TransactItems").and_then(Value::as_array_mut),
        _ => None,
    };
    let items = items.into_iter().flatten();
    items.filter_map(|item| item.get_mut(kind)).collect()
}

/// Returns the sort key of the item that a write affects.
pub(super) fn sort_key(write: &Value) -> &str {
    let key = write.pointer("/Item/SK/S").or_else(|| write.pointer("/Key/SK/S"));
    key.and_then(Value::as_str).unwrap_or_default()
}

/// Returns `true` if an expression contains this part.
pub(super) fn has(write: &Value, expression: &str, part: &str) -> bool {
    text(write, &format!("/{expression}")).contains(part)
}

/// Replaces each occurrence of a part of an expression.
pub(super) fn replace(write: &mut Value, expression: &str, part: &str, replacement: &str) {
    if let Some(Value::String(expression)) = write.get_mut(expression) {
        *expression = expression.replace(part, replacement);
    }
    remove_unused(write);
}

/// Makes a part of the condition always true, by an alternative.
pub(super) fn weaken(write: &mut Value, part: &str, alternative: &str) {
    replace(write, CONDITION, part, &format!("({part} OR {alternative})"));
}

/// Makes the conditions of a [rule](writer_fn::counter::rules) always true, by their opposite as an alternative.
pub(super) fn disable(write: &mut Value, rule: &str) {
    replace_rule(write, rule, |condition| {
        format!("({condition} OR {})", opposite(condition))
    });
}

/// Makes the conditions of a rule the opposite.
pub(super) fn negate(write: &mut Value, rule: &str) {
    replace_rule(write, rule, opposite);
}

/// DynamoDB rejects parentheses around parentheses.
fn opposite(condition: &str) -> String {
    match condition.starts_with('(') {
        true => format!("NOT {condition}"),
        false => format!("NOT ({condition})"),
    }
}

pub(super) fn is_rule(name: &str) -> bool {
    rules::named(name).next().is_some()
}

fn replace_rule(write: &mut Value, rule: &str, replacement: impl Fn(&str) -> String) {
    let conditions: Vec<_> = rules::named(rule).collect();
    assert!(!conditions.is_empty(), "there is no rule {rule}");
    if let Some(Value::String(expression)) = write.get_mut(CONDITION) {
        for condition in conditions {
            *expression = replace_part(expression, &condition, &replacement(&condition));
        }
    }
}

/// Replaces a condition where it is one or more of the parts that `AND` joins, outside of parentheses.
fn replace_part(expression: &str, part: &str, replacement: &str) -> String {
    const AND: &str = " AND ";
    let depth = |text: &str| text.matches('(').count() - text.matches(')').count();
    let (mut replaced, mut rest, mut end) = (String::new(), expression, 0);
    while let Some(next) = rest[end..].find(part) {
        let (start, after) = (end + next, end + next + part.len());
        let is_whole = (start == 0 || rest[..start].ends_with(AND)) && depth(&rest[..start]) == 0;
        if is_whole && (after == rest.len() || rest[after..].starts_with(AND)) {
            replaced.extend([&rest[..start], replacement]);
            (rest, end) = (&rest[after..], 0);
        } else {
            end = after;
        }
    }
    replaced + rest
}

/// Removes the condition of a write.
pub(super) fn remove_condition(write: &mut Value) {
    remove(write, CONDITION);
    remove_unused(write);
}

/// Removes the names and values that no expression uses: DynamoDB rejects them.
pub(super) fn remove_unused(write: &mut Value) {
    let expressions = [UPDATE, CONDITION].map(|expression| text(write, &format!("/{expression}")));
    let is_end = |character: char| !character.is_alphanumeric() && !"#:_".contains(character);
    let used: HashSet<String> = expressions
        .iter()
        .flat_map(|text| text.split(is_end))
        .map(str::to_owned)
        .collect();
    for member in [NAMES, VALUES] {
        if let Some(placeholders) = write.get_mut(member).and_then(Value::as_object_mut) {
            placeholders.retain(|placeholder, _| used.contains(placeholder));
            if placeholders.is_empty() {
                remove(write, member);
            }
        }
    }
}

/// Removes a member of an object.
pub(super) fn remove(object: &mut Value, name: &str) {
    if let Some(members) = object.as_object_mut() {
        members.remove(name);
    }
}
