use serde_json::{Value, json};

use super::*;
use crate::domain::test_values::{item, version};

fn at(second: u64) -> RecordedAt {
    RecordedAt::since_epoch(std::time::Duration::from_secs(second))
}

fn path(text: &str) -> ErasedPath {
    ErasedPath::parse(text).unwrap()
}

#[test]
fn paths_are_read_as_they_were_written() {
    const CASES: &str = r#"
        ["Attribute","Place","Street"]      -> {"Attribute":["Place","Street"]}
        ["Attribute","a\"\\é",""]           -> {"Attribute":["a\"\\é",""]}
        ["Attribute","$serde_json::private::RawValue"] -> {"Attribute":["$serde_json::private::RawValue"]}
        ["Metadata","Actor"]                -> {"Metadata":["Actor"]}
        ["Metadata","Sender"]               -> {"Metadata":["Sender"]}
        ["Metadata","RecordedAt"]           -> metadata that can be erased: Actor, Reason, ChangeSet, Sender, RequestId, ItemVersion, ActorUnchanged
        ["Metadata","Actor","x"]            -> metadata that can be erased: Actor, Reason, ChangeSet, Sender, RequestId, ItemVersion, ActorUnchanged
        ["Attribute"]                       -> a path names an attribute
        ["Attribute",""]                    -> a path names an attribute
        ["Other","a"]                       -> a path is a list as ["Attribute","Place","Street"] or ["Metadata","Actor"]
        ["Attribute",1]                     -> a path is a list as ["Attribute","Place","Street"] or ["Metadata","Actor"]
        []                                  -> a path is a list as ["Attribute","Place","Street"] or ["Metadata","Actor"]
        "Place"                             -> a path is a list as ["Attribute","Place","Street"] or ["Metadata","Actor"]
    "#;
    for (text, expected) in testkit::cases::cases(CASES) {
        let text = text.to_string();
        match ErasedPath::parse(&text) {
            Ok(path) => assert_eq!(
                (path.to_string(), path.to_json().to_string()),
                (text, expected.to_owned())
            ),
            Err(error) => assert_eq!(error.to_string(), expected, "{text}"),
        }
    }
    let place = path(r#"["Attribute","Place"]"#);
    for (other, covered) in [
        (r#"["Attribute","Place"]"#, true),
        (r#"["Attribute","Place","Street"]"#, true),
        (r#"["Attribute","Places"]"#, false),
        (r#"["Metadata","Actor"]"#, false),
    ] {
        assert_eq!(place.covers(&path(other)), covered, "{other}");
    }
}

#[test]
fn the_mark_is_read_as_it_was_written() {
    let entry = json!({"At": {"S": at(7).to_string()}, "Reason": {"S": "asked"}});
    let mut sealed = entry.clone();
    sealed["Commitment"] = json!({"B": "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE="});
    let mark =
        json!({"M": {r#"["Attribute","Place","Street"]"#: {"M": sealed}, r#"["Metadata","Actor"]"#: {"M": entry}}});
    let mut version = item(json!({"SK": {"S": "v1"}, "Erased": mark}));
    let erased = Erased::of(&version);
    let value = |commitment| ErasedValue {
        commitment,
        at: at(7),
        reason: "asked".to_owned(),
    };
    let expected = [
        (path(r#"["Attribute","Place","Street"]"#), value(Some([1; 32]))),
        (path(r#"["Metadata","Actor"]"#), value(None)),
    ];
    assert_eq!(erased, Erased(expected.into()));
    assert_eq!(erased.value(), version.get("Erased").cloned());
    Erased::default().put_on(&mut version);
    assert_eq!(version, item(json!({"SK": {"S": "v1"}})));
    // Of another program.
    let invalid = |name: &str, other: Value| {
        let mut entry = json!({"At": {"S": at(7).to_string()}, "Reason": {"S": "asked"}});
        entry[name] = other;
        json!({"M": {r#"["Attribute","a"]"#: {"M": entry}}})
    };
    for mark in [
        json!({"S": "x"}),
        json!({"M": {"a": {"M": {}}}}),
        json!({"M": {r#"["Attribute","a"]"#: {"S": "x"}}}),
        invalid("At", json!({"S": "soon"})),
        invalid("Reason", json!({"N": "1"})),
        invalid("Commitment", json!({"B": "AQE="})),
        invalid("Commitment", json!({"S": "x"})),
    ] {
        assert!(Erased::of(&item(json!({"Erased": mark}))).is_empty(), "{mark}");
    }
}

#[test]
fn erasures_are_read_as_they_were_written_and_never_cover_less() {
    let erasures = |entries: &[(&str, u64, u64)]| {
        let entry = |(name, second, to): &(&str, u64, u64)| {
            let (at, reason) = (at(*second), format!("r{second}"));
            let to = version(*to);
            (ErasedPath::attribute([*name]).unwrap(), Erasure { at, to, reason })
        };
        Erasures(entries.iter().map(entry).collect())
    };
    let stored = |erasures: &Erasures| {
        let members = erasures.attribute().into_iter();
        Item::from(
            members
                .map(|(name, value)| (name.to_owned(), value))
                .collect::<HashMap<_, _>>(),
        )
    };
    let one = erasures(&[("a", 100, 7), ("b", 100, 7)]);
    for erasures in [&one, &Erasures::default()] {
        assert_eq!(Erasures::of(&stored(erasures)).as_ref(), Some(erasures));
    }
    let expected = json!({"Erasures": {"M": {r#"["Attribute","a"]"#: {"M": {
        "At": {"S": at(100).to_string()}, "Reason": {"S": "r100"}, "To": {"N": "7"},
    }}}}});
    assert_eq!(stored(&erasures(&[("a", 100, 7)])), item(expected));
    for invalid in [json!({"S": "x"}), json!({"M": {r#"["Attribute","a"]"#: {"M": {}}}})] {
        assert_eq!(Erasures::of(&item(json!({"Erasures": invalid}))), None, "{invalid}");
    }
    let later = erasures(&[("a", 200, 3), ("c", 50, 9)]);
    let mut both = erasures(&[("a", 200, 7), ("b", 100, 7), ("c", 50, 9)]);
    assert_eq!((one.max(&later), later.max(&one)), (both.clone(), both.clone()));
    both.0.remove(&path(r#"["Attribute","c"]"#));

    let names = |erasures: Erasures| {
        erasures
            .0
            .keys()
            .map(|path| path.names()[0].clone())
            .collect::<String>()
    };
    for (number, purged, covering) in [
        (7, None, "ab"),
        (8, None, ""),
        (7, Some(110), "ab"),
        (7, Some(111), "a"),
        (7, Some(211), ""),
    ] {
        let found = both.of_version(version(number), purged.map(at));
        assert_eq!(names(found), covering, "{number} {purged:?}");
    }
    for (created, covering) in [
        (Some(110_000), "ab"),
        (Some(110_001), "a"),
        (Some(210_001), ""),
        (None, "ab"),
    ] {
        let found = both.of_record(created.map(EpochMillis::new));
        assert_eq!(names(found), covering, "{created:?}");
    }
}

#[test]
fn what_a_state_lacks_is_kept_at_erased_paths() {
    // Of an attached table, `Actor` can be an attribute of the user.
    const CASES: &str = r#"
        [["Attribute","P"], {}, {"P": {"S": "b"}}]                -> {"P": {"S": "b"}}
        [["Attribute","P"], {"P": {"S": "a"}}, {"P": {"S": "b"}}] -> {"P": {"S": "a"}}
        [["Attribute","P","s"], {"P": {"M": {"c": {"S": "a"}}}}, {"P": {"M": {"s": {"S": "b"}, "c": {"S": "b"}}}}] -> {"P": {"M": {"s": {"S": "b"}, "c": {"S": "a"}}}}
        [["Attribute","P","s"], {"P": {"S": "a"}}, {"P": {"M": {"s": {"S": "b"}}}}] -> {"P": {"S": "a"}}
        [["Attribute","P","s"], {}, {"P": {"M": {"c": {"S": "b"}}}}] -> {}
        [["Metadata","Actor"], {}, {"Actor": {"S": "b"}}]         -> {}
    "#;
    for (case, expected) in testkit::cases::cases(CASES) {
        let mut state = item(case[1].clone());
        keep(
            state.inner_mut(),
            item(case[2].clone()).inner(),
            [&path(&case[0].to_string())],
        );
        assert_eq!(state, item(serde_json::from_str(expected).unwrap()), "{case}");
    }
}
