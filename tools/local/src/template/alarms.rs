//! The `CloudWatch` alarms of a template, and their evaluation against metrics.
//!
//! A test asks which alarm fires first for a fault, and after how many minutes. Metrics have one value a minute. At the end of
//! each minute, an alarm computes its statistic over the last periods and compares it with its threshold, by the rules of
//! [missing data](https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarms-and-missing-data.html): it looks at two
//! periods more than it needs, takes the values that exist, the newest first, and only then fills in what is missing. Hence
//! `breaching` fires late. AWS documents this range for three periods; here, it is the same for other numbers.
//!
//! Some metrics exist only if the template asks for them: the counts of an event source mapping with `MetricsConfig`, and the
//! values of a metric filter. [`Monitoring::publishes`] tells which.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::{
    error::{TemplateError, object},
    resolve::{Resolver, text},
    yaml,
};

/// Number of periods that an alarm looks at in addition to its evaluation periods.
const ADDITIONAL_PERIODS: usize = 2;

/// A metric: its namespace, its name and its dimensions.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Metric {
    pub namespace: String,
    pub name: String,
    pub dimensions: BTreeMap<String, String>,
}

/// Values of metrics by minute. A minute without a value is missing data.
pub type Values = BTreeMap<Metric, BTreeMap<i64, i64>>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Statistic {
    Sum,
    Maximum,
}

/// Comparison of the statistic with the threshold, for which a value breaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    Greater,
    Less,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alarm {
    /// Logical id.
    pub name: String,
    pub metric: Metric,
    pub statistic: Statistic,
    /// Period in minutes.
    pub period: usize,
    pub evaluation_periods: usize,
    pub datapoints_to_alarm: usize,
    pub threshold: i64,
    pub comparison: Comparison,
    /// `true` if missing data breaches, `false` if it does not.
    pub missing_breaches: bool,
    /// ARNs of the topics that it notifies.
    pub actions: Vec<String>,
}

/// The alarms of a template, and the metrics that exist only if it asks for them.
#[derive(Debug, Clone)]
pub struct Monitoring {
    pub alarms: Vec<Alarm>,
    /// Event source mappings that publish counts of events.
    pub counted_mappings: BTreeSet<String>,
    /// Metric filters by their metric.
    pub filters: BTreeMap<Metric, LogFilter>,
}

/// Log lines that a metric filter counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFilter {
    pub log_group: String,
    pub pattern: String,
}

