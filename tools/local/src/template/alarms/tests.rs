//! Which alarm detects which fault, and after how many minutes. `docs/operations.md` has the same table.

use super::{
    faults::{AFTER, FAULTS, Fault, HEARTBEAT, Load, Of, metric, values},
    *,
};

const OPERATIONS: &str = include_str!("../../../../../docs/operations.md");
const STREAM: &str = "StreamFunctionNewImages";

fn monitoring(parameters: &[(&str, &str)]) -> Monitoring {
    Monitoring::of(TEMPLATE, parameters)
}

/// For each load, the alarms that fire, with the number of minutes until then.
type Detected = Vec<BTreeMap<String, i64>>;

fn detected(monitoring: &Monitoring, fault: &Fault, mapping: &str) -> Detected {
    let of_load = |load| {
        let values = values(load, Some(fault), mapping);
        let mut alarms = BTreeMap::new();
        for minute in 0..AFTER {
            for alarm in monitoring.firing(&values, minute) {
                alarms.entry(alarm.to_owned()).or_insert(minute + 1);
            }
        }
        alarms
    };
    Load::ALL.into_iter().map(of_load).collect()
}

/// Returns the alarms that fire first, without this one, and the minutes until then: the most of all loads. `None` if no alarm
/// fires under one of the loads.
fn first<'a>(detected: &'a Detected, without: &str) -> Option<(BTreeSet<&'a str>, i64)> {
    let of_load = |alarms: &'a BTreeMap<String, i64>| {
        let others = || alarms.iter().filter(|(name, _)| *name != without);
        let minutes = *others().map(|(_, minutes)| minutes).min()?;
        let first = others().filter(|(_, after)| **after == minutes);
        Some((first.map(|(name, _)| name.as_str()).collect::<BTreeSet<_>>(), minutes))
    };
    let found: Option<Vec<_>> = detected.iter().map(of_load).collect();
    found?.into_iter().max_by_key(|(_, minutes)| *minutes)
}

/// Returns the first alarm of each fault and the minutes until it fires, as in the table of `docs/operations.md`.
fn documented() -> Vec<(&'static Fault, &'static str, i64)> {
    let mut parts = OPERATIONS.split("| fault | first alarm | after |\n|---|---|---|\n");
    let table = parts.nth(1).expect("docs/operations.md has no table of faults");
    let rows: Vec<_> = table.lines().take_while(|line| line.starts_with('|')).collect();
    assert_eq!(rows.len(), FAULTS.len());
    let row = |(fault, row): (&'static Fault, &&'static str)| {
        let cells: Vec<_> = row.trim_matches(['|', ' ']).split(" | ").collect();
        let [name, alarm, after] = cells[..] else {
            panic!("{row}")
        };
        assert_eq!(name, fault.name);
        let minutes = after.strip_suffix(" min").unwrap().parse().unwrap();
        (fault, alarm.trim_matches('`'), minutes)
    };
    FAULTS.iter().zip(&rows).map(row).collect()
}

/// Returns the faults that are not detected as documented.
fn undetected(monitoring: &Monitoring) -> Vec<&'static str> {
    let missed = |(fault, alarm, after): (&'static Fault, &str, i64)| {
        let detected = detected(monitoring, fault, STREAM);
        let is_detected =
            first(&detected, "").is_some_and(|(alarms, minutes)| alarms.contains(alarm) && minutes <= after);
        (!is_detected).then_some(fault.name)
    };
    documented().into_iter().filter_map(missed).collect()
}

#[test]
fn every_fault_has_an_alarm_after_the_documented_time() {
    for (change_stream, mapping) in [("DynamoDBStreams", STREAM), ("Kinesis", "ChangesMapping")] {
        let monitoring = monitoring(&[("ChangeStream", change_stream)]);
        for (fault, alarm, after) in documented() {
            let detected = detected(&monitoring, fault, mapping);
            let (alarms, minutes) = first(&detected, "").unwrap_or_else(|| panic!("{} is silent", fault.name));
            assert!(alarms.contains(alarm), "{}: {alarms:?}", fault.name);
            assert_eq!(minutes, after, "{}", fault.name);
        }
    }
}

#[test]
fn the_page_has_a_section_about_each_alarm() {
    for alarm in monitoring(&[]).alarms {
        let has_section = |line: &str| line.starts_with("## ") && line.contains(&alarm.logical_id);
        assert!(
            OPERATIONS.lines().any(has_section),
            "no section for {}",
            alarm.logical_id
        );
    }
}

