//! An update expression with its condition, and the names and values that both refer to.
//!
//! `UpdateItem` and the update of a transaction take the same four parts, but the SDK has a builder type for each. An
//! [`Expression`] is built once and applied to any of them.

use std::collections::{BTreeMap, HashMap};

use aws_sdk_dynamodb::{
    operation::update_item::builders::UpdateItemInputBuilder,
    types::{AttributeValue, builders::UpdateBuilder},
};

use crate::{
    domain::{self, Item, change::Change, names},
    dynamodb::condition::{Condition, Placeholders},
};

/// Maximum length of an expression in bytes, see
/// [Constraints](https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html).
pub const MAX_BYTES: usize = 4096;
/// Maximum number of operators and functions in an expression, see the same page.
pub const MAX_OPERATORS: usize = 300;

/// The clauses of an update expression, the parts of its condition, and their placeholders.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Expression {
    set: Vec<String>,
    remove: Vec<String>,
    /// Parts of the condition, each with its [place](Self::require).
    condition: Vec<(usize, Part)>,
    /// Paths of the maps whose members change.
    maps: Vec<String>,
    names: HashMap<String, String>,
    values: HashMap<String, AttributeValue>,
    /// Number of attributes of [`Self::remove_names`].
    removed_names: usize,
}

/// Part of a condition.
#[derive(Debug, Clone, PartialEq)]
enum Part {
    Text(String),
    Value(Condition),
}

/// Sets the four parts on a builder of the SDK.
macro_rules! apply {
    ($expression:expr, $builder:expr) => {
        $builder
            .set_update_expression($expression.update())
            .set_condition_expression($expression.joined_condition())
            .set_expression_attribute_names(non_empty($expression.names))
            .set_expression_attribute_values(non_empty($expression.values))
    };
}

impl Expression {
    /// Returns the condition that there is no item.
    pub fn absent() -> Self {
        let mut absent = Self::default();
        absent.condition("attribute_not_exists(#pk)").name("#pk", names::PK);
        absent
    }

    /// Adds a `SET` clause, such as `#a = :a`.
    pub fn set(&mut self, clause: impl Into<String>) -> &mut Self {
        self.set.push(clause.into());
        self
    }

    /// Adds a path to `REMOVE`.
    pub fn remove(&mut self, path: impl Into<String>) -> &mut Self {
        self.remove.push(path.into());
        self
    }

    /// Adds a part at the end of the condition. All parts must hold.
    pub fn condition(&mut self, part: impl Into<String>) -> &mut Self {
        self.insert(usize::MAX, Part::Text(part.into()));
        self
    }

    /// Adds a part of the condition that [`Self::holds`] evaluates. The parts of a condition are in the order of their places.
    pub fn require(&mut self, place: usize, condition: Condition) -> &mut Self {
        self.insert(place, Part::Value(condition));
        self
    }

    /// Returns `true` if all [required](Self::require) parts of the condition hold for an item, `None` for no item.
    pub fn holds(&self, item: Option<&Item>) -> bool {
        self.condition.iter().all(|(_, part)| match part {
            Part::Text(_) => true,
            Part::Value(condition) => condition.holds(item, self),
        })
    }

    /// Defines the placeholder of an attribute name. It can be defined again only with the same name.
    pub fn name(&mut self, placeholder: impl Into<String>, name: impl Into<String>) -> &mut Self {
        define(&mut self.names, placeholder.into(), name.into());
        self
    }

    /// Defines the placeholder of a value. It can be defined again only with the same value.
    pub fn value(&mut self, placeholder: impl Into<String>, value: AttributeValue) -> &mut Self {
        define(&mut self.values, placeholder.into(), value);
        self
    }

    /// Adds all parts of another expression, which has no [changes](Self::changes).
    pub fn extend(&mut self, other: Self) {
        self.set.extend(other.set);
        self.remove.extend(other.remove);
        for (place, part) in other.condition {
            self.insert(place, part);
        }
        other
            .names
            .into_iter()
            .for_each(|(name, value)| _ = self.name(name, value));
        other
            .values
            .into_iter()
            .for_each(|(name, value)| _ = self.value(name, value));
    }

    fn insert(&mut self, place: usize, part: Part) {
        let index = self.condition.partition_point(|(before, _)| *before <= place);
        self.condition.insert(index, (place, part));
    }

    /// Adds changes of attributes. The placeholders are short, `#0` and `:0`: an expression is at most 4 KB long. A map whose members
    /// change must exist.
    pub fn changes(&mut self, changes: &BTreeMap<String, Change>) -> &mut Self {
        self.changes_in("", changes, &mut 0);
        self
    }

