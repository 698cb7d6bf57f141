use std::ops::RangeInclusive;

use serde_json::json;
use shared::{
    config::Ordering,
    domain::{AttributeValue, names},
};

use super::*;

/// Returns a latest item whose map has the requests of these versions, `r1` of version 1. `dropped`: version and time of those before.
fn item(versions: RangeInclusive<u64>, dropped: Option<(u64, i64)>) -> Item {
    let requests = versions.clone().map(|version| {
        let hash = RequestHash::of(&update(&format!("r{version}")).request_id);
        (hash.key().to_owned(), json!({"N": version.to_string()}))
    });
    let mut item = json!({
        "Latest": {"N": versions.end().to_string()}, "V0Id": {"S": "q83H"},
        "RecentRequests": {"M": requests.collect::<serde_json::Map<_, _>>()},
    });
    if let Some((version, since)) = dropped {
        item["RequestsDropped"] = json!({"N": version.to_string()});
        item["RequestsSince"] = json!({"N": since.to_string()});
    }
    serde_json::from_value(item).unwrap()
}

fn without(name: &str, mut item: Item) -> Item {
    item.remove(name);
    item
}

fn update(id: &str) -> Update {
    Update::parse(json!({"ID": "E"}), id, Ordering::Arrival).unwrap()
}

fn sent(millis: i64) -> EarlierDeliveries {
    EarlierDeliveries {
        sent: Some(EpochMillis::new(millis)),
        ..EarlierDeliveries::default()
    }
}

fn observed(items: &[Item]) -> Checked {
    let mut checked = Checked::default();
    for item in items {
        checked.observe(&sent(0), Some(item));
    }
    checked
}

/// Returns the base of an update's first attempt.
fn base(checked: &Checked, mut earlier: EarlierDeliveries, id: &str) -> Option<u64> {
    checked.add_to(&mut earlier, &update(id));
    assert_eq!(earlier.base.is_some(), earlier.incarnation.is_some());
    earlier.base.map(Version::get)
}

#[test]
fn an_update_is_in_no_version_if_it_is_covered_and_not_among_the_requests() {
    let not_sent_before = EarlierDeliveries::default();
    let dropping = || item(9..=20, Some((8, 100)));
    for (item, earlier, id, expected) in [
        (item(1..=20, None), sent(1), "new", Some(20)),
        (item(1..=20, None), sent(1), "r20", None),
        (item(1..=20, None), sent(1), "r1", None),
        (item(1..=20, None), not_sent_before, "new", None),
        (dropping(), sent(101), "new", Some(20)),
        (dropping(), sent(101), "r9", None),
        // The request of a version up to 8 can have been sent at this time.
        (dropping(), sent(100), "new", None),
        (without(names::REQUESTS_SINCE, dropping()), sent(101), "new", None),
        (without(names::RECENT_REQUESTS, dropping()), sent(101), "new", None),
        (without(names::INCARNATION, dropping()), sent(101), "new", None),
    ] {
        assert_eq!(base(&observed(&[item]), earlier, id), expected, "{id}");
    }
    assert_eq!(base(&Checked::default(), sent(1), "new"), None);
    // An update that is sent for the first time needs no knowledge, and leaves none.
    let mut checked = Checked::default();
    checked.observe(&EarlierDeliveries::default(), Some(&dropping()));
    assert!(checked.0.is_none());
}

