//! Decisions about changes, written as texts.

mod pages;

use std::{collections::HashMap, time::Duration};

use serde_json::json;

use super::*;
use crate::domain::{
    attached::{change::Principal, definition::KeyType},
    entity::EntityId,
    erased::Erasure,
    test_values::{self, orders},
};

const STREAM: &str = "2026-01-01T00:00:00.000";

fn decide_in(change: &Change, tail: &mut Tail) -> Decision {
    decide(&orders(&[("id", KeyType::S)]), change, tail)
}

fn decide_on(change: &Change, tail: &Tail) -> Decision {
    decide_in(change, &mut tail.clone())
}

/// The states of a decision to append.
fn appended(change: &Change, tail: &Tail) -> Vec<State> {
    match decide_on(change, tail) {
        Decision::Append(states) => states.into(),
        decision => panic!("{decision:?}"),
    }
}

/// An item with this state; a state of two letters has the second one in an ignored attribute, or, if it is upper case, an author and a change set.
fn item(state: &str) -> Item {
    let mut item = json!({"id": {"S": "a"}, "state": {"S": &state[..1]}, "n": {"N": "1.0"}, "set": {"SS": ["x", "y"]}});
    if state.ends_with(char::is_uppercase) {
        (item["by"], item["job"]) = (json!({"S": &state[1..]}), json!({"S": &state[1..]}));
    } else if state.len() > 1 {
        item["seen"] = json!({"S": &state[1..]});
        (item["n"], item["set"]) = (json!({"N": "1"}), json!({"SS": ["y", "x"]}));
    }
    test_values::item(item)
}

/// A change from a state to a state, `-` if the item does not exist, `?` if the stream has no old images.
fn change(number: u64, from: &str, to: &str) -> Change {
    Change {
        entity: EntityId::new("E").unwrap(),
        place: Place::parse(STREAM, &number.to_string()).unwrap(),
        created_micros: None,
        key: test_values::item(json!({"id": {"S": "a"}})),
        has_old_images: from != "?",
        old: (!"-?".contains(from)).then(|| item(from)),
        new: match to {
            "-" => NewState::Deleted(None),
            to => NewState::Item(item(to)),
        },
    }
}

/// Versions, the newest first: `v2:7#old=a` is version 2, from record 7's old image, with state a; `+` marks a late one, and `*` is a
/// state that is not known. `!` instead of `=` erases the state. `@9` is the time in seconds, and `read` in place of a number the baseline of a backfill.
fn tail(versions: &[&str], is_complete: bool) -> Tail {
    let version = |text: &&str| {
        let (text, second) = text.split_once('@').unwrap_or((text, ""));
        let (version, rest) = text[1..].trim_end_matches('+').split_once(':').unwrap();
        let (id, state) = rest.split_once(['=', '!']).unwrap();
        let recorded_at = second.parse().map(Duration::from_secs).map(RecordedAt::since_epoch);
        let mut recorded = Recorded {
            version: Version::new(version.parse().unwrap()).unwrap(),
            place: Place::parse(STREAM, id),
            is_late: text.ends_with('+'),
            recorded_at: recorded_at.ok(),
            is_backfilled: id == "read",
            state: match state {
                "-" => KnownState::Deleted,
                "*" => KnownState::Unknown,
                state => KnownState::Item(item(state)),
            },
            erased: Erased::default(),
        };
        if rest.contains('!')
            && let KnownState::Item(item) = &mut recorded.state
        {
            let path = ErasedPath::attribute(["state"]).unwrap();
            item.remove("state");
            recorded.erased.add(path, erasure().value());
        }
        recorded
    };
    Tail {
        versions: versions.iter().map(version).collect(),
        is_complete,
        is_consistent: true,
        floor: Some(Version::FIRST),
    }
}

fn erasure() -> Erasure {
    Erasure {
        at: RecordedAt::since_epoch(Duration::from_secs(9)),
        to: Version::FIRST,
        reason: "asked".to_owned(),
    }
}

/// Returns a decision as text, such as `Missed 7#old=b, Record 7=c`.
fn decided(change: &Change, tail: &Tail) -> String {
    match decide_on(change, tail) {
        Decision::Append(states) => {
            let text = |state: &State| {
                let letter = match (state.is_deleted, state.image.get("state")) {
                    (true, None) => "-",
                    (false, Some(AttributeValue::S(letter))) => letter,
                    (false, None) if state.erased.value().is_some() => "erased",
                    _ => "invalid",
                };
                format!("{:?} {}={letter}", state.origin, state.place.request_id())
            };
            states.iter().map(text).collect::<Vec<_>>().join(", ")
        }
        decision => format!("{decision:?}"),
    }
}

