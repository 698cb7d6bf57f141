//! Parses the table, the functions and the event source mappings of a template.

use std::{collections::BTreeMap, path::Path, time::Duration};

use aws_sdk_dynamodb::types::{ScalarAttributeType, StreamViewType};
use operations::table::settings::TableSettings;
use serde_json::{Map, Value};

use super::{
    error::{TemplateError, number, object},
    resolve::{Resolver, text},
    rules, yaml,
};
use crate::{
    attach::Attachment,
    mapping::{
        filter::Filters,
        settings::{InvalidSettings, Settings, StartingPosition},
    },
};

/// Environment variable of the functions with the name of the history table.
const HISTORY: &str = "HISTORY_TABLE_NAME";

#[derive(Debug, Clone)]
pub struct Template {
    pub table: Table,
    /// Table of history if it is not the table of latest items.
    pub history: Option<Table>,
    /// Definition of the table, if other programs write it.
    pub attached: Option<Attachment>,
    pub functions: Vec<Function>,
    /// Binary of the function that processes the stream.
    pub stream_function: String,
    pub change_stream: ChangeStream,
    pub mapping: Settings,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeStream {
    DynamoDbStreams,
    /// Kinesis Data Streams. The local stack reads the DynamoDB stream and converts its records to the Kinesis format.
    Kinesis,
}

/// A table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// Logical id, used as the name.
    pub name: String,
    pub settings: TableSettings,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    pub logical_id: String,
    /// Name of the binary, used as the function name.
    pub binary: String,
    pub timeout: Duration,
    /// Memory in MB.
    pub memory: u64,
    /// Environment variables, except those that Lambda sets.
    pub environment: BTreeMap<String, String>,
    pub log_level: String,
}

impl Template {
    /// Reads a template. `overrides` replace the defaults of its parameters.
    pub fn read(path: &Path, overrides: &[(String, String)]) -> Result<Self, TemplateError> {
        let text = std::fs::read_to_string(path).map_err(TemplateError::Read)?;
        Self::parse(&text, overrides)
    }

    pub fn parse(text: &str, overrides: &[(String, String)]) -> Result<Self, TemplateError> {
        let document = yaml::parse(text)?;
        let resolver = Resolver::new(&document, overrides)?;
        rules::check(&document, &resolver)?;
        let resources = object(document.get("Resources"), "Resources")?;
        let is_of = |value: &Value, kind: &str| value.get("Type").and_then(Value::as_str) == Some(kind);
        let functions = resources
            .iter()
            .filter(|(_, resource)| is_of(resource, "AWS::Serverless::Function"));
        let functions: Vec<_> = functions
            .map(|(id, resource)| function(id, resource, &document, &resolver))
            .collect::<Result<_, _>>()?;
        let mut streams = Vec::new();
        for function in &functions {
            let events = resources[&function.logical_id].pointer("/Properties/Events");
            let events = events.and_then(Value::as_object).into_iter().flatten();
            streams.extend(
                events
                    .filter(|(_, event)| is_of(event, "DynamoDB"))
                    .map(|event| (function, event)),
            );
        }
        let [(function, (id, event))] = streams[..] else {
            return Err(TemplateError::Mappings);
        };
        let place = format!("{}.Events.{id}", function.logical_id);
        let properties = object(event.get("Properties"), &place)?;
        let table = table_of(properties, resources, &place)?;
        let enabled = properties.get("Enabled").map(|enabled| resolver.resolve(enabled));
        let enabled = enabled.transpose()?.is_none_or(|enabled| enabled != Value::Bool(false));
        let (change_stream, mapping) = if enabled {
            (ChangeStream::DynamoDbStreams, mapping(properties, &place, &resolver)?)
        } else {
            let (place, properties) = kinesis(resources, &resolver)?;
            (ChangeStream::Kinesis, mapping(properties, place, &resolver)?)
        };
        // All functions have the environment of the globals.
        let history = functions.iter().find_map(|function| function.environment.get(HISTORY));
        let history = history.filter(|name| !name.is_empty() && **name != table);
        let history = history.map(|name| table_settings(name, resources, &resolver));
        let table = table_settings(&table, resources, &resolver)?;
        if table.settings.stream.is_none() {
            return Err(TemplateError::missing(
                &table.name,
                "StreamSpecification.StreamViewType",
            ));
        }
        Ok(Self {
            table,
            history: history.transpose()?,
            attached: None,
            stream_function: function.binary.clone(),
            change_stream,
            mapping,
            functions,
        })
    }
}

