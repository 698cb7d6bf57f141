//! Conditions as values: one function renders the text that DynamoDB evaluates, another one evaluates a condition on an item that is
//! known, such as the one that DynamoDB returns with a conditional check failure.
//!
//! Attributes and values are placeholders, `#latest` and `:expected`, which the [expression](super::expression) of a request defines.
//! So a condition is a constant: a rule is stated once, and has a name.

use std::{cmp::Ordering, fmt};

use Condition::{Absent, All, Any, Compare, Exists, Maps, Not, Smaller};

use crate::domain::{AttributeValue, Item, attributes::same_value, number::Decimal};

/// Condition on a stored item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// The item has the attribute at this path.
    Exists(&'static str),
    /// The item does not have the attribute at this path.
    Absent(&'static str),
    /// The attribute at this path compares with a value.
    Compare(&'static str, Comparison, &'static str),
    /// The map at this path has fewer members than a value.
    Smaller(&'static str, &'static str),
    /// Each path whose members the expression changes is a map. An expression with such changes requires it by itself.
    Maps,
    /// The condition does not hold.
    Not(&'static Condition),
    /// All conditions hold.
    All(&'static [Condition]),
    /// At least one of the conditions holds.
    Any(&'static [Condition]),
}

/// Comparison of an attribute with a value. Without the attribute, or with a value of another type, only [`Self::IsNot`] can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// `=`
    Is,
    /// `<>`
    IsNot,
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>=`
    AtLeast,
}

/// Names and values of placeholders.
pub trait Placeholders {
    /// Returns the attribute name of a placeholder such as `#latest`.
    fn name_of(&self, placeholder: &str) -> Option<&str>;
    /// Returns the value of a placeholder such as `:expected`.
    fn value_of(&self, placeholder: &str) -> Option<AttributeValue>;
    /// Returns the paths of the maps whose members change.
    fn maps(&self) -> &[String];
}

impl Condition {
    /// Returns `true` if the condition holds for an item, `None` for no item.
    pub fn holds(&self, item: Option<&Item>, placeholders: &impl Placeholders) -> bool {
        let at = |path: &str| {
            let mut names = path.split('.').map(|name| placeholders.name_of(name));
            let attribute = item?.get(names.next()??)?;
            names.try_fold(attribute, |attribute, name| match attribute {
                AttributeValue::M(members) => members.get(name?),
                _ => None,
            })
        };
        match self {
            Exists(path) => at(path).is_some(),
            Absent(path) => at(path).is_none(),
            Compare(path, comparison, value) => at(path)
                .zip(placeholders.value_of(value))
                .is_some_and(|(stored, value)| comparison.holds(stored, &value)),
            Smaller(path, value) => match (at(path), placeholders.value_of(value)) {
                (Some(AttributeValue::M(members)), Some(value)) => {
                    Comparison::Less.holds(&AttributeValue::N(members.len().to_string()), &value)
                }
                _ => false,
            },
            Maps => {
                let mut maps = placeholders.maps().iter();
                maps.all(|path| matches!(at(path), Some(AttributeValue::M(_))))
            }
            Not(condition) => !condition.holds(item, placeholders),
            All(conditions) => conditions.iter().all(|condition| condition.holds(item, placeholders)),
            Any(conditions) => conditions.iter().any(|condition| condition.holds(item, placeholders)),
        }
    }

    /// Calls a function with each path of the condition.
    pub fn each_path(&self, visit: &mut impl FnMut(&'static str)) {
        match self {
            Exists(path) | Absent(path) | Compare(path, ..) | Smaller(path, _) => visit(path),
            Maps => {}
            Not(condition) => condition.each_path(visit),
            All(conditions) | Any(conditions) => conditions.iter().for_each(|condition| condition.each_path(visit)),
        }
    }
}

impl Comparison {
    fn holds(self, stored: &AttributeValue, value: &AttributeValue) -> bool {
        match self {
            Self::Is => same_value(stored, value),
            Self::IsNot => !same_value(stored, value),
            Self::Less => order(stored, value).is_some_and(Ordering::is_lt),
            Self::AtMost => order(stored, value).is_some_and(Ordering::is_le),
            Self::AtLeast => order(stored, value).is_some_and(Ordering::is_ge),
        }
    }
}

/// Returns the order of two values of the same type, numbers or strings.
fn order(a: &AttributeValue, b: &AttributeValue) -> Option<Ordering> {
    match (a, b) {
        (AttributeValue::N(a), AttributeValue::N(b)) => Some(Decimal::parse(a).ok()?.cmp(&Decimal::parse(b).ok()?)),
        (AttributeValue::S(a), AttributeValue::S(b)) => Some(a.cmp(b)),
        _ => None,
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Is => "=",
            Self::IsNot => "<>",
            Self::Less => "<",
            Self::AtMost => "<=",
            Self::AtLeast => ">=",
        })
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let joined = |f: &mut fmt::Formatter<'_>, conditions: &[Condition], word: &str| {
            for (index, condition) in conditions.iter().enumerate() {
                f.write_str(if index == 0 { "" } else { word })?;
                match condition {
                    All(_) => write!(f, "({condition})")?,
                    _ => write!(f, "{condition}")?,
                }
            }
            Ok(())
        };
        match self {
            Exists(path) => write!(f, "attribute_exists({path})"),
            Absent(path) => write!(f, "attribute_not_exists({path})"),
            Compare(path, comparison, value) => write!(f, "{path} {comparison} {value}"),
            Smaller(path, value) => write!(f, "size({path}) < {value}"),
            Maps => f.write_str("attribute_type(#map,:map)"),
            Not(condition) => write!(f, "NOT {condition}"),
            All(conditions) => joined(f, conditions, " AND "),
            Any(conditions) => {
                f.write_str("(")?;
                joined(f, conditions, " OR ")?;
                f.write_str(")")
            }
        }
    }
}
