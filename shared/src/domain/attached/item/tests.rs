use serde_json::{Value, json};

use super::{super::flat::ours, *};
use crate::domain::{
    attached::{change::Principal, definition::KeyType},
    attributes::text,
    erased::Erased,
    keys::sort_key_of,
    marks, size,
    test_values::{self, item, names as names_of, nested, orders, version},
    tombstone::is_deleted,
    version_item::latest_of,
    view::VersionView,
};

fn table() -> AttachedTable {
    orders(&[("id", KeyType::S)])
}

fn state(image: Value) -> State {
    State {
        place: Place::parse("2026-11-22T06:24:48.123", "300000000000000000042").unwrap(),
        recorded_at: Some(RecordedAt::of_stream_record(1_795_328_688_000_000, version(12))),
        image: item(image),
        is_deleted: false,
        changed_by: Vec::new(),
        origin: StateOrigin::Record,
        around: None,
        omission: None,
        erased: Erased::default(),
    }
}

fn key_state() -> State {
    state(json!({"id": {"S": "a"}}))
}

fn stored_as(number: u64, state: State, compression: Compression) -> Item {
    let entity = EntityId::new(r#"{"id":"a"}"#).unwrap();
    stored(&table(), &entity, version(number), state, compression).unwrap()
}

fn stored_json(number: u64, state: State) -> Value {
    serde_json::to_value(stored_as(number, state, Compression::None)).unwrap()
}

/// Checks that the stored item has this image.
fn check_image(stored: &Item, image: &Value) {
    let expected = KnownState::Item(item(image.clone()));
    assert!(Recorded::of(stored.clone()).unwrap().state == expected);
    assert!(Recorded::of_flat(flat(stored.clone())).unwrap().state == expected);
}

#[test]
fn a_state_is_stored_with_its_record_around_the_image() {
    let image = json!({"id": {"S": "a"}, "rev": {"S": "r7"}, "TTL": {"N": "1"}, "Pinned": {"BOOL": true}});
    let deleted_by = |id: &str| State {
        is_deleted: true,
        changed_by: author_of_deletion(Principal::new(Some("Service"), id.to_owned())),
        ..key_state()
    };
    let of_old = |origin| State {
        origin,
        place: key_state().place.of_old(),
        ..key_state()
    };
    let untimed = State {
        recorded_at: None,
        ..key_state()
    };
    let (yes, old) = (json!({"BOOL": true}), json!({"S": "300000000000000000042#old"}));
    for (state, more) in [
        (
            state(image.clone()),
            json!({"ItemVersion": {"S": "r7"}, "Image": {"M": image}}),
        ),
        (
            of_old(StateOrigin::Baseline),
            json!({"Baseline": yes, "RequestId": old}),
        ),
        (of_old(StateOrigin::Missed), json!({"Missed": yes, "RequestId": old})),
        (of_old(StateOrigin::Late), json!({"Late": yes, "RequestId": old})),
        (
            deleted_by("dynamodb.amazonaws.com"),
            json!({"Deleted": yes, "Actor": {"S": "dynamodb.amazonaws.com"}, "Reason": {"S": "TTL"}}),
        ),
        (
            deleted_by("other.amazonaws.com"),
            json!({"Deleted": yes, "Actor": {"S": "other.amazonaws.com"}}),
        ),
        (untimed, json!({"RecordedAt": null})),
    ] {
        let mut expected = json!({
            "PK": {"S": "{\"id\":\"a\"}"}, "SK": {"S": "v0000000012"}, "RequestId": {"S": "300000000000000000042"},
            "Stream": {"S": "2026-11-22T06:24:48.123"}, "RecordedBy": {"S": "stream"},
            "RecordedAt": {"S": "2026-11-22T06:24:48.000012000Z"}, "Image": {"M": {"id": {"S": "a"}}},
        });
        let members = expected.as_object_mut().unwrap();
        members.extend(more.as_object().unwrap().clone());
        members.retain(|_, value| !value.is_null());
        assert_eq!(stored_json(12, state), expected);
    }
}

#[test]
fn the_author_is_the_value_of_an_attribute() {
    // Attributes of the image, and of the state before.
    const CASES: &str = r#"
        [{}, null]                                                   -> {}
        [{"by": {"S": "amy"}}, null]                                 -> {"Actor": {"S": "amy"}}
        [{"by": {"S": "amy"}, "why": {"N": "7"}}, {}]                -> {"Actor": {"S": "amy"}, "Reason": {"N": "7"}}
        [{"by": {"S": "amy"}}, {"by": {"S": "bob"}}]                 -> {"Actor": {"S": "amy"}}
        [{"by": {"S": "amy"}}, {"by": {"S": "amy"}}]                 -> {"Actor": {"S": "amy"}, "ActorUnchanged": {"BOOL": true}}
        [{"why": {"S": "x"}}, {"by": {"S": "amy"}, "why": {"S": "x"}}] -> {"Reason": {"S": "x"}}
        [{"by": {"M": {"id": {"N": "1.0"}}}}, {"by": {"M": {"id": {"N": "1"}}}}] -> {"Actor": {"M": {"id": {"N": "1.0"}}}, "ActorUnchanged": {"BOOL": true}}
        [{"by": {"SS": ["a", "b"]}}, {"by": {"SS": ["b", "a"]}}]     -> {"Actor": {"SS": ["a", "b"]}, "ActorUnchanged": {"BOOL": true}}
        [{"job": {"S": "j"}}, null]                                  -> {}
        [{"job": {"S": "j"}}, {}]                                    -> {"ChangeSet": {"S": "j"}}
        [{"job": {"S": "j"}}, {"job": {"S": "i"}}]                   -> {"ChangeSet": {"S": "j"}}
        [{"job": {"S": "j"}}, {"job": {"S": "j"}}]                   -> {}
        [{"job": {"N": "1.0"}}, {"job": {"N": "1"}}]                 -> {}
        [{"job": {"N": "1"}}, {"job": {"S": "1"}}]                   -> {"ChangeSet": {"N": "1"}}
        [{}, {"job": {"S": "j"}}]                                    -> {}
    "#;
    let authored = |mut image: Value, before: &Value| {
        let before = (!before.is_null()).then(|| item(before.clone()));
        image["id"] = json!({"S": "a"});
        State {
            changed_by: author_of_item(&table(), &item(image.clone()), before.as_ref()),
            ..state(image)
        }
    };
    for (case, expected) in testkit::cases::cases(CASES) {
        let mut stored = stored_json(12, authored(case[0].clone(), &case[1]));
        let view = VersionView::of_attached(EntityId::new("E").unwrap(), version(12), flat(item(stored.clone())));
        let json = view.to_json();
        let unchanged = expected.contains("ActorUnchanged");
        assert_eq!(
            (view.actor_unchanged, json["ActorUnchanged"] == true),
            (unchanged, unchanged),
            "{case}"
        );
        assert!(json["Attributes"].get("ActorUnchanged").is_none());
        let members = stored.as_object_mut().unwrap();
        members.retain(|name, _| ["Actor", "Reason", "ChangeSet", "ActorUnchanged"].contains(&name.as_str()));
        assert_eq!(view.change_set.is_some(), expected.contains("ChangeSet"), "{case}");
        assert_eq!(stored, serde_json::from_str::<Value>(expected).unwrap(), "{case}");
    }
    // A large value is only in the image, and an item that fits is never too large because of its author.
    let by = |bytes: usize, random: usize| {
        let mut image = json!({"by": {"S": "x".repeat(bytes)}});
        image["random"] = serde_json::to_value(test_values::random(random)).unwrap();
        stored_as(12, authored(image, &Value::Null), Compression::None)
    };
    let has_actor = |stored: &Item| stored.contains_key("Actor");
    assert_eq!([1024, 1025].map(|bytes| has_actor(&by(bytes, 0))), [true, false]);
    let large = (0..16).map(|step| by(700, size::MAX_ITEM_BYTES - 5000 + 200 * step));
    let fitting = large.filter(|stored| size::check_version_bytes(size::of_item(stored)).is_ok());
    let fitting: Vec<_> = fitting.map(|stored| has_actor(&stored)).collect();
    assert_eq!((fitting.first(), fitting.last()), (Some(&true), Some(&false)));
}

#[test]
fn a_deep_or_compressed_image_is_read_as_it_was() {
    let text = |length: usize| json!({"S": "ab".repeat(length)});
    for (deep, text, compression, name) in [
        (nested(31), text(1), Compression::None, "Image"),
        (nested(32), text(1), Compression::None, "ImageDeflate"),
        (nested(1), text(1), Compression::Deflate, "Image"),
        (nested(1), text(1000), Compression::Deflate, "ImageDeflate"),
    ] {
        let image =
            json!({"id": {"S": "a"}, "deep": deep, "no": {"N": "1.50"}, "text": text, "ImageDeflate": {"S": "u"}});
        let stored = stored_as(1, state(image.clone()), compression);
        assert!(stored.contains_key(name) && stored.contains_key("Image") == (name == "Image"));
        check_image(&stored, &image);
        let flat = serde_json::to_value(flat(stored)).unwrap();
        assert_eq!(
            (&flat["no"], &flat["item:ImageDeflate"]),
            (&image["no"], &image["ImageDeflate"])
        );
    }
}

#[test]
fn attributes_of_the_user_are_never_ours() {
    assert_eq!(ours().count(), 44);
    let names: Vec<_> = ours().chain(["item:PK", "item:", "status", "Time"]).collect();
    let user = names.iter().map(|name| ((*name).to_owned(), json!({"S": "user"})));
    let mut image: Value = user.collect();
    (image["TTL"], image["Deleted"]) = (json!({"N": "1"}), json!({"BOOL": true}));
    (image["Late"], image["Latest"]) = (json!({"BOOL": true}), json!({"N": "99"}));
    let stored = item(stored_json(3, state(image.clone())));
    let recorded = Recorded::of(stored.clone()).unwrap();
    assert_eq!((recorded.version.get(), recorded.is_late), (3, false));
    check_image(&stored, &image);
    let flat = flat(stored);
    assert!(!is_deleted(&flat) && !marks::is_marked(&flat) && !marks::is_pinned(&flat));
    for name in names {
        let is_ours = ours().any(|own| own == name) || name.starts_with("item:");
        let shown = format!("{}{name}", if is_ours { "item:" } else { "" });
        assert_eq!(serde_json::to_value(&flat[&shown]).unwrap(), image[name], "{name}");
    }
    assert_eq!(text(&flat, "PK"), Some(r#"{"id":"a"}"#));
    assert_eq!(text(&flat, "RequestId"), Some("300000000000000000042"));
    // A mark of an operator is outside of the image.
    let mut marked = item(stored_json(3, state(json!({"TTL": {"S": "user"}}))));
    marked.insert("TTL".to_owned(), n(5));
    let marked = super::flat(marked);
    assert_eq!((&marked["TTL"], text(&marked, "item:TTL")), (&n(5), Some("user")));
}

#[test]
fn the_latest_item_is_a_version_with_a_number() {
    let mut stored = item(stored_json(3, state(json!({"id": {"S": "a"}, "TTL": {"N": "1"}}))));
    stored.insert("Pinned".to_owned(), AttributeValue::Bool(true));
    let latest = latest(flat(stored), version(5));
    assert_eq!(text(&latest, "SK"), Some("v0"));
    assert!(!marks::is_marked(&latest) && !marks::is_pinned(&latest));
    assert_eq!(latest_of(&latest), Ok(version(5)));
    let view = VersionView::new(EntityId::new("E").unwrap(), version(5), latest);
    assert_eq!(view.recorded_at.unwrap().to_string(), "2026-11-22T06:24:48.000012000Z");
    assert_eq!(view.attributes["item:TTL"], n(1));
}

#[test]
fn an_item_of_another_program_has_no_place() {
    for (request_id, stream) in [
        (json!({"S": "r-1"}), json!({"S": "s"})),
        (json!({"S": "7"}), json!({"N": "1"})),
    ] {
        let other =
            item(json!({"PK": {"S": "E"}, "SK": {"S": "v0000000001"}, "RequestId": request_id, "Stream": stream}));
        let recorded = Recorded::of(other.clone()).unwrap();
        assert!(recorded.place.is_none() && recorded.state == KnownState::Item(Item::default()));
        assert_eq!(flat(other.clone()), other);
    }
    assert!(Recorded::of(item(json!({"PK": {"S": "E"}, "SK": {"S": "floor"}}))).is_none());
}

#[test]
fn a_baseline_of_a_backfill_has_no_place() {
    let image = json!({
        "id": {"S": "a"}, "rev": {"N": "4"}, "by": {"S": "amy"}, "Stream": {"S": "of the user"}, "item:Stream": {"S": "too"},
    });
    let entity = EntityId::new("{}").unwrap();
    let read_at = RecordedAt::parse("2026-11-22T06:24:48.5Z").unwrap();
    let stored = baseline(&table(), &entity, item(image.clone()), read_at, Compression::None).unwrap();
    let expected = json!({
        "PK": {"S": "{}"}, "SK": {"S": "v0000000001"}, "RequestId": {"S": "backfill#2026-11-22T06:24:48.500000000Z"},
        "Stream": {"S": "backfill"}, "RecordedBy": {"S": "backfill"}, "RecordedAt": {"S": "2026-11-22T06:24:48.500000000Z"},
        "Baseline": {"BOOL": true}, "Actor": {"S": "amy"}, "ItemVersion": {"N": "4"}, "Image": {"M": image},
    });
    assert_eq!(stored, item(expected));
    let expected = Recorded {
        version: Version::FIRST,
        place: None,
        is_late: false,
        recorded_at: Some(read_at),
        is_backfilled: true,
        state: KnownState::Item(item(image)),
        erased: Erased::default(),
    };
    assert_eq!(Recorded::of(stored.clone()), Some(expected.clone()));
    assert_eq!(Recorded::of_flat(flat(stored)), Some(expected));
}

#[test]
fn a_late_version_is_found_by_its_time_and_place() {
    let entity = EntityId::new("E").unwrap();
    let late = |place: &str, second: i64| State {
        place: Place::parse("2026-11-22T06:24:48.123", place).unwrap(),
        recorded_at: Some(RecordedAt::of_stream_record(second * 1_000_000, version(4))),
        origin: StateOrigin::Late,
        around: Some(Around {
            after: Some(version(2)),
            in_order: version(3),
            in_order_at: RecordedAt::parse("1970-01-01T00:00:09Z").ok(),
        }),
        ..key_state()
    };
    let key = |state: &State| {
        let entry = late_entry(&entity, version(4), state).unwrap();
        assert!(late_entry_of(&entry) == Some((version(4), state.place.clone())));
        sort_key_of(&entry).unwrap().to_owned()
    };
    let places = [("99", 1), ("7", 2), ("12", 2), (&"9".repeat(40), 2), ("1", 3)];
    let ascending = places.map(|(place, second)| late(place, second));
    assert!(ascending.iter().map(key).is_sorted_by(|a, b| a < b));
    let (from, to) = late_entries_until(ascending[2].recorded_at.unwrap());
    let is_until = ascending.each_ref().map(|state| (&from..=&to).contains(&&key(state)));
    assert_eq!(is_until, [true, true, true, true, false]);
    // Only late versions with a time have one.
    let untimed = State {
        recorded_at: None,
        ..late("7", 2)
    };
    for other in [key_state(), untimed] {
        assert!(late_entry(&entity, version(4), &other).is_none());
    }
    // A probe that meets it divides the history at the version in order.
    let (stored, other) = (item(stored_json(4, late("7", 2))), item(stored_json(4, key_state())));
    assert_eq!(
        (late_key_of(&stored), late_key_of(&other)),
        (Some(key(&late("7", 2))), None)
    );
    let mut flat = flat(stored);
    let at = RecordedAt::parse("1970-01-01T00:00:09Z").ok();
    assert_eq!(dividing(version(4), &flat), (version(3), at));
    assert_eq!(dividing(version(4), &super::flat(other)).0, version(4));
    let change = StreamChange::take(&mut flat).unwrap();
    assert_eq!(change.after, Some(version(2)));
    assert_eq!(
        names_of(&flat),
        ["PK", "RecordedAt", "RecordedBy", "RequestId", "SK", "id"]
    );
}

#[test]
fn an_omitted_state_leaves_the_key() {
    let mut large = state(json!({"id": {"S": "a"}, "rev": {"S": "r7"}, "text": {"S": "xyz"}}));
    let bytes = size::of_item(&large.image);
    assert!(large.omit(&table(), OmissionReason::TooLarge));
    assert!(!large.omit(&table(), OmissionReason::Rejected));
    let stored = stored_json(12, large);
    assert_eq!(stored["Image"], json!({"M": {"id": {"S": "a"}}}));
    let omitted = json!({"M": {"Bytes": {"N": bytes.to_string()}, "Reason": {"S": "TooLarge"}}});
    assert_eq!(stored["Omitted"], omitted);
    let stored = item(stored);
    assert!(Recorded::of(stored.clone()).unwrap().state == KnownState::Unknown);
    let view = VersionView::of_attached(EntityId::new("E").unwrap(), version(12), flat(stored));
    assert!(view.is_omitted());
    assert_eq!(
        view.record_json()["Omitted"],
        json!({"Bytes": bytes, "Reason": "TooLarge"})
    );
    assert_eq!(names_of(&view.attributes), ["id"]);
    // A key only is complete.
    assert!(!key_state().omit(&table(), OmissionReason::TooLarge));
}
