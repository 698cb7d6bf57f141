use serde_json::{Value, json};
use shared::domain::entity::EntityId;

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

fn by(actor: &str, state: &str) -> Value {
    json!({"Actor": {"S": actor}, "State": {"S": state}})
}

/// Versions 1 to 5, recorded at the seconds 10 to 50. `State` changes with 1, 3 and 5, `Deleted` with 4 and 5.
fn history() -> Vec<VersionView> {
    let mut deleted = by("amy", "b");
    deleted["Deleted"] = json!({"BOOL": true});
    [by("amy", "a"), by("ben", "a"), by("amy", "b"), deleted, by("ben", "c")]
        .into_iter()
        .zip(1..)
        .map(|(item, number)| view(number, number * 10, item))
        .collect()
}

/// Selected versions, whether each was compared, and the number of versions that were read.
fn run(mut selection: Selection, views: Vec<VersionView>) -> (Vec<(u64, &'static str)>, usize) {
    let (mut selected, mut read) = (Vec::new(), 0);
    for view in views {
        if selection.is_done() {
            break;
        }
        read += 1;
        selected.extend(selection.push(view));
    }
    selected.extend(selection.finish());
    let shown = selected.into_iter().map(|one| {
        let compared = match one.compared {
            Compared::No => "no",
            Compared::Unknown => "unknown",
            Compared::With(_) => "with",
        };
        (one.view.version.get(), compared)
    });
    (shown.collect(), read)
}

fn numbers(filter: &Filter, views: &[VersionView], oldest_first: bool) -> (Vec<u64>, usize) {
    let mut views = views.to_vec();
    if !oldest_first {
        views.reverse();
    }
    let selection = Selection::new(filter.clone(), None, oldest_first, false, None);
    let (shown, read) = run(selection, views);
    let mut numbers: Vec<_> = shown.into_iter().map(|(number, _)| number).collect();
    numbers.sort_unstable();
    (numbers, read)
}

#[test]
fn reading_ends_outside_of_the_period() {
    let filter = |since: Option<u64>, until: Option<u64>| Filter {
        since: since.map(time),
        until: until.map(time),
        ..Filter::default()
    };
    let all = history();
    // Both bounds are inclusive.
    assert_eq!(numbers(&filter(Some(30), None), &all, false), (vec![3, 4, 5], 4));
    assert_eq!(numbers(&filter(Some(31), None), &all, false), (vec![4, 5], 3));
    assert_eq!(numbers(&filter(Some(30), None), &all, true), (vec![3, 4, 5], 5));
    assert_eq!(numbers(&filter(None, Some(30)), &all, true), (vec![1, 2, 3], 4));
    assert_eq!(numbers(&filter(None, Some(30)), &all, false), (vec![1, 2, 3], 5));
    assert_eq!(numbers(&filter(Some(20), Some(40)), &all, false), (vec![2, 3, 4], 5));
    assert_eq!(numbers(&filter(Some(41), Some(49)), &all, false), (vec![], 2));
}

#[test]
fn a_time_from_the_stream_or_an_unknown_one_does_not_end_the_reading() {
    let by_stream = |number, second| view(number, second, json!({"RecordedBy": {"S": "stream"}}));
    let own = |number, second| view(number, second, json!({}));
    let views = [own(1, 10), own(2, 30), by_stream(3, 29), own(4, 0), own(5, 50)];
    let filter = Filter {
        since: Some(time(30)),
        ..Filter::default()
    };
    assert_eq!(numbers(&filter, &views, false), (vec![2, 5], 5));
    let mut selection = Selection::new(filter, None, false, false, None);
    for view in views.into_iter().rev() {
        selection.push(view);
    }
    assert_eq!(selection.undated(), [4]);
}

#[test]
fn a_version_is_compared_with_the_previous_one_wherever_it_is() {
    let selection = |oldest_first, first, limit| {
        let first = Version::new(first);
        Selection::new(Filter::default(), first, oldest_first, true, limit)
    };
    let reversed = || history().into_iter().rev().collect::<Vec<_>>();
    let three = selection(false, 3, None);
    assert_eq!(three.first_to_read(), Version::new(2));
    assert_eq!(
        run(three, reversed()[..4].to_vec()).0,
        [(5, "with"), (4, "with"), (3, "with")]
    );
    assert_eq!(run(selection(true, 3, None), history()).0.len(), 3);
    // The previous version was pruned.
    assert_eq!(
        run(selection(false, 3, None), reversed()[..3].to_vec()).0,
        [(5, "with"), (4, "with"), (3, "unknown")]
    );
    assert_eq!(
        run(selection(true, 3, None), history()[2..4].to_vec()).0,
        [(3, "unknown"), (4, "with")]
    );
    // One more version is read than the limit.
    let two = selection(false, 1, Some(2));
    assert_eq!((two.first_to_read(), two.count_to_read()), (None, Some(3)));
    assert_eq!(run(two, reversed()), (vec![(5, "with"), (4, "with")], 3));
    assert_eq!(
        run(selection(true, 1, Some(2)), history()),
        (vec![(1, "with"), (2, "with")], 2)
    );
}
