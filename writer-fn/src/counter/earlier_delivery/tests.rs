use serde_json::json;

use super::*;

fn stored(latest: u64, dropped: Option<u64>, since: Option<i64>) -> Item {
    let mut item = json!({"Latest": {"N": latest.to_string()}, "RecentRequests": {"M": {}}});
    if let Some(dropped) = dropped {
        item["RequestsDropped"] = json!({"N": dropped.to_string()});
    }
    if let Some(since) = since {
        item["RequestsSince"] = json!({"N": since.to_string()});
    }
    serde_json::from_value(item).unwrap()
}

#[test]
fn an_update_needs_history_if_the_map_can_have_dropped_its_request() {
    let time = |millis| RecordedAt::from_millis(EpochMillis::new(millis));
    let first = EarlierDeliveries::default();
    let late = EarlierDeliveries {
        sent: Some(EpochMillis::new(5)),
        ..first.clone()
    };
    let after = |before, first| EarlierDeliveries {
        unanswered: Some(time(first)),
        ..before
    };
    let unanswered = after(first.clone(), 950);
    let base = |number| EarlierDeliveries {
        base: Version::new(number),
        ..late.clone()
    };
    // Known facts, latest item, whether the condition holds, and whether the map is complete.
    for (earlier, item, holds, is_complete) in [
        (first.clone(), stored(30, Some(20), Some(9)), true, true),
        (late.clone(), stored(30, None, None), true, true),
        (late.clone(), stored(30, Some(20), Some(4)), true, true),
        // The dropped request can be the same one.
        (late.clone(), stored(30, Some(20), Some(5)), false, false),
        (unanswered.clone(), stored(30, None, None), true, true),
        (unanswered.clone(), stored(30, Some(1), Some(899)), true, true),
        (unanswered.clone(), stored(30, Some(1), Some(900)), true, false),
        // The first attempt was before the time that the sender claims.
        (after(late.clone(), 3), stored(30, Some(20), Some(3)), true, false),
        (base(25), stored(30, None, Some(9)), true, true),
        (base(25), stored(30, Some(25), Some(9)), true, true),
        (base(25), stored(30, Some(26), Some(9)), false, false),
        (base(25), stored(30, Some(26), Some(4)), false, true),
        // It was not sent before, and each attempt has failed.
        (
            EarlierDeliveries { sent: None, ..base(25) },
            stored(30, Some(26), Some(9)),
            false,
            true,
        ),
        // The latest item was replaced by an older one.
        (base(25), stored(24, Some(20), Some(9)), false, true),
    ] {
        assert_eq!(
            rules::hold(|expression| earlier.add_to(expression), Some(&item)),
            holds,
            "{earlier:?} {item:?}"
        );
        assert_eq!(earlier.is_complete_in(Some(&item)), is_complete, "{earlier:?} {item:?}");
    }
    assert!(rules::hold(|expression| late.add_to(expression), None) && late.is_complete_in(None));
    // Another program removed the map.
    let mut without_map = stored(30, Some(20), Some(4));
    without_map.remove(names::RECENT_REQUESTS);
    assert!(!late.is_complete_in(Some(&without_map)));
    let read = unanswered.after_check(Some(&stored(30, None, None))).unwrap();
    assert_eq!(read.base, Version::new(30));
}

#[test]
fn a_time_after_the_clock_of_the_writer_is_not_used() {
    let now = RecordedAt::from_millis(EpochMillis::new(1_795_328_688_000));
    let earliest = |sent| bounded(SentAt::exactly(EpochMillis::new(sent)), now).earliest.get();
    assert_eq!(earliest(1_795_328_693_000), 1_795_328_693_000);
    assert!(earliest(1_795_328_694_000) < 1_795_328_600_000);
}
