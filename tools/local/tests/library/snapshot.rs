//! Snapshots of whole tables and their differences, compared with a model and with reads of single entities.

use std::{collections::BTreeMap, time::Duration};

use operations::{
    as_of::as_of,
    rate_limit::RateLimiter,
    segments::Plan,
    snapshot::{
        Found, SnapshotRun,
        diff::{Compared, DiffRun},
    },
};
use serde_json::{Map, Value, json};
use shared::{
    domain::{keys::VersionDigits, plain, recorded_at::RecordedAt, view::VersionView},
    dynamodb::Store,
};
use testkit::{
    database::{Database, KEYS, at_second, entity},
    updates::{WriteMode, mode, record, update},
};

/// Versions and attributes of the entities that existed at a time.
type States = BTreeMap<String, (u64, Map<String, Value>)>;

fn state(view: &VersionView) -> (String, (u64, Map<String, Value>)) {
    let state = (view.version.get(), plain::attributes(&view.attributes));
    (view.entity.as_str().to_owned(), state)
}

/// Returns the end of a second.
fn time(second: u64) -> RecordedAt {
    RecordedAt::since_epoch(Duration::from_secs(second)).after(Duration::from_nanos(999_999_999))
}

async fn snapshot(store: &Store, second: u64) -> States {
    let limiter = RateLimiter::unlimited();
    let mut run = SnapshotRun::snapshot(Plan::new(store, &limiter), time(second), true, None).unwrap();
    let mut states = States::new();
    while let Some(found) = run.step().await.unwrap() {
        for found in found {
            let Found::State(view) = found else {
                panic!("a state is not known")
            };
            let (id, state) = self::state(&view);
            assert_eq!(states.insert(id, state), None, "an entity twice");
        }
    }
    assert_eq!(run.counts().entities, states.len() as u64);
    states
}

/// Applies changes without lists.
fn apply(attributes: &mut Map<String, Value>, changes: &Value) {
    for change in changes.as_array().unwrap() {
        let mut steps = change["Path"].as_str().unwrap().split('.');
        let last = steps.next_back().unwrap();
        let parent = steps.fold(&mut *attributes, |members, name| members[name].as_object_mut().unwrap());
        let replaced = match change["Kind"].as_str().unwrap() {
            "removed" => parent.remove(last),
            "added" | "changed" => parent.insert(last.to_owned(), change["To"].clone()),
            kind => panic!("{kind}"),
        };
        assert_eq!(replaced.unwrap_or_default(), change["From"]);
    }
}

/// Checks that the snapshots at two times have what a read of each entity finds, and that the difference makes one to the other.
/// Returns both.
pub(crate) async fn check(store: &Store, ids: &[String], seconds: [u64; 2]) -> [States; 2] {
    let [from, to] = [snapshot(store, seconds[0]).await, snapshot(store, seconds[1]).await];
    for (second, states) in seconds.into_iter().zip([&from, &to]) {
        let mut read = States::new();
        for id in ids {
            let id = match store.attached_table() {
                Some(table) => shared::domain::attached::key::parse(table, id).unwrap(),
                None => entity(id),
            };
            let view = as_of(store, &id, time(second), true).await.unwrap();
            read.extend(view.filter(|view| !view.deleted).map(|view| state(&view)));
        }
        assert_eq!(*states, read, "second {second}");
    }
    let limiter = RateLimiter::unlimited();
    let mut run = DiffRun::diff(Plan::new(store, &limiter), seconds.map(time), true).unwrap();
    let mut changed = from.clone();
    while let Some(compared) = run.step().await.unwrap() {
        for compared in compared {
            let Compared::Different(difference) = compared else {
                panic!("a state is not known")
            };
            let changes = &difference.changes().to_json()["Changes"];
            let state = changed.entry(difference.entity.as_str().to_owned()).or_default();
            let version = |view: Option<&VersionView>| view.map_or(0, |view| view.version.get());
            assert_eq!(state.0, version(difference.from.as_deref()));
            let is_changed = difference.from.is_some() && difference.to.is_some();
            assert!(!is_changed || changes.as_array().is_some_and(|changes| !changes.is_empty()));
            state.0 = version(difference.to.as_deref());
            apply(&mut state.1, changes);
        }
    }
    changed.retain(|_, (version, _)| *version > 0);
    // A new version with an equal state is no difference.
    let states = |states: &States| -> BTreeMap<_, _> {
        states
            .iter()
            .map(|(id, (_, attributes))| (id.clone(), attributes.clone()))
            .collect()
    };
    assert_eq!(states(&changed), states(&to), "{seconds:?}");
    [from, to]
}

/// Writes random histories of entities, and returns the attributes of those that exist after each second.
async fn histories(
    store: &Store,
    rng: &mut fastrand::Rng,
    ids: &[String],
) -> Vec<BTreeMap<String, Map<String, Value>>> {
    let (mut now, mut seconds) = (BTreeMap::<String, Map<String, Value>>::new(), vec![BTreeMap::new()]);
    for second in 1..=40 {
        let store = at_second(store, second);
        for _ in 0..rng.usize(..5) {
            let id = &ids[rng.usize(..ids.len())];
            let mut json = match rng.usize(..6) {
                0 => json!({"Deleted": true}),
                1 => json!({"A": null, "C": rng.u32(..3)}),
                2 => json!({"M": {"x": rng.u32(..3), "y": "same"}}),
                _ => json!({"A": rng.u32(..3)}),
            };
            let is_deleted = json["Deleted"] == true;
            if is_deleted && !now.contains_key(id) {
                continue;
            }
            let changes = json.as_object().unwrap().clone();
            json["ID"] = json!(id);
            record(&store, &update(json), mode(WriteMode::Stream)).await.unwrap();
            if is_deleted {
                now.remove(id);
                continue;
            }
            let state = now.entry(id.clone()).or_default();
            state.extend(changes);
            state.retain(|_, value| !value.is_null());
        }
        seconds.push(now.clone());
    }
    seconds
}

#[tokio::test]
async fn a_snapshot_is_the_state_of_each_entity_and_a_diff_leads_from_one_to_another() {
    let database = Database::start().await;
    let ids: Vec<_> = (0..30).map(|number| format!("E{number}")).collect();
    for (name, history) in [("One", None), ("Two", Some("Two-history"))] {
        for table in [Some(name), history].into_iter().flatten() {
            database.table(table, &KEYS).await;
        }
        let store = Store::new(
            database.client.clone(),
            database.table_name(name),
            VersionDigits::default(),
        );
        let store = store.with_history(history.map(|history| database.table_name(history)));
        let mut rng = fastrand::Rng::with_seed(7);
        let model = histories(&store, &mut rng, &ids).await;
        for _ in 0..6 {
            let mut seconds = [rng.u64(..=40), rng.u64(..=40)];
            seconds.sort_unstable();
            for (second, states) in seconds.into_iter().zip(check(&store, &ids, seconds).await) {
                let attributes = states.into_iter().map(|(id, (_, attributes))| (id, attributes));
                assert_eq!(
                    attributes.collect::<BTreeMap<_, _>>(),
                    model[usize::try_from(second).unwrap()],
                    "{name} {second}"
                );
            }
        }
    }
}