impl Monitoring {
    /// Reads the alarms of a template. `overrides` replace the defaults of its parameters.
    ///
    /// # Errors
    ///
    /// Returns an error if an alarm has a property or value that this module does not evaluate, or one that does not resolve.
    pub fn parse(template: &str, overrides: &[(String, String)]) -> Result<Self, TemplateError> {
        let document = yaml::parse(template)?;
        let resolver = Resolver::new(&document, overrides)?;
        let mut found = Self {
            alarms: Vec::new(),
            counted_mappings: BTreeSet::new(),
            filters: BTreeMap::new(),
        };
        for (id, resource) in object(document.get("Resources"), "Resources")? {
            let properties = || -> Result<_, TemplateError> {
                let properties = resolver.resolve(resource.get("Properties").unwrap_or(&Value::Null))?;
                object(Some(&properties), id).cloned()
            };
            match resource.get("Type").and_then(Value::as_str) {
                Some("AWS::CloudWatch::Alarm") => found.alarms.push(alarm(id, &properties()?)?),
                Some("AWS::Logs::MetricFilter") => found.filters.extend(filter(id, &properties()?)?),
                Some("AWS::Lambda::EventSourceMapping") if counts_events(&properties()?) => {
                    found.counted_mappings.insert(id.clone());
                }
                Some("AWS::Serverless::Function") => {
                    let events = resource.pointer("/Properties/Events").and_then(Value::as_object);
                    for (event, body) in events.into_iter().flatten() {
                        if body
                            .get("Properties")
                            .and_then(Value::as_object)
                            .is_some_and(counts_events)
                        {
                            found.counted_mappings.insert(format!("{id}{event}"));
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(found)
    }

    /// Returns `true` if a metric exists: if AWS always publishes it, or the template asks for it.
    pub fn publishes(&self, metric: &Metric) -> bool {
        match metric.dimensions.get("EventSourceMappingUUID") {
            Some(mapping) => self.counted_mappings.contains(mapping),
            None => metric.namespace.starts_with("AWS/") || self.filters.contains_key(metric),
        }
    }

    /// Returns the names of the alarms that are on at the end of a minute.
    pub fn firing(&self, values: &Values, minute: i64) -> BTreeSet<&str> {
        let is_on = |alarm: &&Alarm| {
            alarm.is_on(
                values.get(&alarm.metric).filter(|_| self.publishes(&alarm.metric)),
                minute,
            )
        };
        self.alarms
            .iter()
            .filter(is_on)
            .map(|alarm| alarm.name.as_str())
            .collect()
    }
}

impl Alarm {
    /// Returns `true` if the alarm is on at the end of a minute.
    fn is_on(&self, values: Option<&BTreeMap<i64, i64>>, minute: i64) -> bool {
        let period = i64::try_from(self.period).unwrap_or(i64::MAX);
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
        let breaches = |value: &&i64| match self.comparison {
            Comparison::Greater => **value > self.threshold,
            Comparison::Less => **value < self.threshold,
        };
        let missing = self.evaluation_periods - existing.len();
        let breaching = existing.iter().filter(breaches).count() + if self.missing_breaches { missing } else { 0 };
        breaching >= self.datapoints_to_alarm
    }
}

/// Properties of an alarm that this module evaluates.
const EVALUATED: [&str; 12] = [
    "AlarmDescription",
    "Namespace",
    "MetricName",
    "Dimensions",
    "Statistic",
    "Period",
    "EvaluationPeriods",
    "DatapointsToAlarm",
    "Threshold",
    "ComparisonOperator",
    "TreatMissingData",
    "AlarmActions",
];

fn alarm(id: &str, properties: &Map<String, Value>) -> Result<Alarm, TemplateError> {
    let invalid = |name: &str| TemplateError::invalid(id, name);
    let value = |name: &'static str| {
        properties
            .get(name)
            .map(text)
            .ok_or_else(|| TemplateError::missing(id, name))
    };
    let count = |name: &'static str| value(name)?.parse::<usize>().map_err(|_| invalid(name));
    let seconds = count("Period")?;
    let evaluation_periods = count("EvaluationPeriods")?;
    if seconds == 0 || seconds % 60 != 0 {
        return Err(invalid("Period"));
    }
    if let Some(name) = properties.keys().find(|name| !EVALUATED.contains(&name.as_str())) {
        return Err(TemplateError::Unsupported(id.to_owned(), name.clone()));
    }
    let entries = properties
        .get("Dimensions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let dimension = |entry: &Value| Some((entry.get("Name").map(text)?, entry.get("Value").map(text)?));
    let dimensions: Option<BTreeMap<_, _>> = entries.map(dimension).collect();
    let actions = properties
        .get("AlarmActions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    Ok(Alarm {
        name: id.to_owned(),
        metric: Metric {
            namespace: value("Namespace")?,
            name: value("MetricName")?,
            dimensions: dimensions.ok_or_else(|| invalid("Dimensions"))?,
        },
        statistic: match value("Statistic")?.as_str() {
            "Sum" => Statistic::Sum,
            "Maximum" => Statistic::Maximum,
            _ => return Err(invalid("Statistic")),
        },
        period: seconds / 60,
        evaluation_periods,
        datapoints_to_alarm: match properties.contains_key("DatapointsToAlarm") {
            true => count("DatapointsToAlarm")?,
            false => evaluation_periods,
        },
        threshold: value("Threshold")?.parse().map_err(|_| invalid("Threshold"))?,
        comparison: match value("ComparisonOperator")?.as_str() {
            "GreaterThanThreshold" => Comparison::Greater,
            "LessThanThreshold" => Comparison::Less,
            _ => return Err(invalid("ComparisonOperator")),
        },
        missing_breaches: match value("TreatMissingData")?.as_str() {
            "breaching" => true,
            "notBreaching" => false,
            _ => return Err(invalid("TreatMissingData")),
        },
        actions: actions.map(text).collect(),
    })
}

fn filter(id: &str, properties: &Map<String, Value>) -> Result<Vec<(Metric, LogFilter)>, TemplateError> {
    let value = |properties: &Map<String, Value>, name: &'static str| {
        properties
            .get(name)
            .map(text)
            .ok_or_else(|| TemplateError::missing(id, name))
    };
    let source = LogFilter {
        log_group: value(properties, "LogGroupName")?,
        pattern: value(properties, "FilterPattern")?,
    };
    let transformations = properties.get("MetricTransformations").and_then(Value::as_array);
    let metric = |transformation: &Value| {
        let transformation = object(Some(transformation), id)?;
        let metric = Metric {
            namespace: value(transformation, "MetricNamespace")?,
            name: value(transformation, "MetricName")?,
            dimensions: BTreeMap::new(),
        };
        Ok((metric, source.clone()))
    };
    transformations.into_iter().flatten().map(metric).collect()
}

fn counts_events(properties: &Map<String, Value>) -> bool {
    let metrics = properties.get("MetricsConfig").and_then(|config| config.get("Metrics"));
    let is_count = |metric: &Value| metric.as_str() == Some("EventCount");
    metrics
        .and_then(Value::as_array)
        .is_some_and(|metrics| metrics.iter().any(is_count))
}

#[cfg(test)]
pub(crate) mod faults;
#[cfg(test)]
mod tests;