#[test]
fn new_changes() {
    for (from, to, versions, expected) in [
        // History begins.
        ("-", "a", vec![], "Record 7=a"),
        ("a", "b", vec![], "Baseline 7#old=a, Record 7=b"),
        ("a", "-", vec![], "Baseline 7#old=a, Record 7=-"),
        ("a", "ax", vec![], "Baseline 7#old=a"),
        ("?", "a", vec![], "Record 7=a"),
        ("?", "-", vec![], "Record 7=-"),
        // It continues.
        ("a", "b", vec!["v1:5=a"], "Record 7=b"),
        ("a", "-", vec!["v1:5=a"], "Record 7=-"),
        ("-", "a", vec!["v1:5=-"], "Record 7=a"),
        ("ax", "ay", vec!["v1:5=a"], "Unchanged"),
        ("a", "a", vec!["v1:5=a"], "Unchanged"),
        // A record is missing.
        ("b", "c", vec!["v1:5=a"], "Missed 7#old=b, Record 7=c"),
        ("b", "bx", vec!["v1:5=a"], "Missed 7#old=b"),
        ("b", "-", vec!["v1:5=a"], "Missed 7#old=b, Record 7=-"),
        ("b", "c", vec!["v1:5=-"], "Missed 7#old=b, Record 7=c"),
        ("-", "b", vec!["v1:5=a"], "Missed 7#old=-, Record 7=b"),
        ("-", "a", vec!["v1:5=a"], "Missed 7#old=-, Record 7=a"),
        ("-", "-", vec!["v1:5=a"], "Record 7=-"),
        // The state of the version was erased.
        ("a", "b", vec!["v1:5!x"], "Record 7=b"),
        ("a", "-", vec!["v1:5!x"], "Record 7=-"),
        ("a", "ax", vec!["v1:5!x"], "Unchanged"),
        ("-", "b", vec!["v1:5!x"], "Missed 7#old=-, Record 7=b"),
        ("aB", "c", vec!["v1:5!x"], "Missed 7#old=erased, Record 7=c"),
        ("aB", "c", vec!["v2:6=b", "v1:5!x"], "Missed 7#old=a, Record 7=c"),
        // Without old images, the new state shows a value that the item has again.
        ("?", "b", vec!["v1:5!x"], "Record 7=b"),
        // It was interrupted after the old state.
        ("b", "c", vec!["v2:7#old=b", "v1:5=a"], "Record 7=c"),
        ("-", "c", vec!["v2:7#old=-", "v1:5=a"], "Record 7=c"),
        ("a", "-", vec!["v1:7#old=a"], "Record 7=-"),
        // Late versions do not count.
        ("a", "b", vec!["v2:3=z+", "v1:5=a"], "Record 7=b"),
        // The last state is not known.
        ("a", "b", vec!["v1:5=*"], "Record 7=b"),
        ("a", "-", vec!["v1:5=*"], "Record 7=-"),
        ("a", "ax", vec!["v1:5=*"], "Unchanged"),
        ("-", "b", vec!["v1:5=*"], "Missed 7#old=-, Record 7=b"),
        ("?", "a", vec!["v1:5=*"], "Record 7=a"),
        // No old images.
        ("?", "ax", vec!["v1:5=a"], "Unchanged"),
        ("?", "b", vec!["v1:5=a"], "Record 7=b"),
        ("?", "a", vec!["v1:5=-"], "Record 7=a"),
        ("?", "-", vec!["v1:5=-"], "Record 7=-"),
        // A version of another program has no place.
        ("a", "b", vec!["v1:r-1=a"], "Record 7=b"),
    ] {
        // The last version in order is sufficient.
        let incomplete = if versions.is_empty() { "ReadMore" } else { expected };
        for (is_complete, expected) in [(true, expected), (false, incomplete)] {
            let decision = decided(&change(7, from, to), &tail(&versions, is_complete));
            assert_eq!(decision, expected, "{from} -> {to} {versions:?}");
        }
    }
}

