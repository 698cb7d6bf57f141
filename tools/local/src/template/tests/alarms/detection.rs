//! Which alarm detects which fault, and after how many minutes. `docs/operations.md` has the same table.

use super::{
    faults::{AFTER, Fault, Load, faults, metric, values},
    *,
};

const OPERATIONS: &str = include_str!("../../../../../../docs/operations.md");
const STREAM: &str = "StreamFunctionNewImages";

/// The alarms of a stack whose mappings count their events, and of the stack that monitors it.
fn monitoring(parameters: &[(&str, &str)]) -> Monitoring {
    Monitoring::of(
        TEMPLATE,
        &[&[("MetricsNamespace", "VersionControl")], parameters].concat(),
    )
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
    for settings in [&[][..], &[("MetricsNamespace", "")], &[("SkipUnchanged", "true")]] {
        let monitoring = monitoring(settings);
        for load in Load::all().chain([Load::Silent]) {
            assert_eq!(on(&monitoring, load), 0, "{load:?} {settings:?}");
        }
    }
}

/// The alarms of the default stack alone, without a metric that costs: each kind of lost or stopped history.
#[test]
fn the_default_stack_detects_lost_and_stopped_history() {
    let mut stack = monitoring(&[("MetricsNamespace", "")]);
    assert!(stack.counted_mappings.is_empty());
    let own = |alarm: &Alarm| TEMPLATE.contains(&format!("\n  {}:\n", alarm.logical_id));
    stack.alarms.retain(own);
    assert_eq!(stack.alarms.len(), 5);
    let detected = |fault: &Fault| first(&stack, fault, STREAM);
    let found = faults().into_iter().filter_map(|fault| {
        let (alarms, minutes) = detected(&fault)?;
        Some(format!(
            "{}: {} after {minutes} min",
            fault.name,
            alarms.into_iter().next()?
        ))
    });
    let expected = [
        "writer-fn may not send to the dead-letter queue, and an asynchronous update fails: UpdatesLostAlarm after 1 min",
        "stream-fn does not start, is killed, or times out, or does not have the layout of the table: StreamErrorsAlarm after 7 min",
        "stream-fn has reserved concurrency 0, or the concurrency of the account is used up: HistoryStoppedAlarm after 45 min",
        "The event source mapping of the stream is disabled or deleted: HistoryStoppedAlarm after 45 min",
        "stream-fn's role cannot read the stream, or the table's stream is disabled: HistoryStoppedAlarm after 45 min",
        "A failure document was not redriven: RecordsFailedAlarm after 1 min",
        "A record is older than 12 h, and the failure bucket cannot be written: RecordsDroppedAlarm after 1 min",
    ];
    assert_eq!(found.collect::<Vec<_>>(), expected);
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
        let is_on = ["breaching", "notBreaching"].map(|missing| alarm(periods, missing).is_on(&[Some(&values)], 4));
        assert_eq!(is_on, [breaching, not_breaching], "{points}");
    }
    // A period of several minutes ends with every minute.
    let mut five_minutes = Alarm {
        threshold: 3,
        evaluation_periods: 1,
        ..alarm(1, "notBreaching")
    };
    (five_minutes.metrics[0].period, five_minutes.metrics[0].statistic) = (300, "Sum".to_owned());
    let values = [(0, 2), (4, 2)].into();
    let on = (0..7).filter(|minute| five_minutes.is_on(&[Some(&values)], *minute));
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
        !excluded
            && alarm
                .metrics
                .iter()
                .all(|one| of_stream.contains(&one.dimensions().as_str()))
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
        assert!(alarm.metrics.iter().all(|one| found.publishes(&one.metric())), "{arn}");
    }
}
