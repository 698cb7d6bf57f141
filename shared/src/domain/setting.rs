//! Settings as text: a choice by its name, and a number within bounds.

use thiserror::Error;

/// The text is not a value of the setting. The message names the values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct InvalidSetting(pub(crate) &'static str);

/// Implements the parser of a type whose values have names.
macro_rules! choice {
    ($kind:ty, $expected:literal, $($name:literal => $value:expr),+) => {
        impl std::str::FromStr for $kind {
            type Err = $crate::domain::setting::InvalidSetting;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match text {
                    $($name => Ok($value),)+
                    _ => Err($crate::domain::setting::InvalidSetting($expected)),
                }
            }
        }
    };
}

/// Implements the text of a number whose function `$new` checks the bounds.
macro_rules! bounded {
    ($kind:ty, $new:path, $expected:literal) => {
        impl std::fmt::Display for $kind {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }

        impl std::str::FromStr for $kind {
            type Err = $crate::domain::setting::InvalidSetting;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let number = text.parse().ok().and_then($new);
                number.ok_or($crate::domain::setting::InvalidSetting($expected))
            }
        }
    };
}

pub(crate) use {bounded, choice};