#[test]
fn changes_at_or_before_the_last_version() {
    let history = ["v5:9=d", "v4:3=z+", "v3:8#old=c", "v2:5=b", "v1:1=a"];
    for (number, from, to, read, expected) in [
        (9, "c", "d", 1, "AlreadyRecorded"),
        (5, "a", "b", 4, "AlreadyRecorded"),
        (3, "y", "z", 2, "AlreadyRecorded"),
        (1, "-", "a", 5, "AlreadyRecorded"),
        // It is searched until a version with a lower place.
        (8, "c", "e", 1, "ReadMore"),
        (8, "c", "e", 2, "ReadMore"),
        (8, "c", "e", 3, "Late 8=e"),
        (8, "c", "-", 3, "Late 8=-"),
        (6, "b", "c", 3, "ReadMore"),
        (6, "b", "c", 4, "Late 6=c"),
        (2, "a", "b", 4, "ReadMore"),
        (2, "a", "b", 5, "Late 2=b"),
        // A change that made no version is not late.
        (6, "b", "bx", 4, "Unchanged"),
        (6, "?", "bx", 4, "Unchanged"),
        (6, "?", "c", 4, "Late 6=c"),
    ] {
        let tail = tail(&history[..read], read == history.len());
        assert_eq!(decided(&change(number, from, to), &tail), expected, "{number} {read}");
    }
    // Before all versions.
    assert_eq!(decided(&change(1, "-", "a"), &tail(&["v1:5=b"], true)), "Late 1=a");
    assert_eq!(decided(&change(1, "-", "a"), &tail(&["v2:5=b"], false)), "ReadMore");
}

#[test]
fn a_later_stream_continues_history() {
    let mut change = change(1, "a", "b");
    change.place.stream = "2026-01-02T00:00:00.000".to_owned();
    assert_eq!(decided(&change, &tail(&["v1:9=a"], false)), "Record 1=b");
    let next = |versions: &[&str]| tail(versions, true).next().unwrap().get();
    assert_eq!((next(&[]), next(&["v7:3=z+", "v6:5=a"])), (1, 8));
}

#[test]
fn an_author_is_compared_with_that_of_the_state_before() {
    // `-` without an author, `=` if the state before has the same one, and `+` if the version is part of its change set.
    let authors = |change: &Change, tail: &Tail| {
        let author = |state: State| {
            let members: HashMap<_, _> = state.changed_by.into_iter().collect();
            let unchanged = members.get("ActorUnchanged").map_or("", |_| "=");
            let set = members.get("ChangeSet").map_or("", |_| "+");
            match members.get("Actor") {
                Some(AttributeValue::S(actor)) => format!("{actor}{unchanged}{set}"),
                _ => format!("-{unchanged}{set}"),
            }
        };
        let authors: Vec<_> = appended(change, tail).into_iter().map(author).collect();
        authors.join(" ")
    };
    // Only the tombstone of the record has its principal.
    let mut deletion = change(7, "b", "-");
    deletion.new = NewState::Deleted(Some(Principal::new(None, "p".to_owned())));
    assert_eq!(authors(&deletion, &tail(&["v1:5=a"], true)), "- p");
    for (from, to, version, expected) in [
        ("aX", "bY", "v1:5=aX", "Y+"),
        ("aX", "bX", "v1:5=aX", "X="),
        ("aX", "b", "v1:5=aX", "-"),
        ("a", "bX", "v1:5=a", "X+"),
        ("-", "bX", "", "X+"),
        ("aX", "-", "v1:5=aX", "-"),
        // A baseline has no state before, a missed state has that of history.
        ("aX", "bX", "", "X X="),
        ("cX", "bY", "v1:5=aX", "X= Y+"),
        ("cX", "bX", "v1:5=aW", "X+ X="),
        ("cX", "bX", "v1:5=-", "X+ X="),
        // A late state is compared with its old image.
        ("cY", "bY", "v1:9=aX", "Y="),
        ("cX", "bY", "v1:9=aY", "Y+"),
        // Without an old image, history decides. If it does not know, nothing shows that the author is the same.
        ("?", "bX", "v1:5=aX", "X="),
        ("?", "bX", "v1:5=aW", "X+"),
        ("?", "bX", "v1:5=-", "X+"),
        ("?", "bX", "v1:5=*", "X"),
        ("?", "bX", "", "X"),
    ] {
        let versions: Vec<_> = version.split_whitespace().collect();
        let found = authors(&change(7, from, to), &tail(&versions, true));
        assert_eq!(found, expected, "{version}: {from} -> {to}");
    }
}

