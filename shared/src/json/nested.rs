//! Objects, and parts of them, that are read in one pass over their text. [`members`] and [`elements`] of a part scan its text again.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor},
};
use serde_json::value::RawValue;

use super::{InvalidJson, Members, elements, members};

/// Returns an object and the objects in it that the shape names. [`members`] would scan the text of an inner object once for each level.
///
/// # Errors
///
/// Returns [`InvalidJson`] if the text is not an object, or one of these members is neither an object nor `null`.
pub fn nested(text: &str, shape: Shape) -> Result<Nested<'_>, InvalidJson> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let nested = shape.deserialize(&mut deserializer);
    let nested = nested.and_then(|nested| deserializer.end().map(|()| nested));
    nested.map_err(|error| InvalidJson::new(&error, "an object"))
}

/// Returns the elements of a list that is a member of an object, as text, `None` if there is no such member.
///
/// # Errors
///
/// Returns [`InvalidJson`] if the text is not an object, or the member is not a list.
pub fn elements_of<'a>(text: &'a str, name: &str) -> Result<Option<Vec<&'a str>>, InvalidJson> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let list = ListOf(name).deserialize(&mut deserializer);
    match list.and_then(|list| deserializer.end().map(|()| list)) {
        Ok(list) => Ok(list),
        // An earlier member with this name need not be a list.
        Err(_) => members(text)?.get(name).map(elements).transpose(),
    }
}

/// Name of a member, borrowed unless it has escapes.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

/// Names of the members that are objects, with the shape of each.
#[derive(Debug, Clone, Copy)]
pub struct Shape(pub &'static [(&'static str, Self)]);

/// Members of an object as text, except for the members that a [`Shape`] names.
#[derive(Debug, Clone, Default)]
pub struct Nested<'a> {
    /// All other members.
    pub members: Members<'a>,
    objects: Vec<(&'static str, Option<Self>)>,
}

impl Nested<'_> {
    /// Removes and returns an object that the shape names, `None` if it is missing or `null`.
    pub fn take(&mut self, name: &str) -> Option<Self> {
        let found = self.objects.iter().rposition(|(other, _)| *other == name);
        found.and_then(|index| self.objects.swap_remove(index).1)
    }
}

impl<'de> DeserializeSeed<'de> for Shape {
    type Value = Nested<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Shape {
    type Value = Nested<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Self::Value, A::Error> {
        let mut nested = Nested::default();
        while let Some(Name(name)) = object.next_key()? {
            match self.0.iter().find(|(inner, _)| *inner == name) {
                Some((inner, shape)) => nested.objects.push((inner, object.next_value_seed(OrNull(*shape))?)),
                None => nested.members.0.push((name, object.next_value::<&RawValue>()?.get())),
            }
        }
        Ok(nested)
    }
}

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Shape(&[]).deserialize(deserializer)?.members)
    }
}

/// An object of this shape, or `null`.
struct OrNull(Shape);

impl<'de> DeserializeSeed<'de> for OrNull {
    type Value = Option<Nested<'de>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de> Visitor<'de> for OrNull {
    type Value = Option<Nested<'de>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or null")
    }

    fn visit_none<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        self.0.deserialize(deserializer).map(Some)
    }
}

/// The elements of the list with this name.
struct ListOf<'n>(&'n str);

impl<'de> DeserializeSeed<'de> for ListOf<'_> {
    type Value = Option<Vec<&'de str>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for ListOf<'_> {
    type Value = Option<Vec<&'de str>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(Name(name)) = object.next_key()? {
            if name == self.0 {
                let elements: Vec<&RawValue> = object.next_value()?;
                found = Some(elements.into_iter().map(RawValue::get).collect());
            } else {
                object.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}
