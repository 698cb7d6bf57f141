//! Name and type of a key attribute, and the form of numbers in keys.

use std::fmt;

use crate::domain::{
    number::{Decimal, MAX_DIGITS},
    setting::choice,
};

/// Name and type of a key attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyAttribute {
    /// Name.
    pub name: String,
    /// Type.
    pub kind: KeyType,
}

impl KeyAttribute {
    /// Creates a key attribute.
    pub fn new(name: impl Into<String>, kind: KeyType) -> Self {
        Self {
            name: name.into(),
            kind,
        }
    }
}

/// Type of a key attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyType {
    /// Text.
    S,
    /// Number.
    N,
    /// Bytes.
    B,
}

choice!(KeyType, "the type of a key attribute is S, N or B", "S" => Self::S, "N" => Self::N, "B" => Self::B);

impl KeyType {
    /// Returns the name of the type in DynamoDB JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::S => "S",
            Self::N => "N",
            Self::B => "B",
        }
    }
}

impl fmt::Display for KeyType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Returns the text of a number: equal numbers have equal texts, and each is a JSON number. Numbers whose plain digits, with
/// zeros, are at most 38 are written so, as DynamoDB does; others in scientific notation: `1e100`, `-1.5e-70`.
pub fn number_text(number: &Decimal) -> String {
    let (negative, digits, exponent) = number.parts();
    let sign = if negative { "-" } else { "" };
    if digits.is_empty() {
        return "0".to_owned();
    }
    let length = digits.len();
    let places = usize::try_from(exponent.unsigned_abs()).unwrap_or(usize::MAX);
    if exponent >= 0 {
        let whole = places.saturating_add(1);
        if whole.max(length) <= MAX_DIGITS {
            return match length > whole {
                true => format!("{sign}{}.{}", &digits[..whole], &digits[whole..]),
                false => format!("{sign}{digits:0<whole$}"),
            };
        }
    } else {
        let fraction = (places - 1).saturating_add(length);
        if fraction <= MAX_DIGITS {
            return format!("{sign}0.{digits:0>fraction$}");
        }
    }
    let (first, rest) = digits.split_at(1);
    let point = if rest.is_empty() { "" } else { "." };
    format!("{sign}{first}{point}{rest}e{exponent}")
}
