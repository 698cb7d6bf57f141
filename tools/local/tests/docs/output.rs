//! What a page shows, against what was said.

/// What every `…` stands for.
const ANY: &str = "…";

/// Where what is shown and what was said part ways, if they do.
pub(crate) fn difference(shown: &str, said: &str) -> Option<String> {
    let shown: Vec<_> = shown.trim_end().lines().map(str::trim_end).collect();
    let said: Vec<_> = said.trim_end().lines().map(str::trim_end).collect();
    (!lines(&shown, &said)).then(|| format!("shown:\n{}\n\nsaid:\n{}", shown.join("\n"), said.join("\n")))
}

fn lines(shown: &[&str], said: &[&str]) -> bool {
    match shown.split_first() {
        None => said.is_empty(),
        Some((&ANY, rest)) => (0..=said.len()).any(|skipped| lines(rest, &said[skipped..])),
        Some((first, rest)) => said
            .split_first()
            .is_some_and(|(line, others)| is_like(first, line) && lines(rest, others)),
    }
}

fn is_like(shown: &str, said: &str) -> bool {
    let Some((before, rest)) = shown.split_once(ANY) else {
        return shown == said;
    };
    let Some(said) = said.strip_prefix(before) else {
        return false;
    };
    let ends = said.char_indices().map(|(index, _)| index).chain([said.len()]);
    ends.into_iter().any(|end| is_like(rest, &said[end..]))
}

#[test]
fn what_is_shown_is_what_was_said() {
    let check =
        |shown: &str, said: &str, same: bool| assert_eq!(difference(shown, said).is_none(), same, "{shown:?} {said:?}");
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
