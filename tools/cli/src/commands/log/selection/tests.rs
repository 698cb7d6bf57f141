use serde_json::{Value, json};
use shared::domain::{entity::EntityId, recorded_at::RecordedAt};

use super::*;

fn time(second: u64) -> RecordedAt {
    RecordedAt::parse(&format!("2026-01-01T00:00:{second:02}Z")).unwrap()
}

/// A version that was recorded at this second, 0 if the time is not known.
fn view(number: u64, second: u64, mut item: Value) -> VersionView {
    if second > 0 {
        item["RecordedAt"] = json!({"S": time(second).to_string()});
    }
    let item = serde_json::from_value(item).unwrap();
    VersionView::new(EntityId::new("E").unwrap(), Version::new(number).unwrap(), item)
}

/// Versions 1 to 5, recorded at the seconds 10 to 50.
fn history() -> Vec<VersionView> {
    (1..=5).map(|number| view(number, number * 10, json!({}))).collect()
}

fn period(since: u64, until: u64) -> Filter {
    let versions = VersionFilter {
        since: (since > 0).then(|| time(since)),
        until: (until > 0).then(|| time(until)),
        ..VersionFilter::default()
    };
    Filter {
        versions,
        ..Filter::default()
    }
}

/// Selects from versions in ascending order. Returns `1 4?`, with a mark if the previous version is unknown, and the number of versions that
/// were read.
fn run(selection: &mut Selection, mut views: Vec<VersionView>) -> (String, usize) {
    if !selection.oldest_first {
        views.reverse();
    }
    let (mut selected, mut read) = (Vec::new(), 0);
    for view in views {
        if selection.is_done() {
            break;
        }
        read += 1;
        selected.extend(selection.push(view));
    }
    selected.extend(selection.finish());
    let shown = selected.iter().map(|one| {
        let is_unknown = selection.compares && one.comparison.is_none();
        format!("{}{}", one.view.version, if is_unknown { "?" } else { "" })
    });
    (shown.collect::<Vec<_>>().join(" "), read)
}

#[test]
fn reading_ends_outside_of_the_period() {
    // Both bounds are inclusive.
    for (since, until, oldest_first, shown, read) in [
        (30, 0, false, "5 4 3", 4),
        (31, 0, false, "5 4", 3),
        (30, 0, true, "3 4 5", 5),
        (0, 30, true, "1 2 3", 4),
        (0, 30, false, "3 2 1", 5),
        (20, 40, false, "4 3 2", 5),
        (41, 49, false, "", 2),
    ] {
        let mut selection = Selection::new(period(since, until), None, oldest_first, false, None);
        assert_eq!(
            run(&mut selection, history()),
            (shown.to_owned(), read),
            "{since} {until}"
        );
    }
    // A time from the stream or an unknown one does not end the reading.
    let by_stream = view(3, 29, json!({"RecordedBy": {"S": "stream"}}));
    let own = |number, second| view(number, second, json!({}));
    let views = vec![own(1, 10), own(2, 30), by_stream, own(4, 0), own(5, 50)];
    let mut selection = Selection::new(period(30, 0), None, false, false, None);
    assert_eq!(run(&mut selection, views), ("5 2".to_owned(), 5));
    assert_eq!(selection.undated, [4]);
}
