use serde_json::{Value, json};

use super::*;

fn version(number: u64) -> Version {
    Version::new(number).unwrap()
}

fn item(json: Value) -> Item {
    serde_json::from_value(json).unwrap()
}

/// Returns the latest item `2x`, number and state, or `x` without a number.
fn latest(text: &str) -> Option<Item> {
    let (number, state) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let mut latest = json!({"PK": {"S": "E"}, "SK": {"S": "v0"}, "A": {"S": state}});
    if !number.is_empty() {
        latest["Latest"] = json!({"N": number});
    }
    Some(item(latest))
}

/// Returns the version item `7y`.
fn top(text: &str) -> Option<Item> {
    let (number, state) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let sort_key = format!("v{number}");
    Some(item(
        json!({"PK": {"S": "E"}, "SK": {"S": sort_key}, "A": {"S": state}, "Pinned": {"BOOL": true}}),
    ))
}

/// Returns the finding `gap:1-3`, for example.
fn finding(text: &str) -> Finding {
    let (name, numbers) = text.split_once(':').unwrap_or((text, "1"));
    let (from, to) = numbers.split_once('-').unwrap_or((numbers, numbers));
    let [from, to] = [from, to].map(|number| version(number.parse().unwrap()));
    match name {
        "gap" => Finding::Gap { from, to },
        "stray" => Finding::Stray { from, to },
        "orphan" => Finding::Orphan { from, to },
        "unpruned" => Finding::Unpruned { from, to },
        "differs" => Finding::LatestDiffers { version: from },
        "ahead" => Finding::Ahead { version: from },
        "below" => Finding::BelowFloor { floor: from },
        "lagging" => Finding::Lagging { through: 1, latest: to },
        "uncounted" => Finding::NoVersion {
            why: InvalidImage::NoLatest,
        },
        "partial" => Finding::NoVersion {
            why: InvalidImage::LatestIsNotWhole,
        },
        other => panic!("{other}"),
    }
}

fn step(action: &Action) -> String {
    let (numbering, to) = match action {
        Action::Put { version, .. } => return format!("Put {}", version.version()),
        Action::Release { version, .. } => return format!("Release {}", version.version()),
        Action::Number { numbering, to, .. } => (numbering, to),
    };
    match numbering {
        Numbering::Raise { from } => format!("Raise {from} {to}"),
        Numbering::Retime { from } => format!("Retime {from} {to}"),
        Numbering::Recount { from: Some(from), .. } => format!("Recount {from} {to}"),
        Numbering::Recount { .. } => format!("Recount {to}"),
        Numbering::Adopt => format!("Adopt {to}"),
        Numbering::Revive(_) => format!("Revive {to}"),
        Numbering::Move { .. } => format!("Move {to}"),
    }
}

/// Checks the columns: findings, latest item, highest version, then the steps, the missing versions, and the number of findings that
/// are left.
fn check(revive: bool, cases: &str) {
    for case in cases.lines().map(str::trim).filter(|case| case.contains('|')) {
        let cells: Vec<_> = case.split('|').map(str::trim).collect();
        let findings: Vec<_> = cells[0].split_whitespace().map(finding).collect();
        let mut known = Known::of(&findings, latest(cells[1]), None, Version::FIRST);
        known.top = top(cells[2]);
        let own = known.plan(&findings, revive, VersionDigits::default());
        let steps = own.actions.iter().map(step).collect::<Vec<_>>().join(", ");
        let missing = own.missing.ranges().map(|(from, to)| format!("{from}-{to}"));
        let missing = missing.collect::<Vec<_>>().join(" ");
        let left = own.left.len().to_string();
        assert_eq!([&*steps, &missing, &left], cells[3..], "{case}");
    }
}

