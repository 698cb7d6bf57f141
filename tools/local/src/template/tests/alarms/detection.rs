//! Which alarm detects which fault, and after how many minutes. `docs/operations.md` has the same table.

use serde_json::json;
use shared::config::Ordering;
use writer_fn::update::Update;

use super::{
    faults::{AFTER, Fault, HEARTBEAT, Load, faults, metric, values},
    *,
};

const OPERATIONS: &str = include_str!("../../../../../../docs/operations.md");
const STREAM: &str = "StreamFunctionNewImages";

fn monitoring(parameters: &[(&str, &str)]) -> Monitoring {
    Monitoring::of(TEMPLATE, parameters)
}

/// Returns the alarms that fire first, and the minutes until then: the most of all loads. `None` if no alarm fires under one of the loads.
fn first<'a>(monitoring: &'a Monitoring, fault: &Fault, mapping: &str) -> Option<(BTreeSet<&'a str>, i64)> {
    let of_load = |load| {
        let values = values(load, Some(fault), mapping);
        let mut fired = (0..AFTER).map(|minute| (monitoring.firing(&values, minute), minute + 1));
        fired.find(|(alarms, _)| !alarms.is_empty())
    };
    let found: Option<Vec<_>> = Load::all().map(of_load).collect();
    found?.into_iter().max_by_key(|(_, minutes)| *minutes)
}

/// Returns the first alarm of each fault and the minutes until it fires, as in the table of `docs/operations.md`.
fn documented() -> Vec<(Fault, &'static str, i64)> {
    let mut parts = OPERATIONS.split("| fault | first alarm | after |\n|---|---|---|\n");
    let table = parts.nth(1).expect("docs/operations.md has no table of faults");
    let rows: Vec<_> = table.lines().take_while(|line| line.starts_with('|')).collect();
    let faults = faults();
    assert_eq!(rows.len(), faults.len());
    let row = |(fault, row): (Fault, &&'static str)| {
        let cells: Vec<_> = row.trim_matches(['|', ' ']).split(" | ").collect();
        let [name, alarm, after] = cells[..] else {
            panic!("{row}")
        };
        assert_eq!(name, fault.name);
        let minutes = after.strip_suffix(" min").unwrap().parse().unwrap();
        (fault, alarm.trim_matches('`'), minutes)
    };
    faults.into_iter().zip(&rows).map(row).collect()
}

/// Returns the faults that are not detected as documented.
fn undetected(monitoring: &Monitoring) -> Vec<String> {
    let missed = |(fault, alarm, after): (Fault, &str, i64)| {
        let is_in_time = |(alarms, minutes): (BTreeSet<_>, _)| alarms.contains(alarm) && minutes <= after;
        (!first(monitoring, &fault, STREAM).is_some_and(is_in_time)).then_some(fault.name)
    };
    documented().into_iter().filter_map(missed).collect()
}

#[test]
fn every_fault_has_an_alarm_after_the_documented_time() {
    for (change_stream, mapping) in [("DynamoDBStreams", STREAM), ("Kinesis", "ChangesMapping")] {
        let monitoring = monitoring(&[("ChangeStream", change_stream)]);
        assert!(monitoring.counted_mappings.contains(mapping));
        for (fault, alarm, after) in documented() {
            let found = first(&monitoring, &fault, mapping);
            let (alarms, minutes) = found.unwrap_or_else(|| panic!("{} is silent", fault.name));
            assert!(alarms.contains(alarm), "{}: {alarms:?}", fault.name);
            assert_eq!(minutes, after, "{}", fault.name);
        }
    }
}

#[test]
fn no_alarm_can_be_removed() {
    let whole = monitoring(&[]);
    assert_eq!(undetected(&whole), [""; 0]);
    for index in 0..whole.alarms.len() {
        let mut rest = whole.clone();
        let removed = rest.alarms.remove(index).logical_id;
        assert_ne!(undetected(&rest), [""; 0], "{removed}");
    }
    // Nor the metrics that the template asks for.
    for mapping in ["WriterFunctionUpdates", STREAM] {
        let mut rest = whole.clone();
        assert!(rest.counted_mappings.remove(mapping));
        assert_ne!(undetected(&rest), [""; 0], "{mapping}");
    }
    let (config, none) = ("{ Metrics: [EventCount] }", "{ Metrics: [] }");
    let without = Monitoring::of(&TEMPLATE.replace(config, none), &[]);
    assert!(without.counted_mappings.is_empty());
    let mut rest = whole.clone();
    rest.filters.clear();
    let of_log = [
        "A record can never become a version",
        "The clock of a writer is wrong, or another program writes a time in the future",
    ];
    assert_eq!(undetected(&rest), of_log);
}