#[test]
fn no_alarm_can_be_removed() {
    let whole = monitoring(&[]);
    let documented = documented();
    let detected: Vec<_> = (documented.iter())
        .map(|(fault, alarm, after)| (detected(&whole, fault, STREAM), *alarm, *after))
        .collect();
    let are_as_documented = |without: &str| {
        detected.iter().all(|(detected, alarm, after)| {
            first(detected, without).is_some_and(|(alarms, minutes)| alarms.contains(alarm) && minutes <= *after)
        })
    };
    assert!(are_as_documented(""));
    for alarm in &whole.alarms {
        assert!(!are_as_documented(&alarm.logical_id), "{}", alarm.logical_id);
    }
    // Nor the metrics that the template asks for.
    for mapping in ["WriterFunctionUpdates", STREAM] {
        let mut rest = whole.clone();
        assert!(rest.counted_mappings.remove(mapping));
        assert_ne!(undetected(&rest), [""; 0], "{mapping}");
    }
    let kinesis = monitoring(&[("ChangeStream", "Kinesis")]);
    assert!(kinesis.counted_mappings.contains("ChangesMapping"));
    let mut rest = whole.clone();
    rest.filters.clear();
    let of_log = [
        "A record can never become a version",
        "The clock of a writer is wrong, or another program writes a time in the future",
    ];
    assert_eq!(undetected(&rest), of_log);
}

#[test]
fn without_metrics_config_a_test_fails() {
    let without = TEMPLATE.replace(
        "MetricsConfig: { Metrics: [EventCount] }",
        "MetricsConfig: { Metrics: [] }",
    );
    let monitoring = Monitoring::of(&without, &[]);
    assert!(monitoring.counted_mappings.is_empty());
    assert!(undetected(&monitoring).len() >= 4);
}

#[test]
fn a_healthy_stack_raises_no_alarm() {
    let on = |monitoring: &Monitoring, load| {
        let values = values(load, None, STREAM);
        let minutes = -30..AFTER;
        minutes
            .map(|minute| monitoring.firing(&values, minute).len())
            .sum::<usize>()
    };
    for load in Load::ALL {
        assert_eq!(on(&monitoring(&[]), load), 0, "{load:?}");
    }
    let without_heartbeat = monitoring(&[("Heartbeat", "false")]);
    assert_eq!(on(&without_heartbeat, Load::Silent), 0);
    // This is why the heartbeat is on by default.
    assert!(on(&monitoring(&[]), Load::Silent) > 0);
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
    let event = serde_json::json!({"id": "0f2c8c1e-0000-4000-8000-000000000000", "time": "2026-11-22T12:55:00Z"});
    let mut body = transformer["InputTemplate"].as_str().unwrap().to_owned();
    for (name, path) in transformer["InputPathsMap"].as_object().unwrap() {
        let member = path.as_str().unwrap().strip_prefix("$.").unwrap();
        body = body.replace(&format!("<{name}>"), &event[member].to_string());
    }
    for ordering in [shared::config::Ordering::Arrival, shared::config::Ordering::Time] {
        let update = writer_fn::update::Update::parse(serde_json::from_str(&body).unwrap(), "m", ordering).unwrap();
        assert_eq!(update.entity.as_str(), "#heartbeat");
        assert_eq!(update.request_id.as_str(), event["id"].as_str().unwrap());
        assert!(update.sent_at.is_some() && !update.changes.is_empty(), "{body}");
    }
}

#[test]
fn all_alarms_are_on_the_dashboard_and_notify_the_topic() {
    let topic = "arn:aws:sns:eu-west-1:123456789012:alarms";
    let output = TEMPLATE.split("  MonitoringParameters:\n").nth(1).unwrap();
    let document = yaml::parse(MONITORING).unwrap();
    let dashboard = document["Resources"]["Dashboard"]["Properties"]["DashboardBody"].to_string();
    let found = monitoring(&[("AlarmTopicArn", topic)]);
    assert_eq!(found.alarms.len(), 16);
    for alarm in &found.alarms {
        let arn = format!("${{{}.Arn}}", alarm.logical_id);
        // The stack passes those of its own alarms.
        assert!(dashboard.contains(&arn) != output.contains(&arn), "{arn}");
        assert_eq!(alarm.actions, [topic], "{}", alarm.logical_id);
    }
    assert!(monitoring(&[]).alarms.iter().all(|alarm| alarm.actions.is_empty()));
}

