//! Filters of `tools/events/template.yaml`: which items become events.

use local::mapping::filter::Filters;
use serde_json::json;

use crate::support::{first, insert, root};

#[test]
fn latest_items_or_new_version_items_become_events() {
    let text = std::fs::read_to_string(root().join("tools/events/template.yaml")).unwrap();
    let patterns = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- '")?.strip_suffix('\''));
    let patterns: Vec<_> = patterns.map(|pattern| Filters::parse([pattern]).unwrap()).collect();
    let selected = |record| [0, 1].map(|index: usize| patterns[index].matches(&record));
    // A change of a version item, such as by `vzero admin prune`, is no new version.
    for (event, key, expected) in [
        ("INSERT", "v0", [true, false]),
        ("MODIFY", "v0", [true, false]),
        ("INSERT", "v1", [false, true]),
        ("INSERT", "v0000000010", [false, true]),
        ("MODIFY", "v1", [false, false]),
        ("INSERT", "Metadata", [false, false]),
        ("INSERT", "2026-11-22T06:24:48", [false, false]),
        ("INSERT", "quarantine#2", [false, false]),
        ("INSERT", "floor", [false, false]),
        ("INSERT", "request#r-1", [false, false]),
        ("INSERT", "config", [false, false]),
    ] {
        let mut image = first("Press#1");
        if key != "v0" {
            image = json!({"PK": image["PK"], "SK": {"S": key}});
        }
        let mut record = insert("1", &image);
        record["eventName"] = json!(event);
        assert_eq!(selected(record), expected, "{event} {key}");
    }
    // An expired item has no image.
    let mut removed = insert("1", &first("Press#1"));
    removed["eventName"] = json!("REMOVE");
    removed["dynamodb"].as_object_mut().unwrap().remove("NewImage");
    assert_eq!(selected(removed), [false, false]);
}
