//! Load and range of states on a DynamoDB that throttles, with replayed responses.

use patterns::time_series::{InvalidState, LoadError, State, StateQuery, StateTime, TimeSeries};
use serde_json::{Value, json};
use shared::{
    domain::{Item, entity::EntityId},
    logging::chain,
};
use testkit::replay::Replay;

fn replaying(responses: impl IntoIterator<Item = Value>) -> (TimeSeries, Replay) {
    let replay = Replay::new(responses);
    (TimeSeries::new(replay.client(), "Table"), replay)
}

fn entity() -> EntityId {
    EntityId::new("E").unwrap()
}

fn state(time: &str, attributes: Value) -> (EntityId, State) {
    let state = State {
        time: StateTime::parse(time).unwrap(),
        attributes: serde_json::from_value(attributes).unwrap(),
    };
    (entity(), state)
}

fn second(second: usize) -> String {
    format!("2023-12-15T08:{:02}:{:02}", second / 60, second % 60)
}

fn states(count: usize) -> Vec<(EntityId, State)> {
    (0..count)
        .map(|n| state(&second(n), json!({"N": {"N": n.to_string()}})))
        .collect()
}

fn put(n: usize) -> Value {
    let item = json!({"PK": {"S": "E"}, "SK": {"S": second(n)}, "N": {"N": n.to_string()}});
    json!({"PutRequest": {"Item": item}})
}

/// Returns the output that leaves these states unprocessed.
fn left(states: impl IntoIterator<Item = usize>) -> Value {
    let puts: Vec<_> = states.into_iter().map(put).collect();
    json!({"UnprocessedItems": {"Table": puts}})
}

/// Returns the numbers of the states in each request.
fn sent(replay: &Replay) -> Vec<Vec<usize>> {
    let number = |put: &Value| put["PutRequest"]["Item"]["N"]["N"].as_str().unwrap().parse().unwrap();
    let bodies = replay.bodies();
    let puts = bodies
        .iter()
        .map(|body| body["RequestItems"]["Table"].as_array().unwrap());
    puts.map(|puts| puts.iter().map(number).collect()).collect()
}

#[tokio::test(start_paused = true)]
async fn unprocessed_states_are_sent_again_with_the_next_ones() {
    let (series, replay) = replaying([left([3, 24]), left([]), left([30]), left([])]);
    let mut counts = Vec::new();
    let stored = series.load(&states(60), |stored| counts.push(stored)).await;
    assert_eq!(stored, Ok(60));
    let first: Vec<usize> = (0..25).collect();
    let second: Vec<usize> = [3, 24].into_iter().chain(25..48).collect();
    let third: Vec<usize> = (48..60).collect();
    // The third response leaves a state that it was not sent here, which only shows what is sent next.
    assert_eq!(sent(&replay), [first, second, third, vec![30]]);
    assert_eq!(counts, [23, 48, 59, 60]);
    // A request has each key once.
    for numbers in sent(&replay) {
        let unique: std::collections::BTreeSet<_> = numbers.iter().collect();
        assert_eq!(unique.len(), numbers.len());
    }
}

#[tokio::test(start_paused = true)]
async fn throttling_ends_with_the_number_of_stored_states() {
    let throttled = || json!({"__type": "ProvisionedThroughputExceededException"});
    // The SDK's three attempts fail, the second round leaves all states, and then DynamoDB accepts them.
    let (series, _) = replaying([throttled(), throttled(), throttled(), left(0..10), left([])]);
    assert_eq!(series.load(&states(10), |_| ()).await, Ok(10));
    // Unprocessed states are not sent again at once.
    let (series, _) = replaying([left(0..10), left(0..10), left([])]);
    let started = tokio::time::Instant::now();
    assert_eq!(series.load(&states(10), |_| ()).await, Ok(10));
    assert!(started.elapsed() > std::time::Duration::ZERO);

    let nothing = std::iter::repeat_n(left(25..30), 12);
    let (series, replay) = replaying([left([])].into_iter().chain(nothing));
    let error = series.load(&states(30), |_| ()).await.unwrap_err();
    assert!(matches!(
        error,
        LoadError::Service {
            stored: 25,
            states: 30,
            ..
        }
    ));
    assert_eq!(
        chain(&error),
        "25 of 30 states are stored; load all of them again: BatchWriteItem was throttled: DynamoDB left all items unprocessed"
    );
    assert_eq!(replay.bodies().len(), 13);
}

#[tokio::test(start_paused = true)]
async fn another_error_ends_a_load_at_once() {
    let denied = json!({"__type": "AccessDeniedException"});
    let (series, replay) = replaying([left([]), denied]);
    let error = series.load(&states(60), |_| ()).await.unwrap_err();
    assert!(matches!(
        error,
        LoadError::Service {
            stored: 25,
            states: 60,
            ..
        }
    ));
    assert!(chain(&error).contains("BatchWriteItem failed with AccessDeniedException"));
    assert_eq!(replay.bodies().len(), 2);
}