#[test]
fn records_are_counted_by_their_log_line() {
    let found = monitoring(&[("MetricsNamespace", "")]);
    for (metric_name, outcome) in [("QuarantinedRecords", "Quarantined"), ("AheadRecords", "RecordedAhead")] {
        let pattern = format!(r#"{{ $.message = "record" && $.outcome = "{outcome}" }}"#);
        let filter = &found.filters[&metric(Of::Log, metric_name, STREAM)];
        assert_eq!(*filter, ("StreamLogs".to_owned(), pattern));
    }
}

/// The examples of AWS: `0` does not breach, `X` does, `-` is missing, the newest last.
#[test]
fn missing_data_is_treated_as_documented() {
    let alarm = |breaching_periods: u32, missing: &str| {
        let properties = serde_json::json!({
            "AlarmDescription": "", "Namespace": "N", "MetricName": "M", "Statistic": "Maximum", "Period": 60, "EvaluationPeriods": 3,
            "DatapointsToAlarm": breaching_periods, "Threshold": 0, "ComparisonOperator": "GreaterThanThreshold",
            "TreatMissingData": missing,
        });
        Alarm::parse("", &properties)
    };
    let is_on = |points: &str, alarm: &Alarm| {
        let value =
            |(minute, point)| Some((i64::try_from(minute).unwrap(), i64::from(point == 'X'))).filter(|_| point != '-');
        let values: BTreeMap<_, _> = points.chars().enumerate().filter_map(value).collect();
        alarm.is_on(Some(&values), 4)
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
        assert_eq!(is_on(points, &alarm(periods, "breaching")), breaching, "{points}");
        assert_eq!(
            is_on(points, &alarm(periods, "notBreaching")),
            not_breaching,
            "{points}"
        );
    }
    // A period of several minutes ends with every minute.
    let five_minutes = Alarm {
        period: 300,
        statistic: Statistic::Sum,
        threshold: 3,
        evaluation_periods: 1,
        ..alarm(1, "notBreaching")
    };
    let values: BTreeMap<_, _> = [(0, 2), (4, 2)].into();
    let on: Vec<_> = (0..7)
        .filter(|minute| five_minutes.is_on(Some(&values), *minute))
        .collect();
    assert_eq!(on, [4]);
}

/// A stack of `tools/attach/template.yaml` has no writer.
#[test]
fn an_attached_table_has_the_alarms_of_its_stream() {
    let table = "arn:aws:dynamodb:us-east-1:000000000000:table/Orders";
    let stream = format!("{table}/stream/2026-11-22T06:24:48.123");
    let template = include_str!("../../../../attach/template.yaml");
    let found = Monitoring::of(template, &[("TableName", "Orders"), ("StreamArn", &stream)]);
    let whole = monitoring(&[]);
    let of_stream =
        [Of::Stream, Of::StreamMapping, Of::StreamDeadLetterQueue].map(|of| metric(of, "", STREAM).dimensions);
    let is_of_stream = |alarm: &&Alarm| {
        let excluded = ["HistoryStoppedAlarm", "RecordsAheadAlarm"].contains(&alarm.logical_id.as_str());
        !excluded && (of_stream.contains(&alarm.metric().dimensions) || alarm.metric().dimensions.is_empty())
    };
    let names = |alarms: &mut dyn Iterator<Item = &Alarm>| {
        alarms.map(|alarm| alarm.logical_id.clone()).collect::<BTreeSet<_>>()
    };
    assert_eq!(
        names(&mut found.alarms.iter()),
        names(&mut whole.alarms.iter().filter(is_of_stream))
    );
    assert!(
        found
            .alarms
            .iter()
            .all(|alarm| alarm.namespace.starts_with("AWS/") || found.publishes(&alarm.metric()))
    );
    assert_eq!(found.counted_mappings, [STREAM.to_owned()].into());
    let document = yaml::parse(MONITORING).unwrap();
    let dashboard = document["Resources"]["AttachedDashboard"]["Properties"]["DashboardBody"].to_string();
    for alarm in &found.alarms {
        let arn = format!("${{{}.Arn}}", alarm.logical_id);
        assert!(dashboard.contains(&arn) || template.contains(&arn), "{arn}");
    }
}
