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

pub(crate) mod faults;
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;

use super::{
    resolve::{Resolver, text},
    yaml,
};

const TEMPLATE: &str = include_str!("../../../../template.yaml");
const MONITORING: &str = include_str!("../../../monitoring/template.yaml");

/// Number of periods that an alarm looks at in addition to its evaluation periods.
const ADDITIONAL_PERIODS: usize = 2;

/// A metric: its namespace, its name and its dimensions.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Metric {
    namespace: String,
    name: String,
    dimensions: BTreeMap<String, String>,
}

/// Values of metrics by minute. A minute without a value is missing data.
pub(crate) type Values = BTreeMap<Metric, BTreeMap<i64, i64>>;

/// An alarm, as in a template. Other properties and values are an error, because they are not evaluated.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Alarm {
    #[serde(skip)]
    logical_id: String,
    #[serde(rename = "AlarmDescription")]
    _description: String,
    namespace: String,
    metric_name: String,
    #[serde(default)]
    dimensions: Vec<Dimension>,
    statistic: Statistic,
    /// In seconds: a multiple of a minute.
    period: i64,
    evaluation_periods: usize,
    #[serde(rename = "DatapointsToAlarm")]
    breaching_periods: Option<usize>,
    threshold: i64,
    comparison_operator: Comparison,
    treat_missing_data: MissingData,
    /// ARNs of the topics that it notifies.
    #[serde(rename = "AlarmActions", default)]
    actions: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Dimension {
    name: String,
    value: String,
}

#[derive(Debug, Clone, Copy, Deserialize)]
enum Statistic {
    Sum,
    Maximum,
}

#[derive(Debug, Clone, Copy, Deserialize)]
enum Comparison {
    GreaterThanThreshold,
    LessThanThreshold,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
enum MissingData {
    Breaching,
    NotBreaching,
}

/// The alarms of a stack and of the stack that monitors it, and the metrics that exist only if a template asks for them.
#[derive(Debug, Clone)]
pub(crate) struct Monitoring {
    alarms: Vec<Alarm>,
    /// Event source mappings that publish counts of events.
    counted_mappings: BTreeSet<String>,
    /// Log group and pattern of metric filters, by their metric.
    filters: BTreeMap<Metric, (String, String)>,
}

impl Monitoring {
    /// Reads the alarms of both templates. `parameters` are those of the stack, whose output has the parameters of the other one.
    pub(crate) fn of(template: &str, parameters: &[(&str, &str)]) -> Self {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let stack = yaml::parse(template).unwrap();
        let resolver = Resolver::new(&stack, &parameters.iter().map(owned).collect::<Vec<_>>()).unwrap();
        let output = text(
            &resolver
                .resolve(&stack["Outputs"]["MonitoringParameters"]["Value"])
                .unwrap(),
        );
        let passed = output
            .split(' ')
            .map(|parameter| owned(&parameter.split_once('=').unwrap()));
        let mut found = Self {
            alarms: Vec::new(),
            counted_mappings: BTreeSet::new(),
            filters: BTreeMap::new(),
        };
        found.read(&stack, &resolver);
        let monitoring = yaml::parse(MONITORING).unwrap();
        found.read(
            &monitoring,
            &Resolver::new(&monitoring, &passed.collect::<Vec<_>>()).unwrap(),
        );
        found
    }

