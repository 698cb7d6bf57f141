//! Numbers as DynamoDB has them: decimal, with at most 38 significant digits, and never through a float.

use thiserror::Error;

/// The most significant digits of a number.
pub const MAX_DIGITS: usize = 38;
/// The longest text of a number, in bytes. What DynamoDB holds takes 171 at most, the rest is zeros; a million of them
/// keep Amazon's DynamoDB Local busy for more than a minute.
pub const MAX_TEXT_BYTES: usize = 1000;
/// The exponent of the largest number, `9.99…e125`.
const MAX_EXPONENT: i64 = 125;
/// The exponent of the smallest number that is not zero, `1e-130`.
const MIN_EXPONENT: i64 = -130;

/// A number in the one form that equal numbers share, whatever way they were written.
///
/// ```
/// use shared::domain::number::Decimal;
///
/// assert_eq!(Decimal::parse("1.50"), Decimal::parse("15e-1"));
/// assert_eq!(Decimal::parse("7.0").unwrap().to_u64(), Some(7));
/// assert_eq!(Decimal::parse("7.5").unwrap().to_u64(), None);
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Decimal {
    negative: bool,
    /// The significant digits, without zeros on either side; empty for zero.
    digits: String,
    /// The power of ten of the first digit; 0 for zero.
    exponent: i64,
}

impl Decimal {
    /// One text for each number, however it was written.
    pub fn canonical(&self) -> String {
        let sign = if self.negative { "-" } else { "" };
        format!("{sign}{}e{}", self.digits, self.exponent)
    }

    /// Reads a number in the notation of DynamoDB and JSON: digits, a point, an exponent.
    pub fn parse(text: &str) -> Result<Self, InvalidNumber> {
        if text.len() > MAX_TEXT_BYTES {
            return Err(InvalidNumber::TooLong { bytes: text.len() });
        }
        let (negative, unsigned) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        let (mantissa, power) = match unsigned.split_once(['e', 'E']) {
            Some((mantissa, power)) => (mantissa, exponent(power)?),
            None => (unsigned, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        if whole.len() + fraction.len() == 0 || !(whole.bytes().chain(fraction.bytes())).all(|b| b.is_ascii_digit()) {
            return Err(InvalidNumber::NotANumber);
        }
        let all = format!("{whole}{fraction}");
        let leading = all.len() - all.trim_start_matches('0').len();
        let digits = all.trim_matches('0').to_owned();
        if digits.is_empty() {
            return Ok(Self {
                negative: false,
                digits,
                exponent: 0,
            });
        }
        let exponent = as_i64(whole.len()) - as_i64(leading) - 1 + power;
        if digits.len() > MAX_DIGITS {
            return Err(InvalidNumber::TooManyDigits { digits: digits.len() });
        }
        if !(MIN_EXPONENT..=MAX_EXPONENT).contains(&exponent) {
            return Err(InvalidNumber::OutOfRange);
        }
        Ok(Self {
            negative,
            digits,
            exponent,
        })
    }

    /// The number as a whole number, if it is one from 0 to [`u64::MAX`].
    pub fn to_u64(&self) -> Option<u64> {
        if self.digits.is_empty() {
            return Some(0);
        }
        if self.negative || !self.is_whole() {
            return None;
        }
        let length = usize::try_from(self.exponent).ok()? + 1;
        format!("{:0<length$}", self.digits).parse().ok()
    }

    /// The number as a whole number, if it is one that an `i64` holds.
    pub fn to_i64(&self) -> Option<i64> {
        if !self.negative {
            return self.to_u64()?.try_into().ok();
        }
        let magnitude = Self {
            negative: false,
            ..self.clone()
        };
        0i64.checked_sub_unsigned(magnitude.to_u64()?)
    }

    /// Whether nothing stands behind the point.
    pub fn is_whole(&self) -> bool {
        self.digits.is_empty() || self.exponent + 1 >= as_i64(self.digits.len())
    }

    /// The bytes it takes in an item: one, one for a sign, and one for every two digits on either side of the point; 21 at
    /// most.
    pub fn bytes(&self) -> usize {
        let digits = self.digits.len();
        let whole = usize::try_from(self.exponent + 1).unwrap_or(0).min(digits);
        let bytes = 1 + usize::from(self.negative) + whole.div_ceil(2) + (digits - whole).div_ceil(2);
        bytes.min(21)
    }

    /// Whether the number is below zero.
    pub fn is_negative(&self) -> bool {
        self.negative
    }
}

// A number is an attribute value.
impl std::fmt::Debug for Decimal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Decimal(..)")
    }
}

/// Reads the part behind the `e`. One too long for an `i64` is far out of range either way.
fn exponent(text: &str) -> Result<i64, InvalidNumber> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(InvalidNumber::NotANumber);
    }
    let magnitude: i64 = digits
        .trim_start_matches('0')
        .parse()
        .unwrap_or(match digits.trim_start_matches('0') {
            "" => 0,
            _ => i64::from(i32::MAX),
        });
    let magnitude = magnitude.min(i64::from(i32::MAX));
    Ok(if text.starts_with('-') { -magnitude } else { magnitude })
}