fn function(id: &str, resource: &Value, document: &Value, resolver: &Resolver) -> Result<Function, TemplateError> {
    let binary = resource
        .pointer("/Metadata/BuildProperties/Binary")
        .and_then(Value::as_str);
    let binary = binary.ok_or_else(|| TemplateError::missing(id, "Metadata.BuildProperties.Binary"))?;
    let globals = document.pointer("/Globals/Function").cloned().unwrap_or_default();
    let own = resource.get("Properties").cloned().unwrap_or_default();
    // Like SAM: settings of a function override the globals, and the environment is merged variable by variable.
    let get = |pointer: &str| {
        let value = own.pointer(pointer).or_else(|| globals.pointer(pointer));
        value.map(|value| resolver.resolve(value)).transpose()
    };
    let mut environment = BTreeMap::new();
    for properties in [&globals, &own] {
        if let Some(Value::Object(variables)) = properties.pointer("/Environment/Variables") {
            for (name, value) in variables {
                environment.insert(name.clone(), text(&resolver.resolve(value)?));
            }
        }
    }
    let log_level = get("/LoggingConfig/ApplicationLogLevel")?;
    Ok(Function {
        logical_id: id.to_owned(),
        binary: binary.to_owned(),
        timeout: Duration::from_secs(number(get("/Timeout")?, 3, id, "Timeout")?),
        memory: number(get("/MemorySize")?, 128, id, "MemorySize")?,
        environment,
        log_level: log_level.as_ref().map_or_else(|| "INFO".to_owned(), text),
    })
}

/// Returns the event source mapping of the Kinesis stream, which replaces a disabled event.
fn kinesis<'a>(
    resources: &'a Map<String, Value>,
    resolver: &Resolver,
) -> Result<(&'a str, &'a Map<String, Value>), TemplateError> {
    for (id, resource) in resources {
        let holds = match resource.get("Condition").and_then(Value::as_str) {
            Some(condition) => resolver.named_condition(condition)?,
            None => true,
        };
        if holds && resource.get("Type").and_then(Value::as_str) == Some("AWS::Lambda::EventSourceMapping") {
            return Ok((id, object(resource.get("Properties"), id)?));
        }
    }
    Err(TemplateError::Mappings)
}

/// Returns the table of an event's `Stream: !GetAtt Table.StreamArn`.
fn table_of(
    properties: &Map<String, Value>,
    resources: &Map<String, Value>,
    place: &str,
) -> Result<String, TemplateError> {
    let name = properties
        .get("Stream")
        .and_then(|stream| stream.pointer("/Fn::GetAtt/0"));
    let known = name
        .and_then(Value::as_str)
        .filter(|name| resources.contains_key(*name));
    let known = known.map(str::to_owned);
    known.ok_or_else(|| TemplateError::missing(place, "Stream: !GetAtt <table>.StreamArn"))
}

fn table_settings(id: &str, resources: &Map<String, Value>, resolver: &Resolver) -> Result<Table, TemplateError> {
    let resource = resources
        .get(id)
        .ok_or_else(|| TemplateError::missing(id, "Resources"))?;
    let properties = resolver.resolve(resource.get("Properties").unwrap_or(&Value::Null))?;
    let pairs = |list: &'static str, first: &str, second: &str| -> Result<Vec<_>, TemplateError> {
        let missing = || TemplateError::missing(id, list);
        let entries = properties.get(list).and_then(Value::as_array).ok_or_else(missing)?;
        let member = |entry: &Value, name: &str| entry.get(name).map(text).ok_or_else(missing);
        let pair = |entry| Ok((member(entry, first)?, member(entry, second)?));
        entries.iter().map(pair).collect()
    };
    let attributes = pairs("AttributeDefinitions", "AttributeName", "AttributeType")?;
    let key = |(name, _): &(String, String)| {
        let attribute = attributes.iter().find(|(attribute, _)| attribute == name);
        let (name, kind) = attribute.ok_or_else(|| TemplateError::missing(id, "AttributeDefinitions"))?;
        Ok((name.clone(), ScalarAttributeType::from(kind.as_str())))
    };
    let mut keys = pairs("KeySchema", "AttributeName", "KeyType")?;
    keys.sort_by_key(|(_, role)| role != "HASH");
    let view = properties.pointer("/StreamSpecification/StreamViewType").map(text);
    let is_true = |pointer: &str| properties.pointer(pointer).map(text).as_deref() == Some("true");
    Ok(Table {
        name: id.to_owned(),
        settings: TableSettings {
            keys: keys.iter().map(key).collect::<Result<_, TemplateError>>()?,
            stream: view.as_deref().map(StreamViewType::from),
            ttl: properties.pointer("/TimeToLiveSpecification/AttributeName").map(text),
            deletion_protection: is_true("/DeletionProtectionEnabled"),
            point_in_time_recovery: is_true("/PointInTimeRecoverySpecification/PointInTimeRecoveryEnabled"),
            encryption: is_true("/SSESpecification/SSEEnabled"),
        },
    })
}

