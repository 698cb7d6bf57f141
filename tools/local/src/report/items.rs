//! Lists the entities, one in each line.

use shared::{
    domain::{entity::is_reserved, keys::VersionDigits},
    printable,
};

use super::history::{Collection, Collections};

const MAX_ENTITIES: usize = 20;

/// Returns the entities with the number of their versions. Entities over the maximum are counted.
pub fn list(collections: &Collections, digits: VersionDigits) -> String {
    let entities: Vec<_> = collections.iter().filter(|(pk, _)| !is_reserved(pk)).collect();
    let line = |(pk, items): &(&String, &Collection)| {
        let versions = items.iter().filter(|(sk, _)| digits.version_of(sk).is_some());
        format!("{}  {} version(s)\n", printable::line(pk), versions.count())
    };
    let lines: String = entities.iter().take(MAX_ENTITIES).map(line).collect();
    match entities.len().checked_sub(MAX_ENTITIES) {
        Some(more @ 1..) => format!("{lines}and {more} more entities\n"),
        _ => lines,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::report::history::collect;

    #[test]
    fn entities_are_listed_up_to_a_maximum_and_escaped() {
        let item = |pk: &str, sk: &str| serde_json::from_value(json!({"PK": {"S": pk}, "SK": {"S": sk}})).unwrap();
        let listed = |items| list(&collect(items, VersionDigits::default()), VersionDigits::default());
        let mut items: Vec<_> = ["v0", "v1", "v2", "Metadata"].map(|sk| item("a\n\u{1b}b", sk)).into();
        items.push(item("#vzero", "config"));
        assert_eq!(listed(items), "a\\n\\u{1b}b  2 version(s)\n");
        let text = listed((100..125).map(|number| item(&number.to_string(), "v1")).collect());
        assert!(text.ends_with("119  1 version(s)\nand 5 more entities\n"), "{text}");
    }
}