    /// Adds changes of the members of a map. Its path is empty for the attributes of the item, and ends with a dot otherwise.
    fn changes_in(&mut self, map: &str, changes: &BTreeMap<String, Change>, next: &mut usize) {
        for (name, change) in changes {
            let index = *next;
            *next += 1;
            self.name(format!("#{index}"), name);
            let path = format!("{map}#{index}");
            match change {
                Change::Set(value) => {
                    self.set(format!("{path}=:{index}"))
                        .value(format!(":{index}"), value.clone().into());
                }
                Change::Remove => {
                    self.remove(path);
                }
                Change::Update(members) => {
                    // A path without its map would be an error without the stored item. An inner map implies the outer ones.
                    if !members.values().any(|change| matches!(change, Change::Update(_))) {
                        if self.maps.is_empty() {
                            self.require(usize::MAX, Condition::Maps)
                                .value(":map", AttributeValue::S("M".to_owned()));
                        }
                        self.maps.push(path.clone());
                    }
                    self.changes_in(&format!("{path}."), members, next);
                }
            }
        }
    }

    /// Removes attributes.
    pub fn remove_names(&mut self, names: &[String]) -> &mut Self {
        for (index, name) in names.iter().enumerate() {
            self.remove(format!("#e{index}")).name(format!("#e{index}"), name);
        }
        self.removed_names = names.len();
        self
    }

    /// Returns the number of attributes of [`Self::remove_names`] or [`Self::remove_fitting`].
    pub fn removed_names(&self) -> usize {
        self.removed_names
    }

    /// Removes as many of the attributes as an update expression has room for.
    pub fn remove_fitting(&mut self, names: &[String]) -> &mut Self {
        // The separators of the first of them, and a comma for each.
        let length = self.update().map_or(0, |update| update.len()) + " REMOVE ".len();
        let mut room = MAX_BYTES.saturating_sub(length);
        let fits = |index: &usize| {
            let length = format!("#e{index},").len();
            let fits = length <= room;
            room = room.saturating_sub(length);
            fits
        };
        let count = (0..names.len()).take_while(fits).count();
        self.remove_names(&names[..count])
    }

    /// Adds the condition that attributes have these values.
    pub fn compare<'a>(
        &mut self,
        attributes: impl IntoIterator<Item = (&'a String, &'a domain::AttributeValue)>,
    ) -> &mut Self {
        for (index, (name, value)) in attributes.into_iter().enumerate() {
            self.condition(format!("#c{index}=:c{index}"))
                .name(format!("#c{index}"), name)
                .value(format!(":c{index}"), value.clone().into());
        }
        self
    }

    /// Returns the length of the longer one of update and condition in bytes.
    pub fn bytes(&self) -> usize {
        let length = |expression: Option<String>| expression.map_or(0, |expression| expression.len());
        length(self.update()).max(length(self.joined_condition()))
    }

    /// Returns `true` if the expressions are not longer than `DynamoDB` allows.
    pub fn fits(&self) -> bool {
        self.bytes() <= MAX_BYTES
    }

    /// Applies the expression to an `UpdateItem` request.
    pub fn apply_to_request(self, request: UpdateItemInputBuilder) -> UpdateItemInputBuilder {
        apply!(self, request)
    }

    /// Applies the expression to an update in a transaction.
    pub fn apply_to_transaction(self, update: UpdateBuilder) -> UpdateBuilder {
        apply!(self, update)
    }

    fn update(&self) -> Option<String> {
        let clause = |keyword, parts: &[String]| (!parts.is_empty()).then(|| format!("{keyword} {}", parts.join(",")));
        let clauses = [clause("SET", &self.set), clause("REMOVE", &self.remove)];
        let clauses: Vec<_> = clauses.into_iter().flatten().collect();
        (!clauses.is_empty()).then(|| clauses.join(" "))
    }

    fn joined_condition(&self) -> Option<String> {
        let parts = self.condition.iter().map(|(_, part)| match part {
            Part::Text(text) => text.clone(),
            Part::Value(Condition::Maps) => {
                let maps = self.maps.iter().map(|path| format!("attribute_type({path},:map)"));
                maps.collect::<Vec<_>>().join(" AND ")
            }
            Part::Value(condition) => condition.to_string(),
        });
        let parts: Vec<_> = parts.collect();
        (!parts.is_empty()).then(|| parts.join(" AND "))
    }
}

impl Placeholders for Expression {
    fn name_of(&self, placeholder: &str) -> Option<&str> {
        self.names.get(placeholder).map(String::as_str)
    }

    fn value_of(&self, placeholder: &str) -> Option<domain::AttributeValue> {
        self.values.get(placeholder).cloned().map(Into::into)
    }

    fn maps(&self) -> &[String] {
        &self.maps
    }
}

/// Defines a placeholder. Two meanings of one would change an expression silently.
fn define<V: PartialEq>(map: &mut HashMap<String, V>, placeholder: String, value: V) {
    debug_assert!(
        map.get(&placeholder).is_none_or(|defined| *defined == value),
        "{placeholder} has two values"
    );
    map.insert(placeholder, value);
}

fn non_empty<V>(map: HashMap<String, V>) -> Option<HashMap<String, V>> {
    Some(map).filter(|map| !map.is_empty())
}
