//! Parses the table, the functions and the event source mappings of a template.

use std::{collections::BTreeMap, ops::RangeInclusive, path::Path, time::Duration};

use aws_sdk_dynamodb::types::{ScalarAttributeType, StreamViewType};
use operations::table::settings::TableSettings;
use serde_json::Value;
use shared::domain::time_index::INDEX_NAME;

use super::{
    resolve::{Resolver, text},
    yaml,
};
use crate::{
    attach::Attachment,
    error::{LocalError, failed},
    mapping::{filter::Filters, position::Position, settings::Settings},
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
    /// `true` for Kinesis Data Streams. The local stack reads the DynamoDB stream and converts its records to the Kinesis format.
    pub is_kinesis: bool,
    pub mapping: Settings,
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
}

impl Template {
    /// Reads a template. `overrides` replace the defaults of its parameters.
    pub fn read(path: &Path, overrides: &[(String, String)]) -> Result<Self, LocalError> {
        let text = std::fs::read_to_string(path).map_err(failed("cannot read the file"))?;
        Self::parse(&text, overrides)
    }

    pub fn parse(text: &str, overrides: &[(String, String)]) -> Result<Self, LocalError> {
        let document = yaml::parse(text)?;
        let resolver = Resolver::new(&document, overrides)?;
        resolver.check_rules()?;
        let resources = resolver.resources("AWS::Serverless::Function")?;
        let functions = resources
            .iter()
            .map(|(id, resource)| function(id, resource, &document, &resolver));
        let functions: Vec<_> = functions.collect::<Result<_, _>>()?;
        let events = functions.iter().zip(&resources).flat_map(|(function, (_, resource))| {
            let events = resource["Properties"]["Events"].as_object().into_iter().flatten();
            events.map(move |(id, event)| (function, id, event))
        });
        let streams: Vec<_> = events.filter(|(.., event)| event["Type"] == "DynamoDB").collect();
        let missing = || LocalError::new("it does not have exactly one event of type DynamoDB");
        let [(function, id, event)] = streams[..] else {
            return Err(missing());
        };
        let mut place = format!("{}.Events.{id}", function.logical_id);
        let mut properties = resolver.resolve(&event["Properties"])?;
        let name = properties["Stream"]
            .as_str()
            .and_then(|stream| stream.strip_suffix(".StreamArn"));
        let name = name.ok_or_else(|| LocalError::new(format!("{place} has no Stream: !GetAtt <table>.StreamArn")))?;
        let table = table(name, &resolver)?;
        if table.settings.stream.is_none() {
            return Err(LocalError::new(format!(
                "{name} has no StreamSpecification.StreamViewType"
            )));
        }
        let is_kinesis = properties["Enabled"] == false;
        if is_kinesis {
            // The mapping of the Kinesis stream replaces the event.
            let mappings = resolver.resources("AWS::Lambda::EventSourceMapping")?;
            let (id, kinesis) = *mappings.first().ok_or_else(missing)?;
            (place, properties) = (id.to_owned(), resolver.resolve(&kinesis["Properties"])?);
        }
        // All functions have the environment of the globals.
        let history = functions.iter().find_map(|function| function.environment.get(HISTORY));
        let history = history.filter(|name| !name.is_empty() && **name != table.name);
        Ok(Self {
            history: history.map(|name| self::table(name, &resolver)).transpose()?,
            table,
            attached: None,
            stream_function: function.binary.clone(),
            is_kinesis,
            mapping: mapping(&properties, &place)?,
            functions,
        })
    }
}

impl Template {
    /// Returns `true` if the functions expect the index of versions by time.
    pub fn has_time_index(&self) -> bool {
        let mut functions = self.functions.iter();
        functions.any(|function| {
            function
                .environment
                .get("TIME_INDEX")
                .is_some_and(|value| value == "true")
        })
    }
}

fn function(id: &str, resource: &Value, document: &Value, resolver: &Resolver) -> Result<Function, LocalError> {
    let binary = resource.pointer("/Metadata/BuildProperties/Binary");
    let binary = binary.and_then(Value::as_str);
    let binary = binary.ok_or_else(|| LocalError::new(format!("{id} has no Metadata.BuildProperties.Binary")))?;
    // Like SAM: settings of a function override the globals, and the environment is merged variable by variable.
    let all = [&resource["Properties"], &document["Globals"]["Function"]];
    let get = |pointer: &str, default: &str| {
        let value = all.iter().find_map(|properties| properties.pointer(pointer));
        value.map_or_else(
            || Ok(default.to_owned()),
            |value| resolver.resolve(value).map(|value| text(&value)),
        )
    };
    let number = |name: &str, default: &str| {
        let number = get(&format!("/{name}"), default)?.parse::<u64>();
        number.map_err(|_| LocalError::new(format!("invalid value of {name} in {id}")))
    };
    let mut environment = BTreeMap::new();
    for properties in all.iter().rev() {
        let variables = properties.pointer("/Environment/Variables").and_then(Value::as_object);
        for (name, value) in variables.into_iter().flatten() {
            environment.insert(name.clone(), text(&resolver.resolve(value)?));
        }
    }
    Ok(Function {
        logical_id: id.to_owned(),
        binary: binary.to_owned(),
        timeout: Duration::from_secs(number("Timeout", "3")?),
        memory: number("MemorySize", "128")?,
        environment,
    })
}