#[test]
fn the_known_versions_have_no_gap() {
    let mut checked = observed(&[item(1..=20, None)]);
    checked.written(&update("r21"), Version::new(21).unwrap());
    assert_eq!(base(&checked, sent(1), "new"), Some(21));
    // It can be delivered again when it has left the map.
    assert_eq!(base(&checked, sent(1), "r21"), None);
    // Version 22 is of another writer.
    checked.written(&update("r23"), Version::new(23).unwrap());
    assert_eq!(base(&checked, sent(1), "new"), Some(21));
    // The map connects to version 21, and the versions before are still known.
    checked.observe(&sent(1), Some(&item(22..=30, Some((21, 100)))));
    assert_eq!(base(&checked, sent(1), "new"), Some(30));
    for id in ["r1", "r20", "r21", "r22", "r30"] {
        assert_eq!(base(&checked, sent(101), id), None, "{id}");
    }
    // It does not connect to version 30.
    checked.observe(&sent(1), Some(&item(32..=40, Some((31, 100)))));
    assert_eq!(base(&checked, sent(100), "new"), None);
    assert_eq!(base(&checked, sent(101), "new"), Some(40));
}

#[test]
fn a_latest_item_that_does_not_continue_is_forgotten() {
    let mut purged = item(1..=30, None);
    purged.insert(names::INCARNATION.to_owned(), Incarnation::from("Zm2_").value());
    for (stored, continues) in [
        (Some(item(1..=20, None)), true),
        (Some(item(121..=130, Some((120, 5)))), true),
        (Some(item(122..=130, Some((121, 5)))), false),
        (Some(item(1..=19, None)), false),
        (Some(without(names::INCARNATION, item(1..=20, None))), false),
        (Some(purged), false),
        (None, false),
    ] {
        let mut checked = observed(&[item(1..=20, None)]);
        let mut earlier = sent(1);
        checked.add_to(&mut earlier, &update("new"));
        checked.compare(&mut earlier, stored.as_ref());
        assert_eq!(
            (earlier.base.is_some(), earlier.incarnation.is_some()),
            (continues, continues),
            "{stored:?}"
        );
        assert_eq!(base(&checked, sent(1), "new").is_some(), continues, "{stored:?}");
        // The base of a later attempt is the item that was read for it.
        let mut later = EarlierDeliveries {
            base: Version::new(25),
            ..sent(1)
        };
        observed(&[item(1..=20, None)]).compare(&mut later, stored.as_ref());
        assert_eq!(later.base, Version::new(25));
    }
}

