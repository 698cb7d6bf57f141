//! Load and range of states on a DynamoDB that throttles, with replayed responses.

use std::collections::BTreeSet;

use patterns::time_series::{InvalidState, LoadError, State, StateQuery, StateTime, TimeSeries};
use serde_json::{Value, json};
use shared::{
    domain::{Item, entity::EntityId},
    logging::chain,
};
use testkit::replay::Replay;

fn state(time: &str, attributes: Value) -> (EntityId, State) {
    let state = State {
        time: StateTime::parse(time).unwrap(),
        attributes: serde_json::from_value(attributes).unwrap(),
    };
    (EntityId::new("E").unwrap(), state)
}

fn second(second: usize) -> String {
    format!("2023-12-15T08:{:02}:{:02}", second / 60, second % 60)
}

fn states(count: usize) -> Vec<(EntityId, State)> {
    let numbered = |n: usize| state(&second(n), json!({"N": {"N": n.to_string()}}));
    (0..count).map(numbered).collect()
}

/// Returns the output that leaves these states unprocessed.
fn left(states: impl IntoIterator<Item = usize>) -> Value {
    let put = |n: usize| {
        let item = json!({"PK": {"S": "E"}, "SK": {"S": second(n)}, "N": {"N": n.to_string()}});
        json!({"PutRequest": {"Item": item}})
    };
    let puts: Vec<_> = states.into_iter().map(put).collect();
    json!({"UnprocessedItems": {"Table": puts}})
}

fn error(code: &str) -> Value {
    json!({"__type": code})
}

/// Loads states, and returns the result, the progress, and the numbers of the states in each request.
async fn load(
    states: &[(EntityId, State)],
    responses: impl IntoIterator<Item = Value>,
) -> (Result<u64, LoadError>, Vec<u64>, Vec<Vec<usize>>) {
    let replay = Replay::new(responses);
    let mut counts = Vec::new();
    let series = TimeSeries::new(replay.client(), "Table");
    let loaded = series.load(states, |stored| counts.push(stored)).await;
    let number = |put: &Value| {
        put["PutRequest"]["Item"]["N"]["N"]
            .as_str()
            .unwrap_or("0")
            .parse()
            .unwrap()
    };
    let bodies = replay.bodies().into_iter();
    let puts = bodies.map(|body| {
        body["RequestItems"]["Table"]
            .as_array()
            .unwrap()
            .iter()
            .map(number)
            .collect()
    });
    (loaded, counts, puts.collect())
}

#[tokio::test(start_paused = true)]
async fn unprocessed_states_are_sent_again_with_the_next_ones() {
    let responses = [left([3, 24]), left([]), left([30]), left([])];
    let (loaded, counts, sent) = load(&states(60), responses).await;
    let first: Vec<usize> = (0..25).collect();
    let second: Vec<usize> = [3, 24].into_iter().chain(25..48).collect();
    let third: Vec<usize> = (48..60).collect();
    // The third response leaves a state that it was not sent here, which only shows what is sent next.
    assert_eq!((loaded, counts), (Ok(60), vec![23, 48, 59, 60]));
    assert_eq!(sent, [first, second, third, vec![30]]);
    // A request has each key once.
    let is_unique = |numbers: &Vec<usize>| numbers.iter().collect::<BTreeSet<_>>().len() == numbers.len();
    assert!(sent.iter().all(is_unique));
}

#[tokio::test(start_paused = true)]
async fn throttling_ends_with_the_number_of_stored_states() {
    let throttled = || error("ProvisionedThroughputExceededException");
    let started = tokio::time::Instant::now();
    for responses in [
        // The SDK's three attempts fail, the second round leaves all states, and then DynamoDB accepts them.
        vec![throttled(), throttled(), throttled(), left(0..10), left([])],
        vec![left(0..10), left(0..10), left([])],
    ] {
        assert_eq!(load(&states(10), responses).await.0, Ok(10));
    }
    // Unprocessed states are not sent again at once.
    assert!(started.elapsed() > std::time::Duration::ZERO);
    // Another error ends a load at once.
    let nothing = std::iter::repeat_n(left(25..30), 12);
    for (count, responses, requests, reason) in [
        (
            30,
            [left([])].into_iter().chain(nothing).collect(),
            13,
            "was throttled: DynamoDB left all items unprocessed",
        ),
        (
            60,
            vec![left([]), error("AccessDeniedException")],
            2,
            "failed with AccessDeniedException",
        ),
    ] {
        let (loaded, _, sent) = load(&states(count), responses).await;
        let error = loaded.unwrap_err();
        let begin = format!("25 of {count} states are stored; load all of them again: BatchWriteItem {reason}");
        assert!(chain(&error).starts_with(&begin), "{}", chain(&error));
        assert!(matches!(error, LoadError::Service { stored: 25, states, .. } if states == count as u64));
        assert_eq!(sent.len(), requests);
    }
}

