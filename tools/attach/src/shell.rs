//! Arguments of the commands that are suggested to an operator.

/// Returns a text as one argument of a POSIX shell, in quotes if it needs them.
pub fn argument(text: &str) -> String {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "#:._-/@%+=,".contains(character);
    // A number sign at the start begins a comment.
    match !text.is_empty() && !text.starts_with('#') && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::argument;

    #[test]
    fn each_text_is_one_argument() {
        for (text, expected) in [
            ("quarantine:Equipment#1", "quarantine:Equipment#1"),
            ("", "''"),
            ("#1", "'#1'"),
            ("a b", "'a b'"),
            ("it's", r"'it'\''s'"),
            ("$(x)", "'$(x)'"),
        ] {
            assert_eq!(argument(text), expected, "{text}");
        }
    }
}
