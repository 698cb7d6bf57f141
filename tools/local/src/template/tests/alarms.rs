//! The `CloudWatch` alarms of a stack, evaluated against metrics: which alarm fires first for a fault, and after how many minutes.
//!
//! Metrics have one value a minute. At the end of each minute, an alarm computes its statistic over the last periods and compares
//! it with its threshold, by the rules of
//! [missing data](https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarms-and-missing-data.html): it looks at two
//! periods more than it needs, takes the values that exist, the newest first, and only then fills in what is missing. Hence
//! `breaching` fires late. AWS documents this range for three periods; here, it is the same for other numbers.
//!
//! Some metrics exist only if a template asks for them: the counts of an event source mapping with `MetricsConfig`, and the
//! values of a metric filter. [`Monitoring::publishes`] tells which.

mod detection;
mod faults;

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::{Value, json};

use super::TEMPLATE;
use crate::template::{
    resolve::{Resolver, text},
    yaml,
};

const MONITORING: &str = include_str!("../../../../monitoring/template.yaml");

/// Number of periods that an alarm looks at in addition to its evaluation periods.
const ADDITIONAL_PERIODS: usize = 2;

/// Values by minute of metrics, by their namespace, name and dimensions. A minute without a value is missing data.
type Values = BTreeMap<String, BTreeMap<i64, i64>>;

/// The only expression of an alarm.
const STOPPED: &str = "IF(updates > 0 AND FILL(batches, 0) == 0, 1, 0)";

/// A metric, and what an alarm computes from its values in a period.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Series {
    namespace: String,
    metric_name: String,
    #[serde(default)]
    dimensions: Vec<Value>,
    #[serde(alias = "Stat")]
    statistic: String,
    /// In seconds: a multiple of a minute.
    period: i64,
}

/// An alarm, as in a template. Other properties and values are an error, because they are not evaluated.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Alarm {
    #[serde(skip)]
    logical_id: String,
    /// One, or the updates and batches of [`STOPPED`].
    metrics: Vec<Series>,
    #[serde(rename = "AlarmDescription")]
    _description: String,
    evaluation_periods: usize,
    #[serde(rename = "DatapointsToAlarm")]
    breaching_periods: Option<usize>,
    threshold: i64,
    comparison_operator: String,
    treat_missing_data: String,
    /// ARNs of the topics that it notifies.
    #[serde(rename = "AlarmActions", default)]
    actions: Vec<String>,
}

/// The alarms of a stack and of the stack that monitors it, and the metrics that exist only if a template asks for them.
#[derive(Debug, Clone, Default)]
struct Monitoring {
    alarms: Vec<Alarm>,
    /// Event source mappings that publish counts of events.
    counted_mappings: BTreeSet<String>,
    /// Log group and pattern of metric filters, by their metric.
    filters: BTreeMap<String, (String, String)>,
}

impl Monitoring {
    /// Reads the alarms of both templates. `parameters` are those of the stack, whose output has the parameters of the other one.
    fn of(template: &str, parameters: &[(&str, &str)]) -> Self {
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        let stack = yaml::parse(template).unwrap();
        let parameters: Vec<_> = parameters.iter().copied().map(owned).collect();
        let resolver = Resolver::new(&stack, &parameters).unwrap();
        let output = resolver.resolve(&stack["Outputs"]["MonitoringParameters"]["Value"]);
        let output = text(&output.unwrap());
        let passed: Vec<_> = output
            .split(' ')
            .map(|one| owned(one.split_once('=').unwrap()))
            .collect();
        let monitoring = yaml::parse(MONITORING).unwrap();
        let mut found = Self::default();
        found.read(&resolver);
        found.read(&Resolver::new(&monitoring, &passed).unwrap());
        found
    }

    fn read(&mut self, resolver: &Resolver) {
        let resources = |kind: &str| {
            let resources = resolver.resources(kind).unwrap().into_iter();
            resources.map(|(id, resource)| (id.to_owned(), resolver.resolve(&resource["Properties"]).unwrap()))
        };
        let alarms = resources("AWS::CloudWatch::Alarm");
        self.alarms
            .extend(alarms.map(|(id, properties)| Alarm::parse(id, &properties)));
        for (_, properties) in resources("AWS::Logs::MetricFilter") {
            let source = (text(&properties["LogGroupName"]), text(&properties["FilterPattern"]));
            for metric in properties["MetricTransformations"].as_array().unwrap() {
                let metric = format!("{} {} ", text(&metric["MetricNamespace"]), text(&metric["MetricName"]));
                self.filters.insert(metric, source.clone());
            }
        }
        let events = resources("AWS::Serverless::Function").flat_map(|(id, properties)| {
            let events = properties["Events"].as_object().unwrap().clone().into_iter();
            events.map(move |(event, mut it)| (format!("{id}{event}"), it["Properties"].take()))
        });
        let mappings = resources("AWS::Lambda::EventSourceMapping").chain(events);
        let counted = mappings.filter(|(_, properties)| {
            let metrics = properties.pointer("/MetricsConfig/Metrics").and_then(Value::as_array);
            metrics.is_some_and(|metrics| metrics.contains(&"EventCount".into()))
        });
        self.counted_mappings.extend(counted.map(|(id, _)| id));
    }