#[test]
fn a_search_adds_what_it_has_read() {
    const SENT: i64 = 1_795_328_688_100;
    let read = json!({"RequestId": {"S": "r1"}});
    let read: Item = serde_json::from_value(read).unwrap();
    // The second latest item has dropped requests of the first one.
    let (first, newest) = (item(21..=32, Some((20, SENT))), item(32..=40, Some((31, SENT))));
    let searched = |base: Option<u64>, first: &Item| {
        let earlier = EarlierDeliveries {
            base: base.and_then(Version::new),
            ..sent(SENT)
        };
        let mut searched = Searched::new(&earlier, first);
        assert_eq!(searched.since.is_none(), base.is_some());
        searched.add(first);
        searched.add(&read);
        searched
    };
    let claimed = |millis| EarlierDeliveries {
        is_claimed: true,
        ..sent(millis)
    };
    let ahead = |millis: i64| {
        let mut newest = newest.clone();
        newest.insert(names::REQUESTS_AHEAD.to_owned(), AttributeValue::N(millis.to_string()));
        newest
    };
    // Without a base, it covers updates whose versions cannot be before the first one that was read.
    for (newest, earlier, id, expected) in [
        (newest.clone(), sent(SENT), "new", Some(40)),
        (newest.clone(), sent(SENT - 1), "new", None),
        (newest.clone(), claimed(SENT), "new", Some(40)),
        (ahead(SENT - 1), claimed(SENT), "new", Some(40)),
        // It can have been applied when its time was in the future.
        (ahead(SENT), claimed(SENT), "new", None),
        (newest.clone(), sent(SENT), "r1", None),
        (newest.clone(), sent(SENT), "r21", None),
        (newest.clone(), sent(SENT), "r40", None),
        (newest.clone(), sent(SENT), "r20", Some(40)),
        (
            without(names::REQUESTS_SINCE, newest.clone()),
            sent(SENT),
            "new",
            Some(40),
        ),
    ] {
        let mut checked = observed(&[item(1..=20, None)]);
        checked.searched(searched(None, &first), &newest);
        assert_eq!(base(&checked, earlier, id), expected, "{id}");
    }
    let mut later = item(41..=45, Some((40, SENT)));
    later.insert(names::REQUESTS_AHEAD.to_owned(), AttributeValue::N(SENT.to_string()));
    let mut checked = Checked::default();
    checked.searched(searched(None, &first), &newest);
    checked.observe(&sent(SENT), Some(&later));
    let bases = [sent(SENT), claimed(SENT)].map(|earlier| base(&checked, earlier, "new"));
    assert_eq!(bases, [Some(45), None]);
    // After a base, it connects the newest latest item to what was known up to the base, and to nothing else.
    for (searched_base, expected) in [(20, Some(40)), (21, None), (19, None)] {
        let mut checked = observed(&[item(1..=20, None)]);
        checked.searched(searched(Some(searched_base), &first), &newest);
        assert_eq!(base(&checked, sent(1), "new"), expected, "{searched_base}");
        for id in ["r1", "r20", "r21", "r40"] {
            assert_eq!(base(&checked, sent(1), id), None, "{searched_base} {id}");
        }
    }
    // The entity was purged before or during the search.
    let of_other = |mut item: Item| {
        item.insert(names::INCARNATION.to_owned(), Incarnation::from("Zm2_").value());
        item
    };
    for (base, first, newest) in [
        (None, first.clone(), of_other(newest.clone())),
        (Some(20), of_other(first.clone()), of_other(newest.clone())),
        (Some(20), first.clone(), without(names::RECENT_REQUESTS, newest.clone())),
    ] {
        let mut checked = observed(&[item(1..=20, None)]);
        checked.searched(searched(base, &first), &newest);
        assert!(checked.0.is_none(), "{base:?}");
    }
}

#[test]
fn the_number_of_requests_and_entities_is_limited() {
    let many = |count: u64| item(1..=count, None);
    let max = MAX_REQUESTS as u64;
    let mut checked = observed(&[many(max)]);
    assert_eq!(base(&checked, sent(1), "new"), Some(max));
    checked.written(&update("r"), Version::new(max + 1).unwrap());
    assert!(checked.0.is_none() && observed(&[many(max + 1)]).0.is_none());
    // If there are many requests, only the requests in the map are kept. The update for which it was returned must still be covered.
    let half = max / 2;
    let next = item(half + 1..=half + 10, Some((half, 100)));
    for (count, earlier, is_renewed) in [(half, 101, false), (half + 1, 100, false), (half + 1, 101, true)] {
        let mut checked = observed(&[many(count)]);
        checked.observe(&sent(earlier), Some(&next));
        let known = checked.0.as_ref().unwrap();
        assert_eq!(known.requests.len() == 10, is_renewed, "{count} {earlier}");
        assert_eq!(known.after.get() == 100, is_renewed, "{count} {earlier}");
    }
    let entities = CheckedEntities::default();
    let entity = |index: usize| EntityId::new(format!("E{index}")).unwrap();
    let at = Duration::from_secs(1000);
    for index in 0..=MAX_ENTITIES {
        entities.keep(&entity(index), observed(&[many(1)]), at);
    }
    entities.keep(&entity(1000), Checked::default(), at);
    let is_known = |index, now| entities.take(&entity(index), now).0.is_some();
    let later = at + MAX_AGE;
    // Taking it leaves nothing behind.
    assert!(
        !is_known(0, at) && is_known(1, later) && !is_known(1, at) && is_known(MAX_ENTITIES, at) && !is_known(1000, at)
    );
    let millisecond = Duration::from_millis(1);
    assert!(!is_known(2, later + millisecond) && !is_known(3, at.saturating_sub(millisecond)));
}
