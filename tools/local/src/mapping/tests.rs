//! The mapping in virtual time: what was recorded on AWS, and what is decided here.

use std::{
    collections::HashMap,
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::{Value, json};
use shared::domain::sequence::SequenceNumber;
use tokio::time::Instant;

use super::{
    destination::Destination,
    failure::Document,
    filter::Filters,
    position::InMemory,
    record::Record,
    source::{Page, SourceError},
    *,
};

/// 2025-11-25T15:40:00Z
const START: Duration = Duration::from_secs(1_764_085_200);

fn fixture() -> Value {
    serde_json::from_str(include_str!("../../tests/fixtures/stream-mapping.json")).unwrap()
}

fn recorded_settings() -> Settings {
    let settings = &fixture()["settings"];
    let number = |name: &str| settings[name].as_u64().unwrap();
    Settings {
        batch_size: number("BatchSize").try_into().unwrap(),
        batching_window: Duration::from_secs(number("MaximumBatchingWindowInSeconds")),
        maximum_retry_attempts: Some(number("MaximumRetryAttempts").try_into().unwrap()),
        report_batch_item_failures: true,
        ..Settings::default()
    }
}

fn sequence(number: usize) -> String {
    format!("{number:021}")
}

/// The record of this number, of the item of this name.
fn record(number: usize, item: &str) -> Record {
    let json = json!({"dynamodb": {"Keys": {"PK": {"S": item}}, "SequenceNumber": sequence(number)}});
    Record::new(SequenceNumber::new(sequence(number)).unwrap(), START, json)
}

/// Records 1 to `count`, each of an item of its own.
fn records(count: usize) -> Vec<Record> {
    (1..=count).map(|number| record(number, &number.to_string())).collect()
}

type Shards = Vec<(Shard, Vec<Record>)>;

#[derive(Default)]
struct FakeSource {
    shards: Shards,
    /// Errors that reads return first.
    errors: Mutex<Vec<SourceError>>,
}

impl FakeSource {
    fn find(&self, shard: &str) -> &[Record] {
        &self.shards.iter().find(|(known, _)| known.id == shard).unwrap().1
    }
}

impl Source for FakeSource {
    async fn shards(&self) -> Result<Vec<Shard>, SourceError> {
        Ok(self.shards.iter().map(|(shard, _)| shard.clone()).collect())
    }

    async fn iterator(&self, shard: &str, position: &Position) -> Result<String, SourceError> {
        let records = self.find(shard);
        let index = match position {
            Position::TrimHorizon => 0,
            Position::Latest => records.len(),
            Position::After(number) => records.partition_point(|record| record.sequence_number() <= number),
        };
        Ok(format!("{shard} {index}"))
    }

    async fn read(&self, iterator: &str) -> Result<Page, SourceError> {
        if let Some(error) = self.errors.lock().unwrap().pop() {
            return Err(error);
        }
        let (shard, index) = iterator.split_once(' ').unwrap();
        let records: Vec<_> = self
            .find(shard)
            .iter()
            .skip(index.parse().unwrap())
            .take(1000)
            .cloned()
            .collect();
        let next = index.parse::<usize>().unwrap() + records.len();
        // With several shards, each ends with its records.
        let open = self.shards.len() == 1 || !records.is_empty();
        Ok(Page {
            records,
            next: open.then(|| format!("{shard} {next}")),
        })
    }
}

type Answer = dyn Fn(&[String], usize) -> (Duration, InvocationEnd) + Send + Sync;

/// When a batch arrived, and its records.
type Arrived = (Instant, Vec<String>);

/// Answers by a closure over the sequence numbers of a batch and the number of the invocation.
struct FakeFunction {
    answer: Box<Answer>,
    batches: Arc<Mutex<Vec<Arrived>>>,
}

impl Invoker for FakeFunction {
    async fn invoke(&self, payload: String) -> Invocation {
        let event: Value = serde_json::from_str(&payload).unwrap();
        let numbers: Vec<String> = event["Records"].as_array().unwrap().iter().map(number_of).collect();
        let count = {
            let mut batches = self.batches.lock().unwrap();
            batches.push((Instant::now(), numbers.clone()));
            batches.len()
        };
        let (takes, end) = (self.answer)(&numbers, count);
        tokio::time::sleep(takes).await;
        Invocation {
            request_id: format!("request-{count}"),
            end,
        }
    }
}

fn number_of(record: &Value) -> String {
    record["dynamodb"]["SequenceNumber"].as_str().unwrap().to_owned()
}

fn answer(json: &Value) -> InvocationEnd {
    InvocationEnd::Answer(json.to_string().into_bytes())
}

fn failing(numbers: &[&String]) -> InvocationEnd {
    let failures: Vec<_> = numbers.iter().map(|number| json!({"itemIdentifier": number})).collect();
    answer(&json!({"batchItemFailures": failures}))
}

#[derive(Clone, Default)]
struct Kept {
    documents: Arc<Mutex<Vec<Document>>>,
    /// How often it fails first.
    down: Arc<Mutex<usize>>,
}

impl Destination for Kept {
    async fn keep(&self, document: Document) -> io::Result<()> {
        let mut down = self.down.lock().unwrap();
        if *down > 0 {
            *down -= 1;
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        self.documents.lock().unwrap().push(document);
        Ok(())
    }
}

/// What a mapping did.
struct Ran {
    batches: Vec<(Duration, Vec<String>)>,
    documents: Vec<Document>,
    position: Option<Position>,
}

impl Ran {
    fn deliveries(&self) -> HashMap<String, usize> {
        let mut counts = HashMap::new();
        for number in self.batches.iter().flat_map(|(_, numbers)| numbers) {
            *counts.entry(number.clone()).or_insert(0) += 1;
        }
        counts
    }

    fn sizes(&self) -> Vec<usize> {
        self.batches.iter().map(|(_, numbers)| numbers.len()).collect()
    }
}

struct Run {
    settings: Settings,
    shards: Shards,
    errors: Vec<SourceError>,
    positions: InMemory,
    down: usize,
    lasts: Duration,
}

impl Run {
    fn new(settings: Settings, records: Vec<Record>) -> Self {
        let shard = Shard {
            id: "shard-1".to_owned(),
            parent: None,
        };
        Self {
            settings,
            shards: vec![(shard, records)],
            errors: Vec::new(),
            positions: InMemory::default(),
            down: 0,
            lasts: Duration::from_secs(600),
        }
    }

    async fn with(self, answer: impl Fn(&[String], usize) -> InvocationEnd + Send + Sync + 'static) -> Ran {
        self.with_delays(move |numbers, count| (Duration::ZERO, answer(numbers, count)))
            .await
    }

    async fn with_delays(
        self,
        answer: impl Fn(&[String], usize) -> (Duration, InvocationEnd) + Send + Sync + 'static,
    ) -> Ran {
        let began = Instant::now();
        let batches = Arc::new(Mutex::new(Vec::new()));
        let kept = Kept::default();
        *kept.down.lock().unwrap() = self.down;
        let mapping = Mapping {
            settings: self.settings.checked().unwrap(),
            identity: Identity {
                uuid: "mapping-1".to_owned(),
                function_arn: "arn:aws:lambda:us-east-1:000000000000:function:stream-fn".to_owned(),
                stream_arn: "arn:aws:dynamodb:us-east-1:000000000000:table/T/stream/1".to_owned(),
            },
            source: FakeSource {
                shards: self.shards,
                errors: Mutex::new(self.errors),
            },
            invoker: FakeFunction {
                answer: Box::new(answer),
                batches: batches.clone(),
            },
            destination: kept.clone(),
            positions: self.positions,
            clock: move || START + began.elapsed(),
            counters: Counters::default(),
        };
        tokio::time::timeout(self.lasts, mapping.run()).await.unwrap_err();
        let batches = batches
            .lock()
            .unwrap()
            .drain(..)
            .map(|(at, numbers)| (at - began, numbers))
            .collect();
        Ran {
            batches,
            documents: std::mem::take(&mut kept.documents.lock().unwrap()),
            position: mapping.positions.load("shard-1"),
        }
    }
}

fn after(number: usize) -> Option<Position> {
    SequenceNumber::new(sequence(number)).map(Position::After)
}

#[tokio::test(start_paused = true)]
async fn recorded_answers_that_are_success() {
    for success in fixture()["answers"]["success"].as_array().unwrap() {
        let success_answer = success.clone();
        let ran = Run::new(recorded_settings(), records(1))
            .with(move |_, _| answer(&success_answer))
            .await;
        assert_eq!(ran.sizes(), [1], "{success}");
        assert!(ran.documents.is_empty());
        assert_eq!(ran.position, after(1));
    }
    let ran = Run::new(recorded_settings(), records(1))
        .with(|_, _| InvocationEnd::Answer(Vec::new()))
        .await;
    assert_eq!(ran.sizes(), [1]);
}

#[tokio::test(start_paused = true)]
async fn recorded_answers_that_fail_the_batch() {
    let recorded = fixture();
    let deliveries = usize::try_from(recorded["one_record_that_always_fails"]["deliveries"].as_u64().unwrap()).unwrap();
    for failure in recorded["answers"]["failure_of_the_batch"].as_array().unwrap() {
        let failure_answer = failure.clone();
        let ran = Run::new(recorded_settings(), records(1))
            .with(move |_, _| answer(&failure_answer))
            .await;
        assert_eq!(ran.sizes(), vec![1; deliveries], "{failure}");
        assert_eq!(ran.documents.len(), 1);
        assert_eq!(ran.position, after(1));
    }
}

#[tokio::test(start_paused = true)]
async fn the_recorded_document_of_a_record_that_always_fails() {
    let recorded = fixture()["one_record_that_always_fails"].clone();
    let records = vec![record(1, "a")];
    let payload = record::event(&records);
    let ran = Run::new(recorded_settings(), records.clone())
        .with(|numbers, _| failing(&[&numbers[0]]))
        .await;
    let [document] = ran.documents.as_slice() else { panic!() };
    let mut body = document.body.clone();
    // A document in a bucket carries the records.
    assert_eq!(body.as_object_mut().unwrap().remove("payload"), Some(payload));
    assert_eq!(body, recorded["document"]);
    let (folder, name) = document.key.rsplit_once('/').unwrap();
    assert_eq!(folder, "aws/lambda/mapping-1/shard-1/2025/11/25");
    assert_eq!(&name[..20], "2025-11-25T15.40.01-");
    assert_eq!(name[20..].len(), 36);

    let ran = Run::new(recorded_settings(), records)
        .with(|_, _| InvocationEnd::FunctionError)
        .await;
    let error = &ran.documents[0].body["responseContext"]["functionError"];
    assert_eq!(error, &recorded["functionError_where_the_function_raised"]);
}

#[tokio::test(start_paused = true)]
async fn the_recorded_deliveries_of_six_records_of_which_the_last_always_fails() {
    let recorded = fixture()["six_records_of_which_the_last_always_fails"].clone();
    let ran = Run::new(recorded_settings(), records(6))
        .with(|numbers, _| {
            failing(
                &numbers
                    .iter()
                    .filter(|number| **number == sequence(6))
                    .collect::<Vec<_>>(),
            )
        })
        .await;
    let deliveries = ran.deliveries();
    assert_eq!(json!(deliveries[&sequence(6)]), recorded["deliveries_of_the_last"]);
    for other in 1..=5 {
        assert_eq!(
            json!(deliveries[&sequence(other)]),
            recorded["deliveries_of_each_other"]
        );
    }
    let body = &ran.documents[0].body;
    assert_eq!(
        body["requestContext"]["approximateInvokeCount"],
        recorded["approximateInvokeCount"]
    );
    assert_eq!(body["DDBStreamBatchInfo"]["batchSize"], recorded["batchSize"]);
}

/// Fails from the first bad record on, and as a whole where that is wanted.
fn bad(bad: &'static [usize], whole: bool) -> impl Fn(&[String], usize) -> InvocationEnd {
    move |numbers, _| {
        let bad: Vec<_> = numbers
            .iter()
            .filter(|number| bad.iter().any(|bad| sequence(*bad) == **number))
            .collect();
        match bad.is_empty() {
            false if whole => InvocationEnd::FunctionError,
            _ => failing(&bad),
        }
    }
}

fn bisecting() -> Settings {
    Settings {
        bisect_on_function_error: true,
        report_batch_item_failures: true,
        maximum_retry_attempts: Some(2),
        ..Settings::default()
    }
}

#[tokio::test(start_paused = true)]
async fn bad_records_are_cornered_alone() {
    for whole in [false, true] {
        for bad_ones in [&[1][..], &[57], &[100], &[1, 2, 50, 99]] {
            let ran = Run::new(bisecting(), records(100)).with(bad(bad_ones, whole)).await;
            let given_up: Vec<_> = ran
                .documents
                .iter()
                .map(|document| number_of(&document.body["payload"]["Records"][0]))
                .collect();
            let expected: Vec<_> = bad_ones.iter().map(|number| sequence(*number)).collect();
            assert_eq!(given_up, expected, "one document each, in order (whole: {whole})");
            for document in &ran.documents {
                assert_eq!(document.body["DDBStreamBatchInfo"]["batchSize"], 1);
                assert_eq!(document.body["requestContext"]["approximateInvokeCount"], 3);
            }
            assert_eq!(ran.deliveries().len(), 100);
            assert_eq!(ran.position, after(100));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn without_bisect_a_batch_is_given_up_as_it_is() {
    let settings = Settings {
        bisect_on_function_error: false,
        ..bisecting()
    };
    let ran = Run::new(settings, records(10)).with(bad(&[4], false)).await;
    assert_eq!(ran.sizes(), [10, 7, 7, 7]);
    assert_eq!(ran.documents[0].body["DDBStreamBatchInfo"]["batchSize"], 7);
    assert_eq!(ran.position, after(10));
}

#[tokio::test(start_paused = true)]
async fn without_report_batch_item_failures_every_answer_is_success() {
    let settings = Settings {
        report_batch_item_failures: false,
        ..bisecting()
    };
    let ran = Run::new(settings, records(3)).with(bad(&[2], false)).await;
    assert_eq!(ran.sizes(), [3]);
}

#[tokio::test(start_paused = true)]
async fn an_unbounded_record_is_tried_until_it_is_done() {
    let settings = Settings {
        maximum_retry_attempts: None,
        ..bisecting()
    };
    let ran = Run::new(settings, records(1))
        .with(|numbers, count| {
            if count < 300 {
                failing(&[&numbers[0]])
            } else {
                answer(&json!({}))
            }
        })
        .await;
    assert_eq!(ran.batches.len(), 300);
    assert!(ran.documents.is_empty());
}

#[tokio::test(start_paused = true)]
async fn throttles_use_up_no_retries() {
    let ran = Run::new(bisecting(), records(2))
        .with(|_, count| {
            if count <= 20 {
                InvocationEnd::NotInvoked
            } else {
                answer(&json!({}))
            }
        })
        .await;
    assert_eq!(ran.sizes(), vec![2; 21]);
    assert!(ran.documents.is_empty());
    assert_eq!(ran.position, after(2));
}

#[tokio::test(start_paused = true)]
async fn records_that_are_too_old_are_given_up_without_an_answer() {
    let settings = Settings {
        maximum_retry_attempts: None,
        maximum_record_age: Some(Duration::from_secs(60)),
        ..bisecting()
    };
    let mut young = record(3, "young");
    young = Record::new(
        young.sequence_number().clone(),
        START + Duration::from_secs(400),
        young.json().clone(),
    );
    let records = vec![record(1, "a"), record(2, "b"), young];
    let ran = Run::new(settings, records)
        .with(|_, count| {
            if count < 70 {
                InvocationEnd::NotInvoked
            } else {
                answer(&json!({}))
            }
        })
        .await;
    let [document] = ran.documents.as_slice() else { panic!() };
    assert_eq!(document.body["requestContext"]["condition"], "RecordAgeExceeded");
    assert_eq!(document.body["DDBStreamBatchInfo"]["batchSize"], 2);
    assert_eq!(document.body["DDBStreamBatchInfo"]["endSequenceNumber"], sequence(2));
    assert!(document.body.get("responseContext").is_none());
    assert_eq!(ran.position, after(3));
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_handed_over_when_it_is_full_or_its_window_ends() {
    let window = |seconds| Settings {
        batch_size: 4,
        batching_window: Duration::from_secs(seconds),
        ..Settings::default()
    };
    let ran = Run::new(window(30), records(10)).with(|_, _| answer(&json!({}))).await;
    assert_eq!(ran.sizes(), [4, 4, 2]);
    let seconds: Vec<_> = ran.batches.iter().map(|(at, _)| at.as_secs()).collect();
    assert_eq!(seconds, [0, 0, 30]);
    let ran = Run::new(window(0), records(10)).with(|_, _| answer(&json!({}))).await;
    assert!(ran.batches.iter().all(|(at, _)| at.is_zero()));
}

#[tokio::test(start_paused = true)]
async fn a_payload_stays_below_6_mb() {
    let large = |number| {
        let json = json!({"dynamodb": {"SequenceNumber": sequence(number), "NewImage": "x".repeat(2_500_000)}});
        Record::new(SequenceNumber::new(sequence(number)).unwrap(), START, json)
    };
    let ran = Run::new(Settings::default(), (1..=5).map(large).collect())
        .with(|_, _| answer(&json!({})))
        .await;
    assert_eq!(ran.sizes(), [2, 2, 1]);
}

#[tokio::test(start_paused = true)]
async fn lanes_keep_the_order_of_an_item_and_do_not_wait_for_each_other() {
    let settings = Settings {
        parallelization_factor: 10,
        batch_size: 5,
        ..bisecting()
    };
    let items = |count: usize| {
        (1..=count)
            .map(|number| record(number, &format!("item-{}", number % 7)))
            .collect()
    };
    let slow = record(1, "item-1").lane(10);
    let ran = Run::new(settings, items(70))
        .with_delays(move |numbers, _| {
            let number: usize = numbers[0].parse().unwrap();
            let is_slow = record(number, &format!("item-{}", number % 7)).lane(10) == slow;
            (Duration::from_secs(if is_slow { 100 } else { 0 }), answer(&json!({})))
        })
        .await;
    let mut by_item: HashMap<usize, Vec<usize>> = HashMap::new();
    for number in ran.batches.iter().flat_map(|(_, numbers)| numbers) {
        let number: usize = number.parse().unwrap();
        by_item.entry(number % 7).or_default().push(number);
    }
    assert_eq!(by_item.len(), 7);
    assert!(
        by_item
            .values()
            .all(|numbers| numbers.is_sorted() && numbers.len() == 10)
    );
    let at_once = ran.batches.iter().filter(|(at, _)| at.is_zero()).count();
    assert!(at_once > 5, "the other lanes did not wait: {at_once}");
    assert_eq!(ran.position, after(70));
}

#[tokio::test(start_paused = true)]
async fn filtered_records_are_not_delivered_and_move_the_position_on() {
    let filters = Filters::parse([r#"{"dynamodb":{"Keys":{"PK":{"S":["1","3"]}}}}"#]).unwrap();
    let settings = Settings {
        filters,
        ..Settings::default()
    };
    let ran = Run::new(settings, records(5)).with(|_, _| answer(&json!({}))).await;
    assert_eq!(
        ran.batches
            .iter()
            .map(|(_, numbers)| numbers.clone())
            .collect::<Vec<_>>(),
        [[sequence(1), sequence(3)]]
    );
    assert_eq!(ran.position, after(5));
}

#[tokio::test(start_paused = true)]
async fn a_mapping_goes_on_from_its_position() {
    let mut run = Run::new(Settings::default(), records(5));
    run.positions
        .save("shard-1", &SequenceNumber::new(sequence(3)).unwrap())
        .unwrap();
    run.errors = vec![
        SourceError::ExpiredIterator,
        SourceError::Unavailable("down".to_owned()),
    ];
    let ran = run.with(|_, _| answer(&json!({}))).await;
    assert_eq!(ran.batches[0].1, [sequence(4), sequence(5)]);

    let mut run = Run::new(Settings::default(), records(2));
    run.errors = vec![SourceError::Trimmed];
    assert_eq!(run.with(|_, _| answer(&json!({}))).await.sizes(), [2]);

    let latest = Settings {
        starting_position: settings::StartingPosition::Latest,
        ..Settings::default()
    };
    assert!(
        Run::new(latest, records(2))
            .with(|_, _| answer(&json!({})))
            .await
            .batches
            .is_empty()
    );
}

#[tokio::test(start_paused = true)]
async fn a_position_never_passes_what_is_not_done() {
    let mut run = Run::new(bisecting(), records(4));
    run.lasts = Duration::from_secs(30);
    // The third record hangs for longer than the mapping runs.
    let ran = run
        .with_delays(|numbers, _| {
            let stuck = numbers.contains(&sequence(3));
            let end = if stuck && numbers[0] != sequence(3) {
                failing(&[&sequence(3)])
            } else {
                answer(&json!({}))
            };
            (
                Duration::from_secs(if numbers[0] == sequence(3) { 100 } else { 0 }),
                end,
            )
        })
        .await;
    assert_eq!(ran.position, after(2));
}

#[tokio::test(start_paused = true)]
async fn the_mapping_waits_for_a_destination_that_is_down() {
    let mut run = Run::new(bisecting(), records(2));
    run.down = 5;
    let ran = run.with(bad(&[1], false)).await;
    assert_eq!(ran.documents.len(), 1);
    assert_eq!(ran.position, after(2));

    let mut run = Run::new(bisecting(), records(2));
    run.down = usize::MAX;
    let ran = run.with(bad(&[1], false)).await;
    assert_eq!(ran.position, None);
}

#[tokio::test(start_paused = true)]
async fn parents_are_read_before_their_children() {
    let shard = |id: &str, parent: Option<&str>| Shard {
        id: id.to_owned(),
        parent: parent.map(str::to_owned),
    };
    let mut run = Run::new(Settings::default(), Vec::new());
    run.shards = vec![
        (shard("child", Some("parent")), vec![record(2, "a")]),
        (shard("parent", Some("trimmed long ago")), vec![record(1, "a")]),
        (shard("grandchild", Some("child")), vec![record(3, "a")]),
    ];
    let ran = run.with(|_, _| answer(&json!({}))).await;
    let order: Vec<_> = ran.batches.iter().map(|(_, numbers)| numbers[0].clone()).collect();
    assert_eq!(order, [sequence(1), sequence(2), sequence(3)]);
}