/// Parses the settings of a mapping. An unknown setting is rejected, because it could change the behaviour.
fn mapping(properties: &Map<String, Value>, place: &str, resolver: &Resolver) -> Result<Settings, TemplateError> {
    let mut settings = Settings::default();
    let invalid = |error| TemplateError::Settings(place.to_owned(), error);
    for (name, value) in properties {
        let value = || resolver.resolve(value);
        let count = || number(Some(value()?), 0, place, name);
        match name.as_str() {
            "Stream" | "Enabled" | "EventSourceArn" | "FunctionName" | "DestinationConfig" | "MetricsConfig" => {}
            "BatchSize" => settings.batch_size = usize::try_from(count()?).unwrap_or(usize::MAX),
            "MaximumBatchingWindowInSeconds" => settings.batching_window = Duration::from_secs(count()?),
            "ParallelizationFactor" => {
                settings.parallelization_factor = usize::try_from(count()?).unwrap_or(usize::MAX);
            }
            "BisectBatchOnFunctionError" => settings.bisect_on_function_error = text(&value()?) == "true",
            "MaximumRetryAttempts" => {
                settings.maximum_retry_attempts =
                    bound(&value()?, place, name)?.map(|n| u32::try_from(n).unwrap_or(u32::MAX));
            }
            "MaximumRecordAgeInSeconds" => {
                settings.maximum_record_age = bound(&value()?, place, name)?.map(Duration::from_secs);
            }
            "FunctionResponseTypes" => {
                let types = value()?;
                let reports = |kind: &Value| kind.as_str() == Some("ReportBatchItemFailures");
                settings.report_batch_item_failures = types.as_array().is_some_and(|types| types.iter().any(reports));
            }
            "StartingPosition" => {
                settings.starting_position = match text(&value()?).as_str() {
                    "TRIM_HORIZON" => StartingPosition::TrimHorizon,
                    "LATEST" => StartingPosition::Latest,
                    _ => return Err(TemplateError::invalid(place, name)),
                };
            }
            "FilterCriteria" => {
                let criteria = value()?;
                let filters = criteria.get("Filters").and_then(Value::as_array).into_iter().flatten();
                let patterns: Vec<_> = filters.filter_map(|filter| filter.get("Pattern")).map(text).collect();
                let parsed = Filters::parse(patterns.iter().map(String::as_str)).map_err(InvalidSettings::from);
                settings.filters = parsed.map_err(invalid)?;
            }
            _ => return Err(TemplateError::Unsupported(place.to_owned(), name.clone())),
        }
    }
    settings.checked().map_err(invalid)
}

/// Parses settings without functions and parameters.
#[cfg(test)]
pub(crate) fn mapping_settings(properties: &Map<String, Value>) -> Settings {
    let document = Value::default();
    let resolver = Resolver::new(&document, &[]).expect("no parameters");
    mapping(properties, "settings", &resolver).expect("valid settings")
}

/// -1 means unlimited.
fn bound(value: &Value, place: &str, name: &str) -> Result<Option<u64>, TemplateError> {
    if text(value) == "-1" {
        return Ok(None);
    }
    number(Some(value.clone()), 0, place, name).map(Some)
}