#[tokio::test]
async fn all_states_are_checked_before_the_first_request() {
    let number = || json!({"N": {"N": "1"}});
    let twice = [
        state(&second(0), number()),
        state(&second(1), number()),
        state("2023-12-15T09:00:00+01:00", number()),
    ];
    assert_eq!(load(&twice, []).await.0, Err(LoadError::Twice { first: 0, second: 2 }));
    // Another entity may have a state at the same time.
    let mut other = twice.to_vec();
    other[2].0 = EntityId::new("F").unwrap();
    assert_eq!(load(&other, [left([])]).await.0, Ok(3));
    assert_eq!(load(&[], []).await.0, Ok(0));
    let deep = (0..32).fold(json!({"N": "1"}), |deep, _| json!({"L": [deep]}));
    for (value, reason) in [
        (json!({"S": "x".repeat(400 * 1024)}), InvalidState::TooLarge.to_string()),
        (deep, "its lists and maps are deeper than 32 levels".to_owned()),
    ] {
        let states = [state(&second(0), number()), state(&second(1), json!({"A": value}))];
        let (loaded, _, sent) = load(&states, []).await;
        assert_eq!(
            chain(&loaded.unwrap_err()),
            format!("state 1 cannot be stored: {reason}")
        );
        assert!(sent.is_empty(), "{reason}");
    }
}

/// Returns a page with these items, of which some are expired, and the last key, unless it is the last page.
fn page(keys: &[&str], next: Option<&str>) -> Value {
    let key = |sort_key: &str| json!({"PK": {"S": "E"}, "SK": {"S": sort_key}});
    let item = |sort_key: &&str| match sort_key.strip_prefix("expired ") {
        Some(sort_key) => json!({"PK": {"S": "E"}, "SK": {"S": sort_key}, "TTL": {"N": "1"}}),
        None => key(sort_key),
    };
    let mut page = json!({"Items": keys.iter().map(item).collect::<Vec<_>>()});
    if let Some(next) = next {
        page["LastEvaluatedKey"] = key(next);
    }
    page
}

#[tokio::test]
async fn a_limit_reads_no_more_than_needed_and_none_reads_all_pages() {
    let first = || page(&["2023-01-01"], Some("2023-01-01"));
    for (limit, pages, limits, expected) in [
        // Not more pages, although there are more items.
        (
            Some(2),
            vec![page(&["2023-01-01", "2023-01-02"], Some("2023-01-02"))],
            json!([2]),
            &["2023-01-01", "2023-01-02"][..],
        ),
        // Pages of 1 MB: the second one needs only the rest.
        (
            Some(2),
            vec![first(), page(&["2023-01-02"], Some("2023-01-02"))],
            json!([2, 1]),
            &["2023-01-01", "2023-01-02"],
        ),
        // Expired items and other items do not count. After them, a page has no limit.
        (
            Some(2),
            vec![
                page(&["2023-01-01", "expired 2023-01-02"], Some("2023-01-02")),
                page(&["2023-01-03#note", "2023-01-04", "2023-01-05"], Some("2023-01-05")),
            ],
            json!([2, null]),
            &["2023-01-01", "2023-01-04"],
        ),
        (
            None,
            vec![first(), page(&[], Some("2023-01-02")), page(&["2023-01-03"], None)],
            json!([null, null, null]),
            &["2023-01-01", "2023-01-03"],
        ),
        // Nothing can be found, so nothing is read.
        (Some(0), vec![], json!([]), &[]),
    ] {
        let replay = Replay::new(pages);
        let query = StateQuery {
            limit,
            ..StateQuery::default()
        };
        let series = TimeSeries::new(replay.client(), "Table");
        let found = series.between(&EntityId::new("E").unwrap(), &query).await.unwrap();
        assert!(found.iter().all(|state| state.attributes == Item::default()));
        let times: Vec<_> = found.iter().map(|state| state.time.as_str()).collect();
        assert_eq!(times, expected);
        let sent: Value = replay.bodies().into_iter().map(|body| body["Limit"].clone()).collect();
        assert_eq!(sent.to_string(), limits.to_string());
    }
}
