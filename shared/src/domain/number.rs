//! DynamoDB numbers: decimal, with at most 38 significant digits, without conversion to floating point.

use std::cmp::Ordering;

use thiserror::Error;

/// Maximum number of significant digits, see
/// [Constraints](https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html).
pub const MAX_DIGITS: usize = 38;
/// Maximum length of a number's text in bytes. A number that DynamoDB can store needs at most 171; longer texts contain only
/// additional zeros, and a million of them keep DynamoDB Local busy for more than a minute.
pub const MAX_TEXT_BYTES: usize = 1000;
/// Exponent of the largest number, `9.99…e125`.
const MAX_EXPONENT: i64 = 125;
/// Exponent of the smallest positive number, `1e-130`.
const MIN_EXPONENT: i64 = -130;

/// Number in canonical form: equal numbers are equal, however they are written.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Decimal {
    negative: bool,
    /// Significant digits without leading and trailing zeros; empty for zero.
    digits: String,
    /// Power of ten of the first digit; 0 for zero.
    exponent: i64,
}

impl Decimal {
    /// Returns the canonical text of the number.
    pub fn canonical(&self) -> String {
        let sign = if self.negative { "-" } else { "" };
        [sign, &self.digits, "e", itoa::Buffer::new().format(self.exponent)].concat()
    }

    /// Returns the sign, the significant digits without zeros around them, and the power of ten of the first digit.
    pub(super) fn parts(&self) -> (bool, &str, i64) {
        (self.negative, &self.digits, self.exponent)
    }

    /// Parses a number in the notation of DynamoDB and JSON: digits, a point, an exponent.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidNumber`] if the text is not a number, or DynamoDB cannot store it exactly.
    pub fn parse(text: &str) -> Result<Self, InvalidNumber> {
        if text.len() > MAX_TEXT_BYTES {
            return Err(InvalidNumber::TooLong(text.len()));
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
        let all = [whole, fraction].concat();
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
            return Err(InvalidNumber::TooManyDigits(digits.len()));
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

    /// Returns the number if it is a whole number from 0 to [`u64::MAX`].
    pub fn to_u64(&self) -> Option<u64> {
        self.scaled(0)?.try_into().ok()
    }

    /// Returns the number times `10^places`, if that is a whole number from 0 to [`u128::MAX`].
    pub fn scaled(&self, places: u32) -> Option<u128> {
        if self.digits.is_empty() {
            return Some(0);
        }
        let length = usize::try_from(self.exponent + i64::from(places) + 1).ok()?;
        if self.negative || length < self.digits.len() {
            return None;
        }
        format!("{:0<length$}", self.digits).parse().ok()
    }

    /// Returns the number if it is a whole number in the range of `i64`.
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

    /// Returns `true` if the number has no fraction.
    pub fn is_whole(&self) -> bool {
        self.digits.is_empty() || self.exponent + 1 >= as_i64(self.digits.len())
    }

    /// Returns the size of the number in an item: 1 byte, 1 byte for a sign, and 1 byte for every two digits on either side
    /// of the point; at most 21 bytes.
    pub fn bytes(&self) -> usize {
        let digits = self.digits.len();
        let whole = usize::try_from(self.exponent + 1).unwrap_or(0).min(digits);
        let bytes = 1 + usize::from(self.negative) + whole.div_ceil(2) + (digits - whole).div_ceil(2);
        bytes.min(21)
    }

    /// Returns `true` if the number is below zero.
    pub fn is_negative(&self) -> bool {
        self.negative
    }
}

// Numbers are attribute values, which logs must not contain.
impl std::fmt::Debug for Decimal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Decimal(..)")
    }
}

/// Parses the exponent. A value too large for an `i64` is clamped, and out of range anyway.
fn exponent(text: &str) -> Result<i64, InvalidNumber> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(InvalidNumber::NotANumber);
    }
    let max = i64::from(i32::MAX);
    let magnitude = digits.parse().unwrap_or(max).min(max);
    Ok(if text.starts_with('-') { -magnitude } else { magnitude })
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        let sign = |number: &Self| match (number.digits.is_empty(), number.negative) {
            (true, _) => 0,
            (false, true) => -1,
            (false, false) => 1,
        };
        // The digits have no leading zeros, so numbers with the same exponent are in the order of their digits.
        let magnitude = |number: &Self| (number.exponent, number.digits.clone());
        match sign(self).cmp(&sign(other)) {
            Ordering::Equal if self.negative => magnitude(other).cmp(&magnitude(self)),
            Ordering::Equal => magnitude(self).cmp(&magnitude(other)),
            different => different,
        }
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

