//! Reads of the state at a time, also with late versions and after pruning: the result and the number of reads.

use operations::{
    prune::{
        plan::Keep,
        requests::{plan_prune, raise_floor},
    },
    rate_limit::RateLimiter,
};
use serde_json::{Value, json};
use shared::{
    domain::{attached::change::Place, entity::EntityId, recorded_at::RecordedAt, version::Version, view::VersionView},
    dynamodb::{
        Store,
        read::{history::HistoryQuery, versions::ReadError},
    },
};
use stream_fn::{HistoryWriter, response::Outcome};

use super::{Change, Orders, deadline, handle, keys, record};

const START: i64 = 1_795_328_688;

/// Returns the records of changes of one item at these seconds, each to another state.
fn records(case: u64, seconds: &[i64]) -> Vec<Value> {
    let state = |index: usize| Some((u8::try_from(index % 251).unwrap(), 0));
    let of = |(index, second): (usize, &i64)| {
        let change = Change {
            item: 0,
            number: (99_999_999_999_999_999_000_u128 + index as u128).to_string(),
            old: index.checked_sub(1).and_then(state),
            new: state(index),
            is_ttl: false,
        };
        let mut record = record(case, &change);
        record["dynamodb"]["ApproximateCreationDateTime"] = json!(START + second);
        record
    };
    seconds.iter().enumerate().map(of).collect()
}

/// Delivers records one by one, as a redrive does.
async fn redrive(store: &Store, records: &[Value]) -> Vec<Outcome> {
    let writer = HistoryWriter::from_store(store.clone());
    let mut outcomes = Vec::new();
    for record in records {
        let raw = record.to_string();
        let processed = writer.process(vec![&raw], deadline()).await;
        outcomes.extend(processed.into_iter().map(|record| record.outcome));
    }
    outcomes
}

/// Returns the time of the last version of a second.
fn second(second: i64) -> RecordedAt {
    RecordedAt::of_stream_record((START + second) * 1_000_000 + 999_999, Version::FIRST)
}

#[tokio::test]
async fn a_read_at_a_time_needs_one_read_per_bisection_also_with_late_versions() {
    const VERSIONS: i64 = 1000;
    let orders = Orders::new().await;
    let (store, entity) = (orders.store(), orders.entity(&keys(1, 0)));
    let writer = orders.writer(orders.database.client.clone());
    let records = records(1, &(0..VERSIONS).collect::<Vec<_>>());
    // Single ones, and a run of them.
    let is_late = |index: usize| index % 90 == 7 || (600..630).contains(&index);
    let select = |late: bool| -> Vec<_> {
        let selected = records.iter().enumerate().filter(|(index, _)| is_late(*index) == late);
        selected.map(|(_, record)| record.clone()).collect()
    };
    for batch in select(false).chunks(100) {
        assert_eq!(handle(&writer, batch).await, [""; 0]);
    }
    let as_of = async |at: i64| {
        orders.database.consumed();
        let found = operations::as_of::as_of(&store, &entity, second(at), false)
            .await
            .unwrap();
        let found = found.map(|view| serde_json::to_value(view.attributes.get("state")).unwrap());
        (found, orders.database.consumed().len())
    };
    let mut max_reads = 0;
    for at in (0..VERSIONS).step_by(13) {
        if !is_late(usize::try_from(at).unwrap()) {
            let (found, reads) = as_of(at).await;
            assert_eq!(found.unwrap()["N"], (at % 251).to_string());
            max_reads = max_reads.max(reads);
        }
    }
    assert!(max_reads <= 12, "{max_reads} reads");
    let late = select(true);
    let (mut odd, even): (Vec<_>, Vec<_>) = late
        .chunks(2)
        .map(|pair| (pair[0].clone(), pair.get(1).cloned()))
        .unzip();
    odd.extend(even.into_iter().flatten());
    for outcome in redrive(&store, &odd).await {
        assert!(matches!(outcome, Outcome::Recorded), "{outcome:?}");
    }
    for at in (0..VERSIONS).step_by(7).chain(595..635) {
        let (found, reads) = as_of(at).await;
        assert_eq!(found.unwrap()["N"], (at % 251).to_string(), "{at}");
        max_reads = max_reads.max(reads);
    }
    assert!(max_reads <= 14, "{max_reads} reads");
    assert_eq!(as_of(-1).await.0, None);
}

/// A version, as the model sees it.
#[derive(Debug, Clone, PartialEq)]
struct Seen {
    version: u64,
    place: Place,
    at: RecordedAt,
    is_late: bool,
}

/// Returns the versions of an item in the order of their places.
async fn seen(orders: &Orders, entity: &EntityId) -> Vec<Seen> {
    let stored = orders.stored(entity).await;
    let version = |item: &Value| {
        let text = |name: &str| item[name]["S"].as_str();
        Some(Seen {
            version: text("SK")?.strip_prefix('v')?.parse().ok()?,
            place: Place::parse(text("Stream")?, text("RequestId")?)?,
            at: RecordedAt::parse(text("RecordedAt")?).ok()?,
            is_late: item.get("Late").is_some(),
        })
    };
    let mut seen: Vec<_> = stored.iter().filter_map(version).collect();
    seen.sort_by(|a, b| a.place.cmp(&b.place));
    seen
}