fn table(id: &str, resolver: &Resolver) -> Result<Table, LocalError> {
    let tables = resolver.resources("AWS::DynamoDB::Table")?;
    let resource = tables.iter().find(|(name, _)| *name == id);
    let (_, resource) = resource.ok_or_else(|| LocalError::new(format!("there is no table {id}")))?;
    let properties = resolver.resolve(&resource["Properties"])?;
    let list = |name: &str| properties[name].as_array().cloned().unwrap_or_default();
    let (attributes, mut keys) = (list("AttributeDefinitions"), list("KeySchema"));
    keys.sort_by_key(|key| key["KeyType"] != "HASH");
    let key = |key: &Value| {
        let attribute = attributes
            .iter()
            .find(|attribute| attribute["AttributeName"] == key["AttributeName"]);
        let (name, kind) = (key["AttributeName"].as_str(), attribute?["AttributeType"].as_str());
        Some((name?.to_owned(), ScalarAttributeType::from(kind?)))
    };
    let keys: Option<Vec<_>> = keys.iter().map(key).collect();
    let keys = keys.filter(|keys| !keys.is_empty());
    let get = |pointer: &str| properties.pointer(pointer).map(text);
    let is_true = |pointer: &str| get(pointer).as_deref() == Some("true");
    Ok(Table {
        name: id.to_owned(),
        settings: TableSettings {
            keys: keys.ok_or_else(|| LocalError::new(format!("{id} has no KeySchema with AttributeDefinitions")))?,
            stream: get("/StreamSpecification/StreamViewType").map(|view| StreamViewType::from(view.as_str())),
            ttl: get("/TimeToLiveSpecification/AttributeName"),
            deletion_protection: is_true("/DeletionProtectionEnabled"),
            point_in_time_recovery: is_true("/PointInTimeRecoverySpecification/PointInTimeRecoveryEnabled"),
            encryption: is_true("/SSESpecification/SSEEnabled"),
            time_index: list("GlobalSecondaryIndexes")
                .iter()
                .any(|index| index["IndexName"] == INDEX_NAME),
        },
    })
}

/// Parses the settings of a mapping, and checks Lambda's bounds. An unknown setting is rejected, because it could change the behaviour.
fn mapping(properties: &Value, place: &str) -> Result<Settings, LocalError> {
    let mut settings = Settings::default();
    for (name, value) in properties.as_object().into_iter().flatten() {
        let bad = || LocalError::new(format!("invalid value of {name} in {place}"));
        let number = |bounds: RangeInclusive<u32>| {
            let number = text(value).parse().ok().filter(|number| bounds.contains(number));
            number.ok_or_else(bad)
        };
        let seconds = |bounds| number(bounds).map(|seconds| Duration::from_secs(seconds.into()));
        // -1 is unlimited.
        let is_limited = text(value) != "-1";
        match name.as_str() {
            "Stream" | "Enabled" | "EventSourceArn" | "FunctionName" | "DestinationConfig" | "MetricsConfig" => {}
            "BatchSize" => settings.batch_size = number(1..=10_000)? as usize,
            "MaximumBatchingWindowInSeconds" => settings.batching_window = seconds(0..=300)?,
            "ParallelizationFactor" => settings.parallelization_factor = number(1..=10)? as usize,
            "BisectBatchOnFunctionError" => settings.bisect_on_function_error = text(value) == "true",
            "MaximumRetryAttempts" => {
                settings.maximum_retry_attempts = is_limited.then(|| number(0..=10_000)).transpose()?;
            }
            "MaximumRecordAgeInSeconds" => {
                settings.maximum_record_age = is_limited.then(|| seconds(60..=604_800)).transpose()?;
            }
            "FunctionResponseTypes" => {
                let mut types = value.as_array().into_iter().flatten();
                settings.report_batch_item_failures = types.any(|kind| kind == "ReportBatchItemFailures");
            }
            "StartingPosition" => {
                settings.starting_position = match text(value).as_str() {
                    "TRIM_HORIZON" => Position::TrimHorizon,
                    "LATEST" => Position::Latest,
                    _ => return Err(bad()),
                };
            }
            "FilterCriteria" => {
                let filters = value["Filters"].as_array().into_iter().flatten();
                let patterns: Vec<_> = filters.map(|filter| text(&filter["Pattern"])).collect();
                let parsed = Filters::parse(patterns.iter().map(String::as_str));
                settings.filters =
                    parsed.map_err(failed(format!("a pattern of FilterCriteria in {place} cannot be read")))?;
            }
            _ => {
                return Err(LocalError::new(format!(
                    "{place} has {name}, which the local stack does not support"
                )));
            }
        }
    }
    Ok(settings)
}

/// Parses settings without functions and parameters.
#[cfg(test)]
pub(crate) fn mapping_settings(properties: &serde_json::Map<String, Value>) -> Settings {
    mapping(&Value::Object(properties.clone()), "settings").expect("valid settings")
}