#[test]
fn a_healthy_stack_raises_no_alarm() {
    let on = |monitoring: &Monitoring, load| {
        let values = values(load, None, STREAM);
        let firing = (-30..AFTER).map(|minute| monitoring.firing(&values, minute).len());
        firing.sum::<usize>()
    };
    let (whole, without_heartbeat) = (monitoring(&[]), monitoring(&[("Heartbeat", "false")]));
    for load in Load::all() {
        assert_eq!(on(&whole, load), 0, "{load:?}");
    }
    assert_eq!(on(&without_heartbeat, Load::Silent), 0);
    // This is why the heartbeat is on by default.
    assert!(on(&whole, Load::Silent) > 0);
    let undetected = undetected(&without_heartbeat);
    assert_eq!(undetected.len(), 2, "{undetected:?}");
}

#[test]
fn the_heartbeat_is_sent_as_often_as_its_alarm_expects() {
    let document = yaml::parse(TEMPLATE).unwrap();
    let rule = &document["Resources"]["HeartbeatRule"]["Properties"];
    assert_eq!(rule["ScheduleExpression"], format!("rate({HEARTBEAT} minutes)"));
    // The transformed event is an update that writer-fn accepts, in both orderings.
    let transformer = &rule["Targets"][0]["InputTransformer"];
    let event = json!({"id": "0f2c8c1e-0000-4000-8000-000000000000", "time": "2026-11-22T12:55:00Z"});
    let mut body = transformer["InputTemplate"].as_str().unwrap().to_owned();
    for (name, path) in transformer["InputPathsMap"].as_object().unwrap() {
        let member = path.as_str().unwrap().strip_prefix("$.").unwrap();
        body = body.replace(&format!("<{name}>"), &event[member].to_string());
    }
    for ordering in [Ordering::Arrival, Ordering::Time] {
        let update = Update::parse(serde_json::from_str(&body).unwrap(), "m", ordering).unwrap();
        assert_eq!(update.entity.as_str(), "#heartbeat");
        assert_eq!(update.request_id.as_str(), event["id"].as_str().unwrap());
        assert!(update.sent_at.is_some() && !update.changes.is_empty(), "{body}");
    }
}

#[test]
fn each_alarm_has_a_section_and_is_on_the_dashboard_and_notifies_the_topic() {
    let topic = "arn:aws:sns:eu-west-1:123456789012:alarms";
    let output = TEMPLATE.split("  MonitoringParameters:\n").nth(1).unwrap();
    let document = yaml::parse(MONITORING).unwrap();
    let dashboard = document["Resources"]["Dashboard"]["Properties"]["DashboardBody"].to_string();
    let found = monitoring(&[("AlarmTopicArn", topic)]);
    assert_eq!(found.alarms.len(), 17);
    for alarm in &found.alarms {
        let (id, arn) = (&alarm.logical_id, format!("${{{}.Arn}}", alarm.logical_id));
        assert!(has_section(OPERATIONS, id), "no section for {id}");
        // The stack passes those of its own alarms.
        assert!(dashboard.contains(&arn) != output.contains(&arn), "{arn}");
        assert_eq!(alarm.actions, [topic], "{id}");
    }
    assert!(monitoring(&[]).alarms.iter().all(|alarm| alarm.actions.is_empty()));
}

fn has_section(page: &str, id: &str) -> bool {
    page.lines().any(|line| line.starts_with("## ") && line.contains(id))
}

#[test]
fn each_alarm_of_sealing_has_a_section() {
    let template = include_str!("../../../../../seal/template.yaml").lines();
    let ids = template.filter_map(|line| line.strip_prefix("  ")?.strip_suffix("Alarm:"));
    let page = include_str!("../../../../../../docs/sealing.md");
    let found: Vec<_> = ids.map(|id| has_section(page, &format!("{id}Alarm"))).collect();
    assert_eq!(found, [true; 6]);
}

