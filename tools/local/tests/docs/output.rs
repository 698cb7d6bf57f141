//! Comparison of the output that a page shows with the actual output.

const ANY: &str = "…";

/// Returns both texts if they differ.
pub(crate) fn difference(shown: &str, actual: &str) -> Option<String> {
    let shown: Vec<_> = shown.trim_end().lines().map(str::trim_end).collect();
    let actual: Vec<_> = actual.trim_end().lines().map(str::trim_end).collect();
    (!lines(&shown, &actual)).then(|| format!("shown:\n{}\n\nactual:\n{}", shown.join("\n"), actual.join("\n")))
}

fn lines(shown: &[&str], actual: &[&str]) -> bool {
    match shown.split_first() {
        None => actual.is_empty(),
        Some((&ANY, rest)) => (0..=actual.len()).any(|skipped| lines(rest, &actual[skipped..])),
        Some((first, rest)) => actual
            .split_first()
            .is_some_and(|(line, others)| matches(first, line) && lines(rest, others)),
    }
}

fn matches(shown: &str, actual: &str) -> bool {
    let Some((before, rest)) = shown.split_once(ANY) else {
        return shown == actual;
    };
    let Some(actual) = actual.strip_prefix(before) else {
        return false;
    };
    let ends = actual.char_indices().map(|(index, _)| index).chain([actual.len()]);
    ends.into_iter().any(|end| matches(rest, &actual[end..]))
}

#[test]
fn placeholders_match_any_text() {
    let check = |shown: &str, actual: &str, same: bool| {
        assert_eq!(difference(shown, actual).is_none(), same, "{shown:?} {actual:?}");
    };
    check("a\nb\n", "a\nb", true);
    check("a\nb", "a\nb\nc", false);
    check("a\nb\nc", "a\nb", false);
    check("", "a", false);
    check("a…c", "abbc", true);
    check("a…c", "ac", true);
    check("a…c", "acd", false);
    check("a…c…", "aéc c", true);
    check("a\n…\nd", "a\nb\nc\nd", true);
    check("a\n…", "a", true);
    check("…\nb", "a\nc", false);
}
