//! Canonical bytes of a value: equal values have equal bytes, different values have different bytes.

use shared::domain::{AttributeValue, number::Decimal};

use super::{FormatError, put_bytes, put_length};

/// Maximum depth of lists and maps in each other: the one of DynamoDB, and a list around a map that is one member.
const MAX_DEPTH: usize = 33;

/// Returns the canonical bytes of a value.
///
/// # Errors
///
/// The value cannot be stored in DynamoDB.
pub fn canonical(value: &AttributeValue) -> Result<Vec<u8>, FormatError> {
    let mut out = Vec::new();
    put_value(value, 0, &mut out)?;
    Ok(out)
}

fn put_value(value: &AttributeValue, depth: usize, out: &mut Vec<u8>) -> Result<(), FormatError> {
    if depth == MAX_DEPTH && matches!(value, AttributeValue::L(_) | AttributeValue::M(_)) {
        return Err(FormatError::TooDeep);
    }
    match value {
        AttributeValue::S(text) => put_tagged(b'S', text.as_bytes(), out),
        AttributeValue::N(text) => put_tagged(b'N', number(text)?.as_bytes(), out),
        AttributeValue::B(bytes) => put_tagged(b'B', bytes, out),
        AttributeValue::Bool(value) => {
            out.push(if *value { b'T' } else { b'F' });
            Ok(())
        }
        AttributeValue::Null(_) => {
            out.push(b'0');
            Ok(())
        }
        AttributeValue::Ss(texts) => put_set(b's', texts.iter().map(|text| text.clone().into_bytes()).collect(), out),
        AttributeValue::Ns(numbers) => {
            let numbers = numbers.iter().map(|text| number(text).map(String::into_bytes));
            put_set(b'n', numbers.collect::<Result<_, _>>()?, out)
        }
        AttributeValue::Bs(all) => put_set(b'b', all.clone(), out),
        AttributeValue::L(values) => {
            out.push(b'L');
            put_length(values.len(), out)?;
            values.iter().try_for_each(|value| put_value(value, depth + 1, out))
        }
        AttributeValue::M(map) => {
            let mut members: Vec<_> = map.iter().collect();
            members.sort_unstable_by_key(|(name, _)| name.as_bytes());
            out.push(b'M');
            put_length(members.len(), out)?;
            members.into_iter().try_for_each(|(name, value)| {
                put_bytes(name.as_bytes(), out)?;
                put_value(value, depth + 1, out)
            })
        }
    }
}

fn put_tagged(tag: u8, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), FormatError> {
    out.push(tag);
    put_bytes(bytes, out)
}

fn put_set(tag: u8, mut elements: Vec<Vec<u8>>, out: &mut Vec<u8>) -> Result<(), FormatError> {
    elements.sort_unstable();
    if elements.is_empty() {
        return Err(FormatError::EmptySet);
    }
    if elements.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(FormatError::Duplicate);
    }
    out.push(tag);
    put_length(elements.len(), out)?;
    elements.iter().try_for_each(|element| put_bytes(element, out))
}

fn number(text: &str) -> Result<String, FormatError> {
    Decimal::parse(text)
        .map(|number| number.canonical())
        .map_err(|_| FormatError::Number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(value: &AttributeValue) -> String {
        let bytes = canonical(value).unwrap();
        bytes.escape_ascii().to_string().replace("\\x00\\x00\\x00", "~")
    }

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn each_type_has_its_bytes() {
        use AttributeValue::{B, Bool, Bs, L, M, N, Ns, Null, S, Ss};
        let map = M([("b", Null(true)), ("a", Bool(false)), ("é", L(vec![]))]
            .map(|(name, value)| (name.to_owned(), value))
            .into());
        for (value, expected) in [
            (S("on".to_owned()), r"S~\x02on"),
            (S(String::new()), r"S~\x00"),
            (N("-0012.50".to_owned()), r"N~\x06-125e1"),
            (N("0.00".to_owned()), r"N~\x02e0"),
            (N("1E+3".to_owned()), r"N~\x031e3"),
            (B(vec![0, 255]), r"B~\x02\x00\xff"),
            (Bool(true), "T"),
            (Bool(false), "F"),
            (Null(true), "0"),
            (Ss(texts(&["b", "a", "aa"])), r"s~\x03~\x01a~\x02aa~\x01b"),
            (Ns(texts(&["10", "9.0"])), r"n~\x02~\x031e1~\x039e0"),
            (Bs(vec![vec![2], vec![1]]), r"b~\x02~\x01\x02"),
            (L(vec![Null(true), S("x".to_owned())]), r"L~\x020S~\x01x"),
            (map, r"M~\x03~\x01aF~\x01b0~\x02\xc3\xa9L~\x00"),
        ] {
            // The first element of the set of bytes is one of the replaced zeros.
            let expected = expected.replace(r"b~\x02~\x01\x02", r"b~\x02~\x01\x01~\x01\x02");
            assert_eq!(bytes(&value), expected);
        }
    }

    #[test]
    fn values_without_a_canonical_form_are_errors() {
        let nested = |levels| (0..levels).fold(AttributeValue::Null(true), |value, _| AttributeValue::L(vec![value]));
        assert!(canonical(&nested(MAX_DEPTH)).is_ok());
        for (value, error) in [
            (AttributeValue::N("NaN".to_owned()), FormatError::Number),
            (AttributeValue::N("1e126".to_owned()), FormatError::Number),
            (AttributeValue::Ns(texts(&["1", "1.0"])), FormatError::Duplicate),
            (AttributeValue::Ss(texts(&["a", "a"])), FormatError::Duplicate),
            (AttributeValue::Bs(Vec::new()), FormatError::EmptySet),
            (nested(MAX_DEPTH + 1), FormatError::TooDeep),
        ] {
            assert_eq!(canonical(&value), Err(error));
        }
    }
}