fn as_i64(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

/// Why a text is not a number that DynamoDB holds exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum InvalidNumber {
    /// Not in the notation of a number.
    #[error("it is not a number")]
    NotANumber,
    /// Longer than [`MAX_TEXT_BYTES`].
    #[error("it is written in {bytes} bytes, and {MAX_TEXT_BYTES} are allowed")]
    TooLong {
        /// How many.
        bytes: usize,
    },
    /// More than [`MAX_DIGITS`]: DynamoDB refuses it, and to round it would change it.
    #[error("it has {digits} significant digits, and {MAX_DIGITS} are allowed")]
    TooManyDigits {
        /// How many it has.
        digits: usize,
    },
    /// Not zero, and outside 1e-130 to 9.99…e125.
    #[error("its magnitude is outside 1e-130 to 9.99e125")]
    OutOfRange,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn equal_numbers_have_one_form() {
        for (a, b) in [
            ("0", "-0.00e7"),
            ("1", "1.0"),
            ("100", "1e2"),
            ("0.001", "1E-3"),
            ("+5", "5"),
            (
                "12345678901234567890123456789012345678",
                "1.2345678901234567890123456789012345678e37",
            ),
            ("1e0000000000000000000000002", "100"),
        ] {
            assert_eq!(Decimal::parse(a).unwrap(), Decimal::parse(b).unwrap(), "{a} = {b}");
        }
        assert_ne!(Decimal::parse("1").unwrap(), Decimal::parse("-1").unwrap());
        assert_ne!(Decimal::parse("1").unwrap(), Decimal::parse("10").unwrap());
    }

    #[test]
    fn what_dynamodb_does_not_hold() {
        use InvalidNumber::{NotANumber, OutOfRange, TooManyDigits};
        for (text, why) in [
            ("", NotANumber),
            ("-", NotANumber),
            (".", NotANumber),
            ("1e", NotANumber),
            ("1e+", NotANumber),
            ("abc", NotANumber),
            ("1_000", NotANumber),
            ("0x10", NotANumber),
            ("NaN", NotANumber),
            ("é1", NotANumber),
            ("123456789012345678901234567890123456789", TooManyDigits { digits: 39 }),
            ("1e126", OutOfRange),
            ("1e-131", OutOfRange),
            ("1e99999999999999999999999", OutOfRange),
        ] {
            assert_eq!(Decimal::parse(text).unwrap_err(), why, "{text}");
        }
        for text in [
            "9.9e125",
            "1e-130",
            "0e999",
            "1234567890123456789012345678901234567800000",
        ] {
            assert!(Decimal::parse(text).is_ok(), "{text}");
        }
        let zeros = |count: usize| format!("1.{}", "0".repeat(count - 2));
        assert!(Decimal::parse(&zeros(1000)).is_ok());
        assert_eq!(
            Decimal::parse(&zeros(1001)),
            Err(InvalidNumber::TooLong { bytes: 1001 })
        );
    }

    /// As measured on Amazon's DynamoDB Local.
    #[test]
    fn the_bytes_of_a_number() {
        for (text, bytes) in [
            ("0", 1),
            ("-0", 1),
            ("1", 2),
            ("12", 2),
            ("123", 3),
            ("100", 2),
            ("-1", 3),
            ("-12", 3),
            ("0.1", 2),
            ("0.12", 2),
            ("1.5", 3),
            ("12.5", 3),
            ("1E125", 2),
            ("1600000000", 2),
            ("1604261041", 6),
            ("11111111111111111111111111111111111111", 20),
            ("-11111111111111111111111111111111111111", 21),
            ("1111111111111111111.1111111111111111111", 21),
            ("-1111111111111111111.1111111111111111111", 21),
            ("-111111111111111111.11111111111111111111", 21),
            ("1.001", 4),
            ("-100.5", 5),
            ("0.01", 2),
        ] {
            assert_eq!(Decimal::parse(text).unwrap().bytes(), bytes, "{text}");
        }
    }

    #[test]
    fn whole_numbers() {
        for (text, number) in [
            ("0", Some(0)),
            ("7", Some(7)),
            ("7.0", Some(7)),
            ("1E1", Some(10)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("0.5", None),
            ("7.5", None),
            ("-1", None),
        ] {
            assert_eq!(Decimal::parse(text).unwrap().to_u64(), number, "{text}");
        }
        assert_eq!(Decimal::parse("-9223372036854775808").unwrap().to_i64(), Some(i64::MIN));
        assert_eq!(Decimal::parse("9223372036854775808").unwrap().to_i64(), None);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC*") {
            let _ = Decimal::parse(&text);
        }

        #[test]
        fn whole_numbers_round_trip(number: u64) {
            prop_assert_eq!(Decimal::parse(&number.to_string()).unwrap().to_u64(), Some(number));
        }

        #[test]
        fn moving_the_point_changes_nothing(digits in "[1-9][0-9]{0,20}", shift in -30i64..30) {
            let moved = format!("{digits}{}e{}", "0".repeat(3), shift - 3);
            prop_assert_eq!(Decimal::parse(&moved).unwrap(), Decimal::parse(&format!("{digits}e{shift}")).unwrap());
        }
    }
}
