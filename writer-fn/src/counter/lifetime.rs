//! Lifetime of the latest item's state, as a part of an update's [`Expression`].
//!
//! A deletion ends the state: the next update starts from an empty item. It keeps the counter, the recent requests, and what order by
//! time and the expected version are compared with.
//!
//! An update expression can remove only attributes that it names, so such an update needs the stored item. The condition of an
//! update that knows no stored item fails for one whose state has ended, and DynamoDB returns the item. A deletion reads the item
//! before: it removes the names that it found. What it leaves, because names did not fit the expression or are newer, is not part
//! of its version, and is removed by [`ended_state`](super::ended_state).
//!
//! An update that sets more attributes than one expression can is a restore: it has put them on the tombstone before, where they are
//! no part of a version, and the update keeps those that have its values. Each of these requests changes the token on the tombstone,
//! and each removal removes it. An update after a deletion has the condition that the token is the one that was read: it does not
//! take over attributes that a restore has put there since.

use std::collections::{BTreeSet, HashMap};

use aws_sdk_dynamodb::types::AttributeValue as Value;
use shared::{
    domain::{AttributeValue, Item, attributes::same_value, attribution, names, tombstone::is_deleted},
    dynamodb::expression::Expression,
};

use crate::{
    counter::rules::{self, assign},
    update::Update,
};

/// Lifetime of the stored state, with the attributes that the update removes because the state ends or has ended.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Lifetime {
    /// Tombstone that the condition requires, `None` if the item must not be one, or if the update is a deletion.
    tombstone: Option<Tombstone>,
    ended: Vec<String>,
    /// Attributes of a tombstone that already have the values of the update.
    staged: BTreeSet<String>,
}

#[derive(Debug, Clone, PartialEq)]
struct Tombstone {
    /// Its `Latest`, if it has one.
    latest: Option<AttributeValue>,
    /// Token of the attributes that a restore has put on it.
    token: Option<AttributeValue>,
}

impl Lifetime {
    /// Returns the lifetime of a stored latest item, for an update. The default is the one that most latest items have.
    pub fn fitting(update: &Update, stored: Option<&Item>) -> Self {
        let Some(stored) = stored.filter(|stored| update.deleted || is_deleted(stored)) else {
            return Self::default();
        };
        let (latest, token) = (stored.get(names::LATEST), stored.get(names::TOMBSTONE_STAGED));
        let mut ended = attribution::state_names(stored);
        if update.deleted {
            // It sets no attributes of state, and sets or removes its own state.
            ended.extend(token.map(|_| names::TOMBSTONE_STAGED.to_owned()));
            return Self {
                ended,
                ..Self::default()
            };
        }
        ended.retain(|name| !update.changes.contains_key(name));
        let of_tombstone = [names::TOMBSTONE_STATE, names::TOMBSTONE_STAGED];
        let of_tombstone = of_tombstone.into_iter().filter(|name| stored.contains_key(*name));
        ended.extend(of_tombstone.map(str::to_owned));
        let is_stored = |(name, value): &(&String, &AttributeValue)| {
            let stored = stored.get(name.as_str());
            stored.is_some_and(|stored| same_value(stored, value))
        };
        let staged = update
            .new_state()
            .filter(|_| token.is_some() && update.is_wide())
            .filter(is_stored);
        Self {
            staged: staged.map(|(name, _)| name.clone()).collect(),
            tombstone: Some(Tombstone {
                latest: latest.cloned(),
                token: token.cloned(),
            }),
            ended,
        }
    }

    /// Adds this part to an update's expression, except for the [changes](Self::add_changes).
    pub(crate) fn add_to(&self, expression: &mut Expression, update: &Update) {
        let is_deleted = Value::Bool(true);
        rules::remove(expression, "#ttl");
        if update.deleted {
            return assign(expression, "#deleted = :deleted", is_deleted);
        }
        rules::remove(expression, "#deleted");
        expression.value(":deleted", is_deleted);
        match &self.tombstone {
            None => rules::LIVE.add_to(expression),
            Some(Tombstone { latest: None, .. }) => rules::UNCOUNTED_TOMBSTONE.add_to(expression),
            Some(Tombstone {
                latest: Some(latest), ..
            }) => {
                expression.value(":tombstone", latest.clone().into());
                rules::TOMBSTONE.add_to(expression);
            }
        }
    }

    /// Adds the changes of an update, and the removal of what has ended. The removal of an update that is no deletion is complete: it removes
    /// the attributes that were read, so the condition names the token of the tombstone.
    pub(crate) fn add_changes(&self, expression: &mut Expression, update: &Update) {
        if update.deleted {
            // There is no state before, so nothing is removed or updated.
            let state = update.new_state();
            let state: HashMap<_, _> = state
                .map(|(name, value)| (name.clone(), value.clone().into()))
                .collect();
            match state.is_empty() {
                true => rules::remove(expression, "#state"),
                false => assign(expression, "#state = :state", Value::M(state)),
            }
            let mut changes = update.changes.clone();
            changes.retain(|name, _| !attribution::is_state(name));
            expression.changes(&changes).remove_fitting(&self.ended);
            return;
        }
        match &self.tombstone {
            None => {}
            Some(Tombstone { token: None, .. }) => rules::NONE_STAGED.add_to(expression),
            Some(Tombstone { token: Some(token), .. }) => {
                expression.value(":staged", token.clone().into());
                rules::SAME_STAGED.add_to(expression);
            }
        }
        if self.staged.is_empty() {
            expression.changes(&update.changes);
        } else {
            let mut changes = update.changes.clone();
            changes.retain(|name, _| !self.staged.contains(name));
            expression.changes(&changes);
        }
        expression.remove_names(&self.ended);
    }

    /// Returns the names of the attributes to remove.
    pub(crate) fn ended(&self) -> &[String] {
        &self.ended
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use shared::config::Ordering;

    use super::*;

    #[test]
    fn an_update_after_a_deletion_takes_over_no_attributes_that_a_restore_stages_meanwhile() {
        let tombstone = |token: Option<&str>| -> Item {
            let mut item = json!({"Latest": {"N": "3"}, "RecordedVersion": {"N": "3"}, "Deleted": {"BOOL": true}});
            if let Some(token) = token {
                item["TombstoneStaged"] = json!({"S": token});
            }
            serde_json::from_value::<Item>(item).unwrap()
        };
        let update = |event: Value| Update::parse(event, "r", Ordering::Arrival).unwrap();
        let change = update(json!({"ID": "E", "A": 1}));
        let deletion = update(json!({"ID": "E", "Deleted": true}));
        for read in [None, Some("t-0")] {
            for stored in [None, Some("t-0"), Some("t-1")] {
                let holds = |update: &Update| {
                    let lifetime = Lifetime::fitting(update, Some(&tombstone(read)));
                    let part = |expression: &mut Expression| {
                        lifetime.add_to(expression, update);
                        lifetime.add_changes(expression, update);
                    };
                    rules::hold(part, Some(&tombstone(stored)))
                };
                assert_eq!(holds(&change), read == stored, "{read:?} {stored:?}");
                // The rest is not part of a deletion.
                assert!(holds(&deletion));
            }
        }
    }
}
