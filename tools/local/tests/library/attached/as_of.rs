//! Reads of the state at a time, also with late versions and after pruning: the result and the number of reads.

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use operations::{
    prune::{EntityPrune, Options, Rule, requests::raise_floor},
    rate_limit::RateLimiter,
};
use serde_json::Value;
use shared::{
    domain::{attached::item::Recorded, recorded_at::RecordedAt, version::Version},
    dynamodb::read::versions::ReadError,
};
use stream_fn::response::Outcome;
use testkit::attached::Orders;

use super::{handle, metered, record, redrive};

const START: i64 = 1_795_328_688;

/// Returns the records of changes of an order at these seconds, each to another state.
fn records(no: u64, seconds: &[i64]) -> Vec<Value> {
    let of = |(index, second): (usize, &i64)| {
        let (old, new) = (index.checked_sub(1).map(|index| index.to_string()), index.to_string());
        let second = u64::try_from(START + second).unwrap();
        record(no, index as u64, second, old.as_deref(), Some(&new))
    };
    seconds.iter().enumerate().map(of).collect()
}

/// Returns the time of the last version of a second.
fn second(second: i64) -> RecordedAt {
    RecordedAt::of_stream_record((START + second) * 1_000_000 + 999_999, Version::FIRST)
}

#[test]
fn a_read_at_a_time_needs_one_read_per_bisection_also_with_late_versions() {
    const VERSIONS: i64 = 400;
    let orders = Orders::new("vzero");
    let (client, meter) = metered(&orders);
    let (store, entity, writer) = (orders.store().with_client(client), orders.entity(1), orders.writer());
    // Single late ones, and a run of them.
    let is_late = |index: usize| index % 90 == 7 || (200..230).contains(&index);
    let all = records(1, &(0..VERSIONS).collect::<Vec<_>>());
    let (late, delivered): (Vec<_>, Vec<_>) = all.into_iter().enumerate().partition(|(index, _)| is_late(*index));
    let delivered: Vec<_> = delivered.into_iter().map(|(_, record)| record).collect();
    for batch in delivered.chunks(100) {
        assert_eq!(orders.block_on(handle(&writer, batch)), [""; 0]);
    }
    // Returns the state and the number of reads.
    let as_of = |at: i64| {
        meter.take();
        let read = operations::as_of::as_of(&store, &entity, second(at), false);
        let found = orders.block_on(read).unwrap();
        let state = found.map(|view| serde_json::to_value(view.attributes.get("state")).unwrap()["S"].clone());
        (state, meter.take().len())
    };
    // Every other late record first.
    let (even, odd): (Vec<_>, Vec<_>) = late.into_iter().enumerate().partition(|(place, _)| place % 2 == 0);
    let late: Vec<_> = even.into_iter().chain(odd).map(|(_, (_, record))| record).collect();
    for outcome in redrive(&orders, &late) {
        assert!(matches!(outcome, Outcome::Recorded), "{outcome:?}");
    }
    for at in (0..VERSIONS).step_by(7).chain(195..235) {
        let (found, reads) = as_of(at);
        assert_eq!(found, Some(at.to_string().into()));
        assert!(reads <= 13, "{at}: {reads} reads");
    }
    assert_eq!(as_of(-1).0, None);
}

/// Returns the versions of an order in the order of their places.
fn seen(orders: &Orders, no: u64) -> Vec<Recorded> {
    let items = orders.stored(no).into_iter();
    let versions = items.filter_map(|item| Recorded::of(serde_json::from_value(item).unwrap()));
    let mut seen: Vec<_> = versions.collect();
    seen.sort_by(|a, b| a.place.cmp(&b.place));
    seen
}

/// Histories of random records, of which some come late, in any order, and of which some versions are pruned. The simulation compares
/// reads before a prune with the stream.
#[test]
fn a_read_behind_a_prune_finds_the_last_state_by_place_or_is_an_error() {
    let orders = Orders::new("vzero");
    let store = orders.store();
    for case in 1..=15 {
        let mut rng = fastrand::Rng::with_seed(case);
        let entity = orders.entity(case);
        let mut now = 0;
        let seconds = (0..rng.usize(1..30)).map(|_| {
            // Several changes of one second, and a clock that is set back.
            now += [0, 0, 1, 1, 5, -2][rng.usize(..6)];
            now
        });
        let records = records(case, &seconds.collect::<Vec<_>>());
        let share = rng.usize(1..4);
        let (mut late, mut delivered): (Vec<_>, Vec<_>) = records.into_iter().partition(|_| rng.usize(..4) < share);
        // Some late ones come between the others.
        rng.shuffle(&mut late);
        for record in late.drain(..late.len() / 2) {
            delivered.insert(rng.usize(..=delivered.len()), record);
        }
        for outcome in redrive(&orders, &[delivered, late].concat()) {
            assert!(!matches!(outcome, Outcome::Failed { .. }), "{outcome:?}");
        }
        let versions = seen(&orders, case);
        assert!(
            versions.is_sorted_by_key(|version| version.recorded_at),
            "{case}: {versions:?}"
        );
        // The versions below the floor are removed, except for a pinned one.
        let options = Options {
            rule: Rule::Keep(rng.u64(1..8)),
            grace: Duration::ZERO,
            over_gaps: false,
            dry_run: false,
        };
        let limiter = RateLimiter::unlimited();
        let prune = orders.block_on(EntityPrune::plan(&store, entity.as_str(), options, &limiter));
        let floor = prune.unwrap().plan.floor;
        orders.block_on(raise_floor(&store, &entity, floor)).unwrap();
        let below: Vec<_> = (1..floor.get()).collect();
        let pinned = (!below.is_empty() && rng.bool()).then(|| below[rng.usize(..below.len())]);
        for version in below.iter().filter(|version| Some(**version) != pinned) {
            let key = format!("v{version:010}");
            let [pk, sk] = [entity.as_str(), &key].map(|key| AttributeValue::S(key.to_owned()));
            let delete = orders.client.delete_item().table_name(&orders.history);
            orders.block_on(delete.key("PK", pk).key("SK", sk).send()).unwrap();
        }
        let kept = versions.iter();
        let mut kept = kept.filter(|seen| !seen.is_late && seen.version >= floor);
        let kept = kept.next().unwrap();
        for at in versions
            .iter()
            .filter_map(|version| version.recorded_at)
            .chain((-5..40).map(second))
        {
            let read = operations::as_of::as_of(&store, &entity, at, true);
            let found = orders.block_on(read).map(|view| view.map(|view| view.version.get()));
            let exact = versions.iter().rfind(|version| version.recorded_at <= Some(at));
            let is_exact = found == Ok(exact.map(|seen| seen.version.get()));
            let is_pruned = matches!(found, Err(ReadError::Pruned { .. }));
            let is_expected = match floor == Version::FIRST || exact.is_some_and(|seen| seen.place >= kept.place) {
                true => is_exact,
                // Beside a pinned version, the answer can be known.
                false => is_pruned || (pinned.is_some() && is_exact),
            };
            assert!(is_expected, "{case}: {at:?} {found:?} {versions:?}");
        }
    }
}