#[tokio::test]
async fn all_states_are_checked_before_the_first_request() {
    let number = || json!({"N": {"N": "1"}});
    let twice = [
        state(&second(0), number()),
        state(&second(1), number()),
        state("2023-12-15T09:00:00+01:00", number()),
    ];
    let (series, replay) = replaying([]);
    let error = series.load(&twice, |_| ()).await.unwrap_err();
    assert_eq!(error, LoadError::Twice { first: 0, second: 2 });
    // Another entity may have a state at the same time.
    let mut other = twice.to_vec();
    other[2].0 = EntityId::new("F").unwrap();
    assert_eq!(replaying([left([])]).0.load(&other, |_| ()).await, Ok(3));

    let mut deep = json!({"N": "1"});
    for _ in 0..32 {
        deep = json!({"L": [deep]});
    }
    for (attributes, reason) in [
        (json!({"A": {"SS": []}}), InvalidState::EmptySet),
        (
            json!({"A": {"M": {"B": {"L": [{"SS": ["x", "x"]}]}}}}),
            InvalidState::RepeatedValue,
        ),
        (json!({"A": {"NS": ["1", "1.0"]}}), InvalidState::RepeatedValue),
        (json!({"A": {"BS": ["AA==", "AA=="]}}), InvalidState::RepeatedValue),
        (json!({"A": {"N": "x"}}), InvalidState::Number),
        (json!({"A": {"S": "x".repeat(400 * 1024)}}), InvalidState::TooLarge),
    ] {
        let states = [state(&second(0), number()), state(&second(1), attributes)];
        let error = series.load(&states, |_| ()).await.unwrap_err();
        let expected = LoadError::Invalid {
            index: 1,
            source: reason.clone(),
        };
        assert_eq!(error, expected, "{reason}");
    }
    let error = series
        .load(&[state(&second(0), json!({"A": deep}))], |_| ())
        .await
        .unwrap_err();
    assert_eq!(
        chain(&error),
        "state 0 cannot be stored: its lists and maps are deeper than 32 levels"
    );
    assert!(replay.bodies().is_empty());
    // Sets with different values, and no states at all.
    let sets = json!({"A": {"NS": ["1", "2"]}, "B": {"SS": ["", "x"]}, "C": {"BS": ["AA==", "AQ=="]}});
    assert_eq!(
        replaying([left([])]).0.load(&[state(&second(0), sets)], |_| ()).await,
        Ok(1)
    );
    assert_eq!(series.load(&[], |_| ()).await, Ok(0));
}

fn page(keys: &[&str], next: Option<&str>) -> Value {
    let key = |sort_key: &str| json!({"PK": {"S": "E"}, "SK": {"S": sort_key}});
    let items: Vec<_> = keys
        .iter()
        .map(|sort_key| match sort_key.strip_prefix("expired ") {
            Some(sort_key) => {
                let mut item = key(sort_key);
                item["TTL"] = json!({"N": "1"});
                item
            }
            None => key(sort_key),
        })
        .collect();
    let mut page = json!({"Items": items});
    if let Some(next) = next {
        page["LastEvaluatedKey"] = key(next);
    }
    page
}

async fn between(series: &TimeSeries, query: &StateQuery) -> Vec<String> {
    let states = series.between(&entity(), query).await.unwrap();
    assert!(states.iter().all(|state| state.attributes == Item::default()));
    states.into_iter().map(|state| state.time.to_string()).collect()
}

#[tokio::test]
async fn a_limit_reads_no_more_than_needed_and_none_reads_all_pages() {
    let limit = |limit| StateQuery {
        limit,
        ..StateQuery::default()
    };
    // Not more pages, although there are more items.
    let (series, replay) = replaying([page(&["2023-01-01", "2023-01-02"], Some("2023-01-02"))]);
    assert_eq!(between(&series, &limit(Some(2))).await, ["2023-01-01", "2023-01-02"]);
    assert_eq!(replay.bodies()[0]["Limit"], 2);

    // Pages of 1 MB: the second one needs only the rest.
    let pages = [
        page(&["2023-01-01"], Some("2023-01-01")),
        page(&["2023-01-02"], Some("2023-01-02")),
    ];
    let (series, replay) = replaying(pages);
    assert_eq!(between(&series, &limit(Some(2))).await.len(), 2);
    assert_eq!(replay.bodies()[1]["Limit"], 1);

    // Expired items and other items do not count. After them, a page has no limit.
    let pages = [
        page(&["2023-01-01", "expired 2023-01-02"], Some("2023-01-02")),
        page(&["2023-01-03#note", "2023-01-04", "2023-01-05"], Some("2023-01-05")),
    ];
    let (series, replay) = replaying(pages);
    assert_eq!(between(&series, &limit(Some(2))).await, ["2023-01-01", "2023-01-04"]);
    assert!(replay.bodies()[1].get("Limit").is_none());

    let pages = [
        page(&["2023-01-01"], Some("2023-01-01")),
        page(&[], Some("2023-01-02")),
        page(&["2023-01-03"], None),
    ];
    let (series, replay) = replaying(pages);
    assert_eq!(between(&series, &limit(None)).await, ["2023-01-01", "2023-01-03"]);
    assert_eq!(replay.bodies().len(), 3);

    // Nothing can be found, so nothing is read.
    let (series, replay) = replaying([]);
    assert!(between(&series, &limit(Some(0))).await.is_empty());
    assert!(replay.bodies().is_empty());
}