fn as_i64(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

/// Reason why a text is not a number that DynamoDB can store exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum InvalidNumber {
    /// The text is not a number.
    #[error("it is not a number")]
    NotANumber,
    /// The text is longer than [`MAX_TEXT_BYTES`].
    #[error("it is written in {0} bytes, and {MAX_TEXT_BYTES} are allowed")]
    TooLong(usize),
    /// The number has more than [`MAX_DIGITS`] digits. DynamoDB rejects it, and rounding would change it.
    #[error("it has {0} significant digits, and {MAX_DIGITS} are allowed")]
    TooManyDigits(usize),
    /// The number is not zero, and outside 1e-130 to 9.99…e125.
    #[error("its magnitude is outside 1e-130 to 9.99e125")]
    OutOfRange,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn number(text: &str) -> Decimal {
        Decimal::parse(text).unwrap()
    }

    #[test]
    fn numbers_are_ordered_by_value() {
        let sorted = "-1e100 -12 -1.5 -1 0 1e-5 0.5 1 1.5 9 10 15 123 1e30"
            .split(' ')
            .map(number);
        let sorted: Vec<_> = sorted.collect();
        for (index, number) in sorted.iter().enumerate() {
            for (other, another) in sorted.iter().enumerate() {
                assert_eq!(number.cmp(another), index.cmp(&other), "{index} {other}");
            }
        }
    }

    #[test]
    fn equal_numbers_have_one_form() {
        let digits = "12345678901234567890123456789012345678";
        for (a, b) in [
            ("0", "-0.00e7"),
            ("1", "1.0"),
            ("100", "1e2"),
            ("0.001", "1E-3"),
            ("+5", "5"),
            (digits, "1.2345678901234567890123456789012345678e37"),
            ("1e0000000000000000000000002", "100"),
        ] {
            assert_eq!(number(a), number(b), "{a} = {b}");
        }
        assert!(number("1") != number("-1") && number("1") != number("10"));
    }

    #[test]
    fn invalid_numbers() {
        use InvalidNumber::{NotANumber, OutOfRange, TooLong, TooManyDigits};
        for text in ["", "-", ".", "1e", "1e+", "abc", "1_000", "0x10", "NaN", "é1"] {
            assert_eq!(Decimal::parse(text), Err(NotANumber), "{text}");
        }
        for text in ["1e126", "1e-131", "1e99999999999999999999999"] {
            assert_eq!(Decimal::parse(text), Err(OutOfRange), "{text}");
        }
        let long = "123456789012345678901234567890123456789";
        assert_eq!(Decimal::parse(long), Err(TooManyDigits(39)));
        let zeros = |count: usize| format!("1.{}", "0".repeat(count - 2));
        assert_eq!(Decimal::parse(&zeros(1001)), Err(TooLong(1001)));
        for text in [
            "9.9e125",
            "1e-130",
            "0e999",
            "1234567890123456789012345678901234567800000",
            &zeros(1000),
        ] {
            assert!(Decimal::parse(text).is_ok(), "{text}");
        }
    }

    /// As measured on Amazon's DynamoDB Local.
    #[test]
    fn the_bytes_of_a_number() {
        for (bytes, numbers) in [
            (1, "0 -0"),
            (2, "1 12 100 0.1 0.12 0.01 1E125 1600000000"),
            (3, "123 -1 -12 1.5 12.5"),
            (4, "1.001"),
            (5, "-100.5"),
            (6, "1604261041"),
            (20, "11111111111111111111111111111111111111"),
            (
                21,
                "-11111111111111111111111111111111111111 1111111111111111111.1111111111111111111",
            ),
            (
                21,
                "-1111111111111111111.1111111111111111111 -111111111111111111.11111111111111111111",
            ),
        ] {
            for text in numbers.split(' ') {
                assert_eq!(number(text).bytes(), bytes, "{text}");
            }
        }
    }

    #[test]
    fn whole_numbers() {
        for (text, whole) in [
            ("0", Some(0)),
            ("7", Some(7)),
            ("7.0", Some(7)),
            ("1E1", Some(10)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("1e100", None),
            ("0.5", None),
            ("7.5", None),
            ("-1", None),
        ] {
            assert_eq!(number(text).to_u64(), whole, "{text}");
        }
        assert_eq!(number("0.25").scaled(2), Some(25));
        assert_eq!(number("-9223372036854775808").to_i64(), Some(i64::MIN));
        assert_eq!(number("9223372036854775808").to_i64(), None);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC*") {
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