#[test]
fn plans_of_an_entity() {
    check(
        false,
        "
                                     | 3x  |    |                   |         | 0
        lagging                      | 3x  |    |                   |         | 0
        // Only the latest version can be put from the latest item.
        gap:3-3                      | 3x  |    | Put 3             |         | 0
        gap:1-3                      | 3x  |    | Put 3             | 1-2     | 0
        gap:1-2                      | 3x  |    |                   | 1-2     | 0
        // A new version was written after the audit: the missing version is no longer the latest.
        gap:3-3                      | 4x  |    |                   | 3-3     | 0
        // The counter was set back: the latest item is not put under its number.
        stray:3-7                    | 2x  | 7y | Raise 2 8         |         | 0
        stray:3-7                    | 2x  | 7x | Raise 2 7         |         | 0
        gap:2-2 stray:4-4 stray:7-7  | 2x  | 7y | Raise 2 8         | 2-3 5-6 | 0
        differs:3                    | 3x  | 3y | Raise 3 4         |         | 0
        differs:3                    | 3x  | 3x |                   |         | 0
        differs:3                    | 9x  | 3y |                   |         | 0
        stray:3-7                    | 2x  |    |                   |         | 0
        // Findings that cannot be repaired.
        partial unpruned:1-2         | 1.5x |   |                   |         | 2
        orphan:1-7                   |     | 7x |                   |         | 1
        // Another client wrote the latest item.
        uncounted                    | x   |    | Adopt 1           |         | 0
        uncounted orphan:1-2         | x   | 2x | Adopt 2           |         | 0
        uncounted orphan:1-2         | y   | 2x | Adopt 3           |         | 0
        uncounted orphan:2-2 orphan:5-5 | y | 5x | Adopt 6          | 3-4     | 0
        // The counter continues above the floor.
        below:9                      |     |    | Recount 10        |         | 0
        below:9                      | x   |    | Recount 10        |         | 0
        below:9                      | 2x  |    | Recount 2 10      |         | 0
        below:9                      | 1.5x |   |                   |         | 0
        below:1000000000000          | 2x  |    | Recount 2 1000000000001 |   | 0
        below:1000000000001          | 2x  |    |                   |         | 1
        // Any step that numbers the latest item begins a new sequence of times.
        ahead:3                      | 3x  |    | Retime 3 4        |         | 0
        ahead:3 gap:3-3              | 3x  |    | Put 3, Retime 3 4 |         | 0
        ahead:3 stray:3-7            | 2x  | 7y | Raise 2 8         |         | 0",
    );
    check(
        true,
        "
        orphan:3-4 orphan:7-7        |     | 7x | Revive 7          | 5-6     | 0
        // Another client created a latest item after the audit.
        orphan:3-4 orphan:7-7        | 1x  | 7y | Raise 1 8         | 2-2 5-6 | 2
        // At most 10,000 versions are missing before the highest one.
        stray:10003                  | 2x  | 10003y | Raise 2 10004 | 3-10002 | 0",
    );
    for far in [10_004, 1_000_000_000_001, Version::MAX] {
        check(
            true,
            &"
            stray:FAR                | 2x  | FARy |                 |         | 1
            orphan:FAR               |     | FARy |                 |         | 1
            // Versions up to the latest one are still searched.
            gap:1-1 stray:FAR        | 2x  | FARy |                 | 1-1     | 1
            uncounted orphan:FAR     | x   | FARy |                 |         | 2"
                .replace("FAR", &far.to_string()),
        );
    }
}

#[test]
fn pruned_versions_are_not_missing() {
    let is_far = |stray: &str, floor| {
        let known = Known::of(&[finding(stray)], latest("2x"), None, version(floor));
        known.is_out_of_reach
    };
    let pruned = format!("stray:{}-{MAX_COUNT}", MAX_COUNT - 3);
    assert!(!is_far(&pruned, MAX_COUNT - 3) && is_far(&pruned, 3));
    // A floor that no entity reaches.
    assert!(is_far(&format!("stray:{MAX_COUNT}-{}", MAX_COUNT + 1), MAX_COUNT));
}

#[test]
fn a_revived_item_is_its_version_without_marks() {
    let expected = json!({"PK": {"S": "E"}, "SK": {"S": "v0"}, "Latest": {"N": "7"}, "A": {"S": "x"}});
    assert_eq!(
        serde_json::to_value(revived(&top("7x").unwrap(), version(7))).unwrap(),
        expected
    );
}