/// Histories of random records, of which some come late, in any order, and of which some versions are pruned.
#[tokio::test]
async fn a_read_at_a_time_finds_the_last_state_by_place() {
    let orders = Orders::new().await;
    let store = orders.store();
    for case in 1..=60 {
        let mut rng = fastrand::Rng::with_seed(case);
        let entity = orders.entity(&keys(case, 0));
        let mut now = 0;
        let seconds: Vec<_> = (0..rng.usize(1..30))
            .map(|_| {
                // Several changes of one second, and a clock that is set back.
                now += [0, 0, 1, 1, 5, -2][rng.usize(..6)];
                now
            })
            .collect();
        let records = records(case, &seconds);
        let share = rng.usize(1..4);
        let (mut late, mut delivered): (Vec<_>, Vec<_>) = records.iter().cloned().partition(|_| rng.usize(..4) < share);
        // Some late ones come between the others.
        rng.shuffle(&mut late);
        for record in late.drain(..late.len() / 2) {
            delivered.insert(rng.usize(..=delivered.len()), record);
        }
        for outcome in redrive(&store, &[delivered, late].concat()).await {
            assert!(!matches!(outcome, Outcome::Failed { .. }), "{outcome:?}");
        }
        let versions = seen(&orders, &entity).await;
        assert!(versions.is_sorted_by_key(|version| version.at), "{case}: {versions:?}");
        one_state(&store, &entity).await;
        let model = |at: RecordedAt| versions.iter().rfind(|version| version.at <= at);
        let mut times: Vec<_> = versions.iter().map(|version| version.at).collect();
        times.extend((-5..40).map(second));
        for at in &times {
            let found = operations::as_of::as_of(&store, &entity, *at, rng.bool())
                .await
                .unwrap();
            let found = found.map(|view| view.version.get());
            assert_eq!(
                found,
                model(*at).map(|seen| seen.version),
                "{case}: {at:?} {versions:?}"
            );
        }
        // The versions below the floor are removed, except for a pinned one.
        let keep = Keep::Newest(rng.u64(1..8));
        let plan = plan_prune(&store, &entity, keep, false, &RateLimiter::unlimited()).await;
        let plan = plan.unwrap().unwrap();
        raise_floor(&store, &entity, plan.floor).await.unwrap();
        let below: Vec<_> = (1..plan.floor.get()).collect();
        let pinned = (!below.is_empty() && rng.bool()).then(|| below[rng.usize(..below.len())]);
        for version in below.iter().filter(|version| Some(**version) != pinned) {
            orders.delete(&entity, *version).await;
        }
        let before = orders.stored(&entity).await;
        for outcome in redrive(&store, &records).await {
            let is_dropped = matches!(outcome, Outcome::AlreadyRecorded | Outcome::Pruned | Outcome::Skipped);
            assert!(is_dropped, "{case}: {outcome:?}");
        }
        assert_eq!(orders.stored(&entity).await, before, "{case}");
        let kept = versions
            .iter()
            .find(|seen| !seen.is_late && seen.version >= plan.floor.get());
        let kept = kept.unwrap();
        for at in times.into_iter().filter(|_| plan.floor > Version::FIRST) {
            let found = operations::as_of::as_of(&store, &entity, at, true).await;
            match model(at).filter(|seen| seen.place >= kept.place) {
                Some(seen) => assert_eq!(found.unwrap().unwrap().version.get(), seen.version, "{case}: {at:?}"),
                // Beside a pinned version, the answer can be known.
                None => match found {
                    Err(ReadError::Pruned { .. }) => {}
                    other => {
                        let known = other.unwrap().map(|view| view.version.get());
                        let exact = model(at).map(|seen| seen.version);
                        assert!(pinned.is_some() && known == exact, "{case}: {at:?}");
                    }
                },
            }
        }
    }
}

/// Each path of a read shows the same state of a version.
async fn one_state(store: &Store, entity: &EntityId) {
    let history = store.history(entity, HistoryQuery::default()).await.unwrap().unwrap();
    let history: Vec<VersionView> = history.collect().await.unwrap();
    assert!(
        history
            .windows(2)
            .all(|pair| pair[0].version.get() == pair[1].version.get() + 1)
    );
    for view in &history {
        let single = store.version(entity, view.version, true).await.unwrap().unwrap();
        assert!(single == *view, "version {}", view.version);
    }
    let latest = store.latest(entity, true).await.unwrap().unwrap();
    let of_history = history.iter().find(|view| view.version == latest.version).unwrap();
    assert_eq!(latest.to_json(), of_history.to_json());
    let last = history.iter().find(|view| !view.is_late()).unwrap();
    assert_eq!(last.version, latest.version);
    let (newest, item) = store.newest(entity, true).await.unwrap().unwrap();
    assert_eq!(newest, history[0].version);
    let newest = VersionView::of_attached(entity.clone(), newest, item);
    assert_eq!(newest.to_json(), history[0].to_json());
}
