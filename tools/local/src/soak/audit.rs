//! Compares the table with the acknowledged updates.

use std::collections::BTreeMap;

use shared::domain::{AttributeValue, Item, keys::VersionDigits, names, version::Version};

use super::{plan::Step, senders::Sent};
use crate::report::history::{self, Collection, Collections};

/// Returns the findings: a history with a gap, or an update with no version, several versions, or another version than
/// acknowledged.
pub(super) fn audit(table: &Collections, sent: &Sent, digits: VersionDigits) -> Vec<String> {
    let mut findings = Vec::new();
    for (pk, missing) in history::missing(table, digits) {
        findings.push(format!("the history of {pk} is not complete: {}", missing.join(", ")));
    }
    for step in &sent.twice {
        findings.push(format!(
            "{} of {} was acknowledged with two versions",
            step.request_id(),
            step.id()
        ));
    }
    let mut steps: BTreeMap<String, Vec<&(Step, u64)>> = BTreeMap::new();
    for acknowledged in &sent.acknowledged {
        steps.entry(acknowledged.0.id()).or_default().push(acknowledged);
    }
    for (id, steps) in steps {
        let Some(collection) = table.get(&id) else {
            findings.push(format!("{id} is missing"));
            continue;
        };
        let found = versions_of(collection, digits).count();
        if found != steps.len() {
            findings.push(format!("{id} has {found} versions of {} updates", steps.len()));
        }
        for (step, version) in steps {
            let key = Version::new(*version).map(|version| digits.version_key(version));
            let item = key.and_then(|key| find(collection, &key));
            if !item.is_some_and(|item| is_of(item, step)) {
                findings.push(format!("v{version} of {id} is not of {}", step.request_id()));
            }
        }
    }
    findings
}

pub(super) fn versions(table: &Collections, digits: VersionDigits) -> usize {
    table
        .values()
        .map(|collection| versions_of(collection, digits).count())
        .sum()
}

fn versions_of(collection: &Collection, digits: VersionDigits) -> impl Iterator<Item = Version> {
    let keys = collection.items().iter().map(|(sort_key, _)| sort_key);
    keys.filter_map(move |sort_key| digits.version_of(sort_key))
}

fn find<'a>(collection: &'a Collection, key: &str) -> Option<&'a Item> {
    let mut items = collection.items().iter();
    items.find(|(sort_key, _)| sort_key == key).map(|(_, item)| item)
}

fn is_of(item: &Item, step: &Step) -> bool {
    item.get(names::REQUEST_ID) == Some(&AttributeValue::S(step.request_id()))
        && item.get("Number") == Some(&AttributeValue::N(step.number.to_string()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn step(number: usize) -> Step {
        Step { entity: 1, number }
    }

    fn item(sort_key: &str, number: usize) -> Value {
        json!({
            "PK": {"S": step(number).id()}, "SK": {"S": sort_key}, "Number": {"N": number.to_string()},
            "RequestId": {"S": step(number).request_id()},
        })
    }

    fn check(versions: &[Value], acknowledged: &[(usize, u64)]) -> Vec<String> {
        let newest = versions.last().unwrap();
        let mut latest = newest.clone();
        latest["SK"] = json!({"S": "v0"});
        latest["Latest"] = json!({"N": versions.len().to_string()});
        let items = versions.iter().chain([&latest]).cloned().collect();
        let items: Vec<Item> = serde_json::from_value(Value::Array(items)).unwrap();
        let sent = Sent {
            acknowledged: acknowledged
                .iter()
                .map(|(number, version)| (step(*number), *version))
                .collect(),
            ..Sent::default()
        };
        audit(
            &history::collect(items, VersionDigits::default()),
            &sent,
            VersionDigits::default(),
        )
    }

    #[test]
    fn each_kind_of_finding() {
        let good = [item("v1", 7), item("v2", 8)];
        assert!(check(&good, &[(7, 1), (8, 2)]).is_empty());
        let applied_twice = [item("v1", 7), item("v2", 8), item("v3", 7)];
        assert_eq!(
            check(&applied_twice, &[(7, 3), (8, 2)]),
            ["Equipment#1 has 3 versions of 2 updates"]
        );
        assert_eq!(
            check(&good, &[(7, 2), (8, 2)]),
            ["v2 of Equipment#1 is not of request-7"]
        );
        let gap = check(&[item("v2", 7), item("v2", 8)], &[(7, 2), (8, 2)]);
        assert_eq!(
            gap[0],
            "the history of Equipment#1 is not complete: v1, v2 differs from v0"
        );
        let nothing = audit(
            &Collections::new(),
            &Sent {
                acknowledged: vec![(step(7), 1)],
                ..Sent::default()
            },
            VersionDigits::default(),
        );
        assert_eq!(nothing, ["Equipment#1 is missing"]);
        let twice = Sent {
            twice: vec![step(7)],
            ..Sent::default()
        };
        let twice = audit(&Collections::new(), &twice, VersionDigits::default());
        assert_eq!(twice, ["request-7 of Equipment#1 was acknowledged with two versions"]);
    }
}