    fn read(&mut self, document: &Value, resolver: &Resolver) {
        for (id, resource) in document["Resources"].as_object().unwrap() {
            let condition = resource.get("Condition").map(text);
            if condition.is_some_and(|condition| !resolver.named_condition(&condition).unwrap()) {
                continue;
            }
            let properties = || resolver.resolve(&resource["Properties"]).unwrap();
            match resource["Type"].as_str().unwrap() {
                "AWS::CloudWatch::Alarm" => self.alarms.push(Alarm::parse(id, &properties())),
                "AWS::Logs::MetricFilter" => {
                    let properties = properties();
                    let source = (text(&properties["LogGroupName"]), text(&properties["FilterPattern"]));
                    for transformation in properties["MetricTransformations"].as_array().unwrap() {
                        let metric = Metric {
                            namespace: text(&transformation["MetricNamespace"]),
                            name: text(&transformation["MetricName"]),
                            dimensions: BTreeMap::new(),
                        };
                        self.filters.insert(metric, source.clone());
                    }
                }
                "AWS::Lambda::EventSourceMapping" if counts_events(&properties()) => {
                    self.counted_mappings.insert(id.clone());
                }
                "AWS::Serverless::Function" => {
                    let events = resource["Properties"]["Events"].as_object().unwrap();
                    let counted = events.iter().filter(|(_, event)| counts_events(&event["Properties"]));
                    self.counted_mappings
                        .extend(counted.map(|(event, _)| format!("{id}{event}")));
                }
                _ => {}
            }
        }
    }

    /// Returns `true` if a metric exists: if AWS always publishes it, or a template asks for it.
    fn publishes(&self, metric: &Metric) -> bool {
        match metric.dimensions.get("EventSourceMappingUUID") {
            Some(mapping) => self.counted_mappings.contains(mapping),
            None => metric.namespace.starts_with("AWS/") || self.filters.contains_key(metric),
        }
    }

    /// Returns the names of the alarms that are on at the end of a minute.
    pub(crate) fn firing(&self, values: &Values, minute: i64) -> BTreeSet<&str> {
        let published = |metric: &Metric| values.get(metric).filter(|_| self.publishes(metric));
        let alarms = self.alarms.iter();
        let on = alarms.filter(|alarm| alarm.is_on(published(&alarm.metric()), minute));
        on.map(|alarm| alarm.logical_id.as_str()).collect()
    }
}

impl Alarm {
    /// Panics if the alarm has a property or value that is not evaluated.
    fn parse(id: &str, properties: &Value) -> Self {
        let parsed = Self::deserialize(properties).unwrap_or_else(|error| panic!("{id}: {error}"));
        assert_eq!(parsed.period % 60, 0, "{id}");
        Self {
            logical_id: id.to_owned(),
            ..parsed
        }
    }

    fn metric(&self) -> Metric {
        let dimensions = self.dimensions.iter();
        Metric {
            namespace: self.namespace.clone(),
            name: self.metric_name.clone(),
            dimensions: dimensions.map(|one| (one.name.clone(), one.value.clone())).collect(),
        }
    }

    /// Returns `true` if the alarm is on at the end of a minute.
    fn is_on(&self, values: Option<&BTreeMap<i64, i64>>, minute: i64) -> bool {
        let period = self.period / 60;
        let statistic = |index: usize| -> Option<i64> {
            let end = minute - i64::try_from(index).ok()? * period;
            let values = values?.range(end - period + 1..=end).map(|(_, value)| *value);
            match self.statistic {
                Statistic::Sum => values.reduce(|sum, value| sum + value),
                Statistic::Maximum => values.max(),
            }
        };
        let range = 0..self.evaluation_periods + ADDITIONAL_PERIODS;
        let existing: Vec<_> = range.filter_map(statistic).take(self.evaluation_periods).collect();
        let breaches = |value: &&i64| match self.comparison_operator {
            Comparison::GreaterThanThreshold => **value > self.threshold,
            Comparison::LessThanThreshold => **value < self.threshold,
        };
        let missing = match self.treat_missing_data {
            MissingData::Breaching => self.evaluation_periods - existing.len(),
            MissingData::NotBreaching => 0,
        };
        existing.iter().filter(breaches).count() + missing >= self.breaching_periods.unwrap_or(self.evaluation_periods)
    }
}

fn counts_events(properties: &Value) -> bool {
    let metrics = properties.pointer("/MetricsConfig/Metrics").and_then(Value::as_array);
    metrics.is_some_and(|metrics| metrics.iter().any(|metric| metric == "EventCount"))
}
