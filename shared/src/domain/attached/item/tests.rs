use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::*;
use crate::domain::{
    attached::definition::{KeyAttribute, KeyType, Parts},
    marks,
    view::VersionView,
};

fn item(json: Value) -> Item {
    serde_json::from_value(json).unwrap()
}

fn table() -> AttachedTable {
    AttachedTable::new(Parts {
        table: "Orders".to_owned(),
        history_table: None,
        partition_key: KeyAttribute {
            name: "id".to_owned(),
            kind: KeyType::S,
        },
        sort_key: None,
        version_attribute: Some("rev".to_owned()),
        ignored: BTreeSet::new(),
        filter: None,
    })
    .unwrap()
}

fn state(image: Value) -> State {
    State {
        place: Place::parse("2026-11-22T06:24:48.123", "300000000000000000042").unwrap(),
        recorded_at: Some(RecordedAt::of_stream_record(
            1_795_328_688_000_000,
            Version::new(12).unwrap(),
        )),
        image: item(image),
        is_deleted: false,
        deleted_by: None,
        origin: StateOrigin::Record,
        around: None,
        omission: None,
    }
}

fn stored_json(number: u64, state: State) -> Value {
    let entity = EntityId::new(r#"{"id":"a"}"#).unwrap();
    let number = Version::new(number).unwrap();
    let stored = stored(&table(), &entity, number, state, Compression::None).unwrap();
    serde_json::to_value(stored).unwrap()
}

#[test]
fn a_state_is_stored_with_its_record_around_the_image() {
    let image = json!({"id": {"S": "a"}, "rev": {"S": "r7"}, "TTL": {"N": "1"}, "Pinned": {"BOOL": true}});
    let around = json!({
        "PK": {"S": "{\"id\":\"a\"}"}, "SK": {"S": "v0000000012"}, "RequestId": {"S": "300000000000000000042"},
        "Stream": {"S": "2026-11-22T06:24:48.123"}, "RecordedBy": {"S": "stream"},
        "RecordedAt": {"S": "2026-11-22T06:24:48.000012000Z"},
    });
    let with = |more: Value| {
        let mut expected = around.clone();
        expected
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        expected
    };
    let expected = with(json!({"ItemVersion": {"S": "r7"}, "Image": {"M": image}}));
    assert_eq!(stored_json(12, state(image.clone())), expected);
    for (origin, name) in [
        (StateOrigin::Baseline, "Baseline"),
        (StateOrigin::Missed, "Missed"),
        (StateOrigin::Late, "Late"),
    ] {
        let of_old = State {
            origin,
            place: state(json!({})).place.of_old(),
            ..state(json!({"id": {"S": "a"}}))
        };
        let mut expected = with(json!({"Image": {"M": {"id": {"S": "a"}}}}));
        (expected[name], expected["RequestId"]) = (json!({"BOOL": true}), json!({"S": "300000000000000000042#old"}));
        assert_eq!(stored_json(12, of_old), expected);
    }
    for (id, reason) in [("dynamodb.amazonaws.com", Some("TTL")), ("other.amazonaws.com", None)] {
        let deleted = State {
            is_deleted: true,
            deleted_by: Some(Principal::new(Some("Service"), id.to_owned())),
            ..state(json!({"id": {"S": "a"}}))
        };
        let mut expected = with(json!({"Deleted": {"BOOL": true}, "Image": {"M": {"id": {"S": "a"}}}}));
        expected["Actor"] = json!({"S": id});
        if let Some(reason) = reason {
            expected["Reason"] = json!({"S": reason});
        }
        assert_eq!(stored_json(12, deleted), expected);
    }
    let untimed = State {
        recorded_at: None,
        ..state(json!({"id": {"S": "a"}}))
    };
    assert!(stored_json(1, untimed).get("RecordedAt").is_none());
}

#[test]
fn a_deep_image_is_compressed() {
    let nested = |levels: usize| (1..levels).fold(json!({"S": "x"}), |inner, _| json!({"L": [inner]}));
    for (levels, name) in [(31, "Image"), (32, "ImageDeflate")] {
        let image = json!({"id": {"S": "a"}, "deep": nested(levels), "no": {"N": "1.50"}});
        let stored = stored_json(1, state(image.clone()));
        assert!(stored.get(name).is_some(), "{levels}");
        let recorded = Recorded::of(item(stored.clone())).unwrap();
        assert!(recorded.state == KnownState::Item(item(image.clone())));
        let flat = serde_json::to_value(flat(item(stored))).unwrap();
        assert_eq!((&flat["deep"], &flat["no"]), (&image["deep"], &image["no"]));
    }
}

#[test]
fn a_compressed_state_is_read_as_it_was() {
    let image = json!({"id": {"S": "a"}, "text": {"S": "ab".repeat(1000)}, "ImageDeflate": {"S": "of the user"}});
    let entity = EntityId::new(r#"{"id":"a"}"#).unwrap();
    let of = |state| stored(&table(), &entity, Version::FIRST, state, Compression::Deflate).unwrap();
    let stored = of(state(image.clone()));
    assert!(stored.contains_key("ImageDeflate") && !stored.contains_key("Image"));
    assert!(Recorded::of(stored.clone()).unwrap().state == KnownState::Item(item(image.clone())));
    let flat = flat(stored);
    assert_eq!(flat["item:ImageDeflate"], s("of the user"));
    assert!(Recorded::of_flat(flat).unwrap().state == KnownState::Item(item(image)));
    assert!(of(state(json!({"id": {"S": "a"}}))).contains_key("Image"));
}

#[test]
fn attributes_of_the_user_are_never_ours() {
    let names = OURS.iter().copied().chain(["item:PK", "item:", "status", "Time"]);
    let image: Value = names
        .clone()
        .map(|name| (name.to_owned(), json!({"S": "user"})))
        .collect();
    let mut image = image;
    (image["TTL"], image["Deleted"]) = (json!({"N": "1"}), json!({"BOOL": true}));
    (image["Late"], image["Latest"]) = (json!({"BOOL": true}), json!({"N": "99"}));
    let stored = item(stored_json(3, state(image.clone())));
    let recorded = Recorded::of(stored.clone()).unwrap();
    assert_eq!((recorded.version.get(), recorded.is_late), (3, false));
    assert!(recorded.state == KnownState::Item(item(image.clone())));
    let flat = flat(stored);
    assert!(!is_deleted(&flat) && !marks::is_marked(&flat) && !marks::is_pinned(&flat));
    for name in names {
        let is_ours = OURS.contains(&name) || name.starts_with("item:");
        let shown = if is_ours {
            format!("item:{name}")
        } else {
            name.to_owned()
        };
        assert_eq!(serde_json::to_value(&flat[&shown]).unwrap(), image[name], "{name}");
    }
    assert_eq!(text(&flat, "PK"), Some(r#"{"id":"a"}"#));
    assert_eq!(text(&flat, "RequestId"), Some("300000000000000000042"));
    // A mark of an operator is outside of the image.
    let mut marked = item(stored_json(3, state(json!({"TTL": {"S": "user"}}))));
    marked.insert("TTL".to_owned(), AttributeValue::N("5".to_owned()));
    let marked = super::flat(marked);
    assert_eq!(marked["TTL"], AttributeValue::N("5".to_owned()));
    assert_eq!(text(&marked, "item:TTL"), Some("user"));
}

#[test]
fn the_latest_item_is_a_version_with_a_number() {
    let mut stored = item(stored_json(3, state(json!({"id": {"S": "a"}, "TTL": {"N": "1"}}))));
    stored.insert("Pinned".to_owned(), AttributeValue::Bool(true));
    let latest = latest(flat(stored), Version::new(5).unwrap());
    assert_eq!(text(&latest, "SK"), Some("v0"));
    assert!(!marks::is_marked(&latest) && !marks::is_pinned(&latest));
    let version = crate::domain::version_item::latest_of(&latest).unwrap();
    assert_eq!(version.get(), 5);
    let view = VersionView::new(EntityId::new("E").unwrap(), version, latest);
    assert_eq!(view.recorded_at.unwrap().to_string(), "2026-11-22T06:24:48.000012000Z");
    assert_eq!(view.attributes["item:TTL"], AttributeValue::N("1".to_owned()));
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
    let table = table();
    let image: Item = serde_json::from_value(serde_json::json!({
        "id": {"S": "a"}, "rev": {"N": "4"}, "Stream": {"S": "of the user"}, "item:Stream": {"S": "too"},
    }))
    .unwrap();
    let entity = EntityId::new("{}").unwrap();
    let read_at = RecordedAt::parse("2026-11-22T06:24:48.5Z").unwrap();
    let stored = baseline(&table, &entity, image.clone(), read_at, Compression::None).unwrap();
    let json = serde_json::to_value(&stored).unwrap();
    for (name, text) in [
        ("RequestId", "backfill#2026-11-22T06:24:48.500000000Z"),
        ("Stream", "backfill"),
        ("RecordedBy", "backfill"),
        ("RecordedAt", "2026-11-22T06:24:48.500000000Z"),
        ("SK", "v0000000001"),
    ] {
        assert_eq!(json[name]["S"], text, "{name}");
    }
    assert_eq!(
        (&json["Baseline"]["BOOL"], &json["ItemVersion"]["N"]),
        (&true.into(), &"4".into())
    );
    let expected = Recorded {
        version: Version::FIRST,
        place: None,
        is_late: false,
        recorded_at: Some(read_at),
        is_backfilled: true,
        state: KnownState::Item(image),
    };
    assert_eq!(Recorded::of(stored.clone()), Some(expected.clone()));
    assert_eq!(Recorded::of_flat(flat(stored)), Some(expected));
}

#[test]
fn a_late_version_is_found_by_its_time_and_place() {
    let entity = EntityId::new("E").unwrap();
    let version = |number: u64| Version::new(number).unwrap();
    let late = |place: &str, second: i64| State {
        place: Place::parse("2026-11-22T06:24:48.123", place).unwrap(),
        recorded_at: Some(RecordedAt::of_stream_record(second * 1_000_000, version(4))),
        origin: StateOrigin::Late,
        around: Some(Around {
            after: Some(version(2)),
            in_order: version(3),
            in_order_at: Some(RecordedAt::since_epoch(std::time::Duration::from_secs(9))),
        }),
        ..state(json!({"id": {"S": "a"}}))
    };
    let key = |state: &State| {
        let entry = late_entry(&entity, version(4), state).unwrap();
        assert!(late_entry_of(&entry) == Some((version(4), state.place.clone())));
        crate::domain::keys::sort_key_of(&entry).unwrap().to_owned()
    };
    let ascending = [
        late("99", 1),
        late("7", 2),
        late("12", 2),
        late(&"9".repeat(40), 2),
        late("1", 3),
    ];
    assert!(ascending.iter().map(key).is_sorted_by(|a, b| a < b));
    let (from, to) = late_entries_until(ascending[2].recorded_at.unwrap());
    let is_until = ascending.each_ref().map(|state| (&from..=&to).contains(&&key(state)));
    assert_eq!(is_until, [true, true, true, true, false]);
    // Only late versions with a time have one.
    assert!(late_entry(&entity, version(4), &state(json!({}))).is_none());
    let untimed = State {
        recorded_at: None,
        ..late("7", 2)
    };
    assert!(late_entry(&entity, version(4), &untimed).is_none());
    // A probe that meets it divides the history at the version in order.
    let stored = item(stored_json(4, late("7", 2)));
    assert_eq!(late_key_of(&stored), Some(key(&late("7", 2))));
    assert_eq!(late_key_of(&item(stored_json(4, state(json!({}))))), None);
    let (divides, at) = dividing(version(4), &flat(stored.clone()));
    assert_eq!(
        (divides.get(), at.unwrap().to_string().as_str()),
        (3, "1970-01-01T00:00:09.000000000Z")
    );
    assert_eq!(
        dividing(version(4), &flat(item(stored_json(4, state(json!({}))))))
            .0
            .get(),
        4
    );
    let mut flat = flat(stored);
    let change = StreamChange::take(&mut flat).unwrap();
    assert_eq!(change.after.map(Version::get), Some(2));
    assert!(
        !["After", "InOrder", "InOrderAt"]
            .iter()
            .any(|name| flat.contains_key(*name))
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
    assert_eq!(
        stored["Omitted"],
        json!({"M": {"Bytes": {"N": bytes.to_string()}, "Reason": {"S": "TooLarge"}}})
    );
    let stored = item(stored);
    assert!(Recorded::of(stored.clone()).unwrap().state == KnownState::Unknown);
    let view = VersionView::of_attached(EntityId::new("E").unwrap(), Version::new(12).unwrap(), flat(stored));
    assert!(view.is_omitted());
    assert_eq!(
        view.record_json()["Omitted"],
        json!({"Bytes": bytes, "Reason": "TooLarge"})
    );
    assert_eq!(view.attributes.keys().collect::<Vec<_>>(), ["id"]);
    // A key only is complete.
    assert!(!state(json!({"id": {"S": "a"}})).omit(&table(), OmissionReason::TooLarge));
}