    /// Returns `true` if a metric exists: if AWS always publishes it, or a template asks for it.
    fn publishes(&self, metric: &str) -> bool {
        match metric.split_once("EventSourceMappingUUID=") {
            Some((_, mapping)) => self.counted_mappings.contains(mapping),
            None => metric.starts_with("AWS/") || self.filters.contains_key(metric),
        }
    }

    /// Returns the names of the alarms that are on at the end of a minute.
    fn firing(&self, values: &Values, minute: i64) -> BTreeSet<&str> {
        let published = |metric: &str| values.get(metric).filter(|_| self.publishes(metric));
        let on = self.alarms.iter().filter(|alarm| {
            let metrics = alarm.metrics.iter();
            let values: Vec<_> = metrics.map(|series| published(&series.metric())).collect();
            alarm.is_on(&values, minute)
        });
        on.map(|alarm| alarm.logical_id.as_str()).collect()
    }
}

impl Series {
    fn dimensions(&self) -> String {
        let dimensions = self.dimensions.iter();
        let dimensions = dimensions.map(|one| format!("{}={}", text(&one["Name"]), text(&one["Value"])));
        dimensions.collect::<Vec<_>>().join(" ")
    }

    fn metric(&self) -> String {
        format!("{} {} {}", self.namespace, self.metric_name, self.dimensions())
    }

    /// Returns the statistic of the period that ends this number of periods before the end of a minute.
    fn statistic(&self, values: Option<&BTreeMap<i64, i64>>, minute: i64, index: usize) -> Option<i64> {
        let period = self.period / 60;
        let end = minute - i64::try_from(index).ok()? * period;
        let values = values?.range(end - period + 1..=end).map(|(_, value)| *value);
        match self.statistic.as_str() {
            "Sum" => values.reduce(|sum, value| sum + value),
            "Maximum" => values.max(),
            other => panic!("{other}"),
        }
    }
}

impl Alarm {
    /// Panics if the alarm has a property or value that is not evaluated.
    fn parse(logical_id: String, properties: &Value) -> Self {
        let mut properties = properties.clone();
        let members = properties.as_object_mut().unwrap();
        let metrics = if let Some(Value::Array(metrics)) = members.remove("Metrics") {
            assert_eq!(
                metrics[0],
                json!({"Id": "stopped", "Expression": STOPPED}),
                "{logical_id}"
            );
            let ids = metrics[1..].iter().map(|metric| text(&metric["Id"]));
            assert!(ids.eq(["updates", "batches"]), "{logical_id}");
            let merged = metrics[1..].iter().map(|metric| {
                let mut stat = metric["MetricStat"].as_object().unwrap().clone();
                let metric = stat.remove("Metric").unwrap();
                stat.extend(metric.as_object().unwrap().clone());
                Value::Object(stat)
            });
            merged.collect()
        } else {
            let names = ["Namespace", "MetricName", "Dimensions", "Statistic", "Period"];
            let of_metric = names.map(|name| members.remove_entry(name));
            json!([Value::Object(of_metric.into_iter().flatten().collect())])
        };
        members.insert("Metrics".to_owned(), metrics);
        let parsed = Self::deserialize(properties).unwrap_or_else(|error| panic!("{logical_id}: {error}"));
        assert!(parsed.metrics.iter().all(|one| one.period % 60 == 0), "{logical_id}");
        Self { logical_id, ..parsed }
    }

    /// Returns `true` if the alarm is on at the end of a minute, for the values of its metrics.
    fn is_on(&self, values: &[Option<&BTreeMap<i64, i64>>], minute: i64) -> bool {
        let statistic = |index: usize| {
            let of_metrics = self.metrics.iter().zip(values);
            let found: Vec<_> = of_metrics
                .map(|(series, values)| series.statistic(*values, minute, index))
                .collect();
            match found[..] {
                [updates, batches] => {
                    let has_updates = updates.is_some_and(|updates| updates > 0);
                    Some(i64::from(has_updates && batches.unwrap_or_default() == 0))
                }
                _ => found[0],
            }
        };
        let range = 0..self.evaluation_periods + ADDITIONAL_PERIODS;
        let existing: Vec<_> = range.filter_map(statistic).take(self.evaluation_periods).collect();
        let breaches = |value: &&i64| match self.comparison_operator.as_str() {
            "GreaterThanThreshold" => **value > self.threshold,
            "LessThanThreshold" => **value < self.threshold,
            other => panic!("{other}"),
        };
        let missing = match self.treat_missing_data.as_str() {
            "breaching" => self.evaluation_periods - existing.len(),
            "notBreaching" => 0,
            other => panic!("{other}"),
        };
        existing.iter().filter(breaches).count() + missing >= self.breaching_periods.unwrap_or(self.evaluation_periods)
    }
}
