//! JSON text without the white space between its parts.

/// Removes white space outside of strings.
pub(super) fn compact(text: &str) -> String {
    let (mut in_string, mut escaped) = (false, false);
    text.chars()
        .filter(|character| {
            let is_part = in_string || !matches!(character, ' ' | '\t' | '\n' | '\r');
            match character {
                _ if escaped => escaped = false,
                '\\' if in_string => escaped = true,
                '"' => in_string = !in_string,
                _ => {}
            }
            is_part
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::compact;

    #[test]
    fn white_space_of_strings_is_kept() {
        for (text, expected) in [
            ("{ \"a b\" :\n [1,\t2] }\r\n", r#"{"a b":[1,2]}"#),
            (r#" "a \" b" , "c \\" , " d" "#, r#""a \" b","c \\"," d""#),
            ("\"\u{a0} é\" ", "\"\u{a0} é\""),
        ] {
            assert_eq!(compact(text), expected);
        }
    }
}