fn at_second(second: i64, change: Change) -> Change {
    Change {
        created_micros: Some(second * 1_000_000),
        ..change
    }
}

#[test]
fn a_change_that_the_baseline_of_a_backfill_contains_makes_no_version() {
    let baseline = Tail {
        floor: None,
        ..tail(&["v1:read=s@1000"], true)
    };
    for (second, from, to, expected) in [
        // Before the backfill, up to the tolerance of the clocks.
        (900, "a", "b", "Unchanged"),
        (900, "a", "s", "Unchanged"),
        (1010, "a", "s", "Unchanged"),
        (900, "-", "s", "Unchanged"),
        (900, "a", "-", "Unchanged"),
        // The old image is the baseline: this is the next change, or a state that came back.
        (900, "s", "b", "Record 7=b"),
        (1001, "s", "b", "Record 7=b"),
        (2000, "sx", "b", "Record 7=b"),
        (1001, "s", "-", "Record 7=-"),
        (1001, "s", "sx", "Unchanged"),
        // After the backfill, and a record is missing.
        (1011, "b", "c", "Missed 7#old=b, Record 7=c"),
        (1011, "-", "c", "Missed 7#old=-, Record 7=c"),
        // Without old images, a change near the backfill is recorded.
        (989, "?", "b", "Unchanged"),
        (990, "?", "b", "Record 7=b"),
        (990, "?", "s", "Unchanged"),
    ] {
        let change = at_second(second, change(7, from, to));
        assert_eq!(decided(&change, &baseline), expected, "{second} {from} {to}");
    }
    // Without a time, the record is not known to be older.
    assert_eq!(decided(&change(7, "a", "b"), &baseline), "Missed 7#old=a, Record 7=b");
    // Such a change is delivered again later.
    let contained = at_second(900, change(7, "a", "s"));
    assert_eq!(decided(&contained, &tail(&["v2:9=t"], false)), "ReadMore");
    let later = tail(&["v2:9=t", "v1:read=s@1000"], true);
    assert_eq!(decided(&contained, &later), "Unchanged");
    // A change after the backfill that was not delivered.
    assert_eq!(decided(&at_second(1002, change(8, "s", "b")), &later), "Late 8=b");
    assert_eq!(decided(&at_second(2000, change(8, "b", "c")), &later), "Late 8=c");
}

#[test]
fn a_change_is_dropped_and_a_version_is_made_among_others_only_after_a_consistent_read() {
    for (number, from, to, versions, expected) in [
        (10, "c", "cx", vec!["v2:9=c", "v1:5=a"], "Unchanged"),
        (10, "?", "c", vec!["v2:9=c", "v1:5=a"], "Unchanged"),
        (7, "b", "bx", vec!["v2:9=c", "v1:5=a"], "Unchanged"),
        // Of two reads, the second one can lack a version that the first one does not contain: that of record 7.
        (7, "a", "b", vec!["v3:9=c", "v1:5=a"], "Late 7=b"),
        (7, "a", "b", vec!["v2:9=c"], "Late 7=b"),
        (7, "a", "b", vec!["v3:4=c+", "v1:5=a"], "Record 7=b"),
        // The version itself was read.
        (5, "-", "a", vec!["v2:9=c", "v1:5=a"], "AlreadyRecorded"),
        // An insert fails if there is a newer version.
        (10, "c", "d", vec!["v2:9=c", "v1:5=a"], "Record 10=d"),
    ] {
        let (change, mut tail) = (change(number, from, to), tail(&versions, true));
        assert_eq!(decided(&change, &tail), expected, "{number} {versions:?}");
        tail.is_consistent = false;
        let is_final = [5, 10].contains(&number) && expected != "Unchanged";
        let expected = if is_final { expected } else { "ReadConsistently" };
        assert_eq!(decided(&change, &tail), expected, "{number} {versions:?}");
    }
}