#[test]
fn records_are_counted_by_their_log_line() {
    let found = monitoring(&[("MetricsNamespace", "")]);
    for (name, outcome) in [("QuarantinedRecords", "Quarantined"), ("AheadRecords", "RecordedAhead")] {
        let pattern = format!(r#"{{ $.message = "record" && $.outcome = "{outcome}" }}"#);
        let filter = &found.filters[&metric(&format!("Log {name}"), STREAM)];
        assert_eq!(*filter, ("StreamLogs".to_owned(), pattern));
    }
}

/// The examples of AWS: `0` does not breach, `X` does, `-` is missing, the newest last.
#[test]
fn missing_data_is_treated_as_documented() {
    let alarm = |breaching_periods: u32, missing: &str| {
        let properties = json!({
            "AlarmDescription": "", "Namespace": "N", "MetricName": "M", "Statistic": "Maximum", "Period": 60, "EvaluationPeriods": 3,
            "DatapointsToAlarm": breaching_periods, "Threshold": 0, "ComparisonOperator": "GreaterThanThreshold",
            "TreatMissingData": missing,
        });
        Alarm::parse(String::new(), &properties)
    };
    for (periods, points, breaching, not_breaching) in [
        (3, "0-X-X", false, false),
        (3, "0----", false, false),
        (3, "-----", true, false),
        (3, "0XX-X", true, true),
        (3, "--X--", true, false),
        // Two of three.
        (2, "0-X-X", true, true),
        (2, "00X0X", true, true),
        (2, "0-X--", true, false),
        (2, "----0", true, false),
    ] {
        let values = (0..).zip(points.chars()).filter(|(_, point)| *point != '-');
        let values = values
            .map(|(minute, point)| (minute, i64::from(point == 'X')))
            .collect();
        let is_on = ["breaching", "notBreaching"].map(|missing| alarm(periods, missing).is_on(Some(&values), 4));
        assert_eq!(is_on, [breaching, not_breaching], "{points}");
    }
    // A period of several minutes ends with every minute.
    let five_minutes = Alarm {
        period: 300,
        statistic: "Sum".to_owned(),
        threshold: 3,
        evaluation_periods: 1,
        ..alarm(1, "notBreaching")
    };
    let values = [(0, 2), (4, 2)].into();
    let on = (0..7).filter(|minute| five_minutes.is_on(Some(&values), *minute));
    assert_eq!(on.collect::<Vec<_>>(), [4]);
}

/// A stack of `tools/attach/template.yaml` has no writer.
#[test]
fn an_attached_table_has_the_alarms_of_its_stream() {
    let table = "arn:aws:dynamodb:us-east-1:000000000000:table/Orders";
    let stream = format!("{table}/stream/2026-11-22T06:24:48.123");
    let template = include_str!("../../../../../attach/template.yaml");
    let found = Monitoring::of(template, &[("TableName", "Orders"), ("StreamArn", &stream)]);
    let whole = monitoring(&[]);
    let of_stream = [
        "FunctionName=StreamFunction",
        "EventSourceMappingUUID=StreamFunctionNewImages",
        "QueueName=StreamDeadLetterQueue.QueueName",
        "TableName=VersionControl GlobalSecondaryIndexName=TimeIndex",
        "",
    ];
    let is_of_stream = |alarm: &&Alarm| {
        let excluded = ["HistoryStoppedAlarm", "RecordsAheadAlarm"].contains(&alarm.logical_id.as_str());
        !excluded && of_stream.contains(&alarm.dimensions().as_str())
    };
    let names = |alarms: &mut dyn Iterator<Item = &Alarm>| {
        alarms.map(|alarm| alarm.logical_id.clone()).collect::<BTreeSet<_>>()
    };
    let expected = names(&mut whole.alarms.iter().filter(is_of_stream));
    assert_eq!(names(&mut found.alarms.iter()), expected);
    assert_eq!(found.counted_mappings, [STREAM.to_owned()].into());
    let document = yaml::parse(MONITORING).unwrap();
    let dashboard = document["Resources"]["AttachedDashboard"]["Properties"]["DashboardBody"].to_string();
    for alarm in &found.alarms {
        let arn = format!("${{{}.Arn}}", alarm.logical_id);
        assert!(dashboard.contains(&arn) || template.contains(&arn), "{arn}");
        assert!(
            alarm.namespace.starts_with("AWS/") || found.publishes(&alarm.metric()),
            "{arn}"
        );
    }
}
