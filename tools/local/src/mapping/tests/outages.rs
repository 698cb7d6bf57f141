//! Alarms in outages of writes to the table, in virtual time, with the settings of the template. `docs/reliability.md` has the
//! results. The simulation (`--outages`) runs the same outages with the functions, and checks that nothing is lost.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};

use jiff::Timestamp;
use tokio::time::Instant;

use super::*;
use crate::template::{
    Template,
    tests::alarms::{
        Monitoring, Values,
        faults::{FAILED, ITERATOR_AGE, POLLED, VISIBLE, metric},
    },
    yaml,
};

const TEMPLATE: &str = include_str!("../../../../../template.yaml");
const RELIABILITY: &str = include_str!("../../../../../docs/reliability.md");
/// The outage starts after the first minute.
const OUTAGE: Duration = Duration::from_secs(60);
const MINUTE: Duration = Duration::from_secs(60);

/// An invocation of stream-fn.
struct Attempt {
    at: Duration,
    records: Vec<usize>,
    is_failed: bool,
}

struct Outage {
    attempts: Vec<Attempt>,
    /// Records in failure documents, with the time of the document.
    moved: BTreeMap<usize, Duration>,
}

fn created(number: usize) -> Duration {
    MINUTE * u32::try_from(number - 1).unwrap()
}

/// Runs the mapping with one update a minute until ten minutes after an outage in which stream-fn cannot put items.
async fn outage(lasts: Duration) -> Outage {
    let settings = Template::parse(TEMPLATE, &[]).unwrap().mapping;
    let settings = Settings {
        filters: Filters::default(),
        ..settings
    };
    let end = OUTAGE + lasts + 10 * MINUTE;
    let updates = usize::try_from(end.as_secs() / 60).unwrap() - 1;
    let at = |number| created_after(created(number), &record(number, &format!("item-{}", number % 7)));
    let mut run = Run::new(settings, (1..=updates).map(at).collect());
    (run.in_time, run.lasts) = (true, end);
    let began = Instant::now();
    let attempts = Arc::new(Mutex::new(Vec::new()));
    let log = attempts.clone();
    let result = run
        .with(move |numbers, _| {
            let at = began.elapsed();
            let is_failed = (OUTAGE..OUTAGE + lasts).contains(&at);
            let records = numbers.iter().map(|number| number.parse().unwrap()).collect();
            log.lock().unwrap().push(Attempt { at, records, is_failed });
            match is_failed {
                true => failing(numbers),
                false => response(&json!({})),
            }
        })
        .await;
    let attempts = std::mem::take(&mut *attempts.lock().unwrap());
    let moved = result.documents.iter().flat_map(|document| {
        let time: Timestamp = document.body["timestamp"].as_str().unwrap().parse().unwrap();
        let time = Duration::from_millis(time.as_millisecond().try_into().unwrap()).saturating_sub(START);
        let numbers = numbers_of(document);
        numbers.into_iter().map(move |number| (number.parse().unwrap(), time))
    });
    Outage {
        moved: moved.collect(),
        attempts,
    }
}

impl Outage {
    fn failed(&self) -> impl Iterator<Item = &Attempt> {
        self.attempts.iter().filter(|attempt| attempt.is_failed)
    }

    /// Returns the metrics of each minute.
    fn metrics(&self, last: i64) -> Values {
        let mut values = Values::new();
        let mut add = |name, minute, value: i64| {
            let points = values.entry(metric(name, "StreamFunctionNewImages")).or_default();
            let point = points.entry(minute).or_insert(0);
            *point = match name {
                ITERATOR_AGE => value.max(*point),
                _ => value + *point,
            };
        };
        for minute in -30..=last {
            add(POLLED, minute, 0);
            if minute < 0 {
                add(ITERATOR_AGE, minute, 900);
            }
        }
        for attempt in &self.attempts {
            let minute = minute_of(attempt.at);
            let age = attempt.at.saturating_sub(created(attempt.records[0])).as_millis();
            match attempt.is_failed {
                true => add(FAILED, minute, i64::try_from(attempt.records.len()).unwrap()),
                false => add(ITERATOR_AGE, minute, i64::try_from(age).unwrap()),
            }
        }
        for moved in self.moved.values().map(|time| minute_of(*time)) {
            add("StreamMapping OnFailureDestinationDeliveredEventCount", moved, 1);
            (moved..=last).for_each(|minute| add(VISIBLE, minute, 1));
        }
        values
    }

    /// Returns the cell of the table: the alarms in their order, with the minutes since the start of the outage.
    fn cell(&self) -> String {
        let last = self.attempts.iter().map(|attempt| minute_of(attempt.at)).max().unwrap();
        let (monitoring, values) = (Monitoring::of(TEMPLATE, &[]), self.metrics(last));
        let (mut fired, mut alarms) = (BTreeSet::new(), Vec::new());
        for minute in 0..=last {
            let firing = monitoring.firing(&values, minute).into_iter();
            let new = firing.filter(|alarm| fired.insert((*alarm).to_owned()));
            alarms.extend(new.map(|alarm| format!("`{alarm}` after {} min", minute + 1 - minute_of(OUTAGE))));
        }
        match alarms.is_empty() {
            true => "none".to_owned(),
            false => alarms.join(", "),
        }
    }
}

fn minute_of(at: Duration) -> i64 {
    i64::try_from(at.as_secs()).unwrap() / 60
}

#[tokio::test(start_paused = true)]
async fn the_alarms_of_an_outage_are_documented() {
    let mut rows = Vec::new();
    for (name, seconds) in [("5 s", 5), ("5 min", 300), ("5 h", 18_000), ("13 h", 46_800)] {
        let outage = outage(Duration::from_secs(seconds)).await;
        // It waits between attempts: at most two a second in each of the two lanes.
        let attempts = u64::try_from(outage.failed().count()).unwrap();
        assert!(attempts < 4 * seconds + 40, "{name}: {attempts}");
        rows.push(format!("| {name} | {} |", outage.cell()));
    }
    let header = "| writes fail for | alarms |";
    let (_, table) = RELIABILITY.split_once(header).unwrap();
    let documented: Vec<_> = table.lines().skip(2).take_while(|line| line.starts_with('|')).collect();
    assert_eq!(documented, rows);
}

/// The times of updates in `docs/reliability.md`.
#[test]
fn a_message_is_received_five_times_in_fifteen_minutes() {
    let queue = yaml::parse(TEMPLATE).unwrap()["Resources"]["Updates"]["Properties"].clone();
    let visibility = queue["VisibilityTimeout"].as_u64().unwrap();
    let receives = queue["RedrivePolicy"]["maxReceiveCount"].as_u64().unwrap();
    assert_eq!(receives * visibility, 15 * 60);
    assert!(RELIABILITY.contains("after 15 minutes, the message moves to the dead-letter queue"));
}