#[test]
fn a_record_before_the_kept_versions_is_pruned() {
    let floor = |floor: u64, versions: &[&str]| Tail {
        floor: Version::new(floor),
        ..tail(versions, true)
    };
    let pinned = ["v7:9=d", "v6:8=c", "v2:5=b"];
    for (number, kept, expected) in [
        (10, floor(6, &pinned), "Record 10=z"),
        (9, floor(6, &pinned), "AlreadyRecorded"),
        // Between the versions that are kept, and before them.
        (8, floor(7, &pinned), "AlreadyRecorded"),
        (7, floor(6, &pinned), "Pruned"),
        (6, floor(6, &pinned), "Pruned"),
        (5, floor(6, &pinned), "AlreadyRecorded"),
        (4, floor(6, &pinned), "Pruned"),
        (4, floor(6, &pinned[..2]), "Pruned"),
        (7, floor(1, &["v2:8=c", "v1:6=b"]), "Late 7=z"),
        (5, floor(1, &["v2:8=c", "v1:6=b"]), "Late 5=z"),
        (7, floor(3, &["v4:8=c", "v3:6=b"]), "Late 7=z"),
        (5, floor(3, &["v4:8=c", "v3:6=b"]), "Pruned"),
        // A late version above the floor says nothing about what was pruned before it.
        (4, floor(3, &["v5:3=x+", "v4:8=c", "v3:6=b"]), "Pruned"),
    ] {
        let change = change(number, "d", "z");
        assert_eq!(decided(&change, &kept), expected, "{number} {kept:?}");
        if expected.starts_with("Late") || expected == "Pruned" {
            let unread = Tail { floor: None, ..kept };
            assert_eq!(decided(&change, &unread), "ReadFloor", "{number}");
        }
    }
}

#[test]
fn times_do_not_decrease_along_the_places() {
    for (from, at, versions, expected) in [
        ("a", Some(100), "v1:5=a@90", vec![100]),
        ("b", Some(100), "v1:5=a@90", vec![100, 100]),
        // The clock of the stream was set back.
        ("b", Some(80), "v1:5=a@90", vec![90, 90]),
        // A late version is between its neighbors by place, also late ones.
        ("b", Some(95), "v2:9=c@99 v1:5=a@90", vec![95]),
        ("b", Some(80), "v2:9=c@99 v1:5=a@90", vec![90]),
        ("b", Some(120), "v2:9=c@99 v1:5=a@90", vec![99]),
        ("b", Some(91), "v3:6=x+@93 v2:9=c@99 v1:5=a@90", vec![93]),
        ("b", Some(98), "v3:8=x+@95 v2:9=c@99 v1:5=a@90", vec![95]),
        // A record without a time gets the time of the version before.
        ("a", None, "v1:5=a@90", vec![90]),
        // The clock of a backfill can be ahead.
        ("s", Some(900), "v1:read=s@1000", vec![900]),
    ] {
        let mut change = change(7, from, "z");
        change.created_micros = at.map(|second: i64| second * 1_000_000);
        let states = appended(&change, &tail(&versions.split(' ').collect::<Vec<_>>(), true)).into_iter();
        let times = states.map(|state| state.recorded_at.unwrap().to_duration().as_secs());
        assert_eq!(times.collect::<Vec<_>>(), expected, "{at:?} {versions}");
    }
}

#[test]
fn a_late_state_names_the_versions_around_it() {
    let history = ["v5:6=x+", "v4:9=d", "v3:8#old=c", "v2:5=b", "v1:1#old=a"];
    for (number, versions, expected) in [
        (7, &history[..], (Some(5), 4)),
        (8, &history, (Some(3), 4)),
        (2, &history, (Some(1), 4)),
        (2, &["v1:5=b"], (None, 1)),
    ] {
        let around = appended(&change(number, "y", "z"), &tail(versions, true))[0].around;
        let around = around.map(|around| (around.after.map(Version::get), around.in_order.get()));
        assert_eq!(around, Some(expected), "{number}");
    }
}

#[test]
fn a_large_old_image_is_looked_for_beyond_the_version() {
    let mut change = change(7, "b", "c");
    let old = change.old.as_mut().unwrap();
    old.insert("text".to_owned(), AttributeValue::S("x".repeat(NEARLY_TOO_LARGE)));
    assert_eq!(decided(&change, &tail(&["v3:7=c"], false)), "ReadMore");
    let all = tail(&["v3:7=c", "v2:7#old=*", "v1:5=a"], false);
    assert_eq!(decided(&change, &all), "AlreadyRecorded");
    assert!(all.is_omitted(&change.place));
    assert!(!tail(&["v3:7=c", "v2:6=*"], false).is_omitted(&change.place));
}
