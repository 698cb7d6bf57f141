//! Comparison of the output that a page shows with the actual output.
//!
//! The times of `RecordedAt` and random ids differ in each run. A page shows them as examples, so that its tables have the
//! real width, and any other one of the same form is equal.

/// Forms of texts that differ in each run: `0` stands for any hexadecimal digit.
const VARYING: [&str; 3] = [
    "0000-00-00T00:00:00.000000000Z",
    "0000-00-00 00:00:00",
    "00000000-0000-0000-0000-000000000000",
];

const ANY: &str = "…";

/// Returns both texts if they differ.
pub(crate) fn difference(shown: &str, actual: &str) -> Option<String> {
    let [shown, actual] = [shown, actual].map(|text| {
        let text = without_varying(text.trim_end());
        let lines: Vec<_> = text.lines().map(str::trim_end).chain([""]).collect();
        lines.join("\n")
    });
    (!matches(&shown, &actual)).then(|| format!("shown:\n{shown}\nactual:\n{actual}"))
}

/// Replaces each text that differs in each run with its form.
fn without_varying(text: &str) -> String {
    let matches = |form: &str, text: &[u8]| {
        let same = |(form, byte): (u8, &u8)| form == *byte || (form == b'0' && byte.is_ascii_hexdigit());
        text.len() >= form.len() && form.bytes().zip(text).all(same)
    };
    let (mut replaced, mut rest) = (String::new(), text);
    while let Some(next) = rest.chars().next() {
        let form = VARYING.into_iter().find(|form| matches(form, rest.as_bytes()));
        match form {
            Some(form) => replaced.push_str(form),
            None => replaced.push(next),
        }
        rest = &rest[form.map_or(next.len_utf8(), str::len)..];
    }
    replaced
}

fn matches(shown: &str, actual: &str) -> bool {
    let Some((before, rest)) = shown.split_once(ANY) else {
        return shown == actual;
    };
    let Some(actual) = actual.strip_prefix(before) else {
        return false;
    };
    // Alone on a line, it stands for any lines, and otherwise for any text within its line.
    let lines = rest.strip_prefix('\n');
    let lines = lines.filter(|_| before.is_empty() || before.ends_with('\n'));
    let mut ends = (0..=actual.len()).filter(|end| actual.is_char_boundary(*end));
    ends.any(|end| match lines {
        Some(rest) => (end == 0 || actual[..end].ends_with('\n')) && matches(rest, &actual[end..]),
        None => !actual[..end].contains('\n') && matches(rest, &actual[end..]),
    })
}
