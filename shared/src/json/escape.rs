//! Escapes in strings.

/// Replaces the escapes of a string. `None` if one is half of a surrogate pair. The reader has checked their form.
pub(super) fn unescaped(quoted: &str) -> Option<String> {
    let mut text = String::with_capacity(quoted.len());
    let mut rest = quoted;
    while let Some(at) = rest.find('\\') {
        text.push_str(&rest[..at]);
        let escape = *rest.as_bytes().get(at + 1)?;
        let mut length = 2;
        text.push(match escape {
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let unit = |at: usize| u16::from_str_radix(rest.get(at..at + 4)?, 16).ok();
                let first = unit(at + 2)?;
                length = 6;
                // The second half of a pair.
                let is_pair = (0xd800..0xdc00).contains(&first) && rest.get(at + 6..at + 8) == Some("\\u");
                let second = if is_pair { Some(unit(at + 8)?) } else { None };
                length += if is_pair { 6 } else { 0 };
                char::decode_utf16([first].into_iter().chain(second)).next()?.ok()?
            }
            other => char::from(other),
        });
        rest = rest.get(at + length..)?;
    }
    text.push_str(rest);
    Some(text)
}
