//! Changes of attributes, from the command line or a JSON file.

use std::{
    collections::BTreeMap,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use serde_json::{Map, Value, json};
use shared::{
    domain::{AttributeValue, Item, change::Change, names, plain, time::EpochMillis},
    json,
};
use writer_fn::update::{EXPECTED_VERSION, ID, InvalidUpdate, REQUEST_SENT_AT, RESERVED, TYPED_VALUES, Update, nested};

use crate::{error::CliError, write_options::WriteOptions};

/// Changes of attributes.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Changes {
    /// Set an attribute to a text
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    set: Vec<(String, String)>,
    /// Set an attribute to a JSON value; {"$update": {…}} changes members of a map
    #[arg(long, value_name = "NAME=JSON", value_parser = pair)]
    set_json: Vec<(String, String)>,
    /// Remove an attribute
    #[arg(long, value_name = "NAME")]
    unset: Vec<String>,
    /// Read attributes as a JSON object, or a version as `get` prints it, from a file, or - for standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["set", "set_json", "unset"])]
    json: Option<PathBuf>,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    if name.is_empty() {
        return Err("the name is empty".to_owned());
    }
    Ok((name.to_owned(), value.to_owned()))
}

impl Changes {
    /// Returns `true` if the command line names neither an attribute nor a file.
    pub(crate) fn is_empty(&self) -> bool {
        self.json.is_none() && self.set.is_empty() && self.set_json.is_empty() && self.unset.is_empty()
    }
}

pub(crate) fn read(changes: &Changes) -> Result<Map<String, Value>, CliError> {
    if let Some(path) = &changes.json {
        return from_file(path);
    }
    let mut members = Map::new();
    for (name, text) in &changes.set {
        members.insert(name.clone(), json!(text));
    }
    for (name, text) in &changes.set_json {
        let value = json::parse(text).map_err(|error| CliError::usage(name, error))?;
        members.insert(name.clone(), value);
    }
    members.extend(changes.unset.iter().map(|name| (name.clone(), Value::Null)));
    Ok(members)
}

/// Reads a file, or standard input if its name is `-`.
pub(crate) fn text_of(path: &Path) -> Result<String, CliError> {
    let mut text = String::new();
    let read = if path == Path::new("-") {
        io::stdin().read_to_string(&mut text).map(drop)
    } else {
        std::fs::read_to_string(path).map(|content| text = content)
    };
    read.map_err(|error| CliError::usage(&path.display().to_string(), error))?;
    Ok(text)
}

fn from_file(path: &Path) -> Result<Map<String, Value>, CliError> {
    let text = text_of(path)?;
    let name = path.display().to_string();
    let value = json::parse(&text).map_err(|error| CliError::usage(&name, error))?;
    let Value::Object(mut members) = value else {
        return Err(CliError::Usage(format!("{name}: it is not a JSON object")));
    };
    // A version as `get` prints it.
    if let (Some(Value::Object(_)), true) = (members.get("Attributes"), members.contains_key("Version")) {
        let deleted = members.remove(names::DELETED);
        if let Some(Value::Object(attributes)) = members.remove("Attributes") {
            members = attributes;
        }
        members.extend(deleted.map(|deleted| (names::DELETED.to_owned(), deleted)));
    } else {
        members.remove(ID);
    }
    Ok(members)
}

/// Converts attributes in plain JSON to changes.
pub(crate) fn parse(members: Map<String, Value>) -> Result<BTreeMap<String, Change>, CliError> {
    let change = |(name, value): (String, Value)| {
        let convert = |value| match nested::is_in(&value, true) {
            true => {
                let name = name.clone();
                Err(CliError::Usage(InvalidUpdate::MisplacedUpdate { name }.to_string()))
            }
            false => plain::from_json(value).map_err(|error| CliError::usage(&name, error)),
        };
        let change = nested::from_json(value, &convert)?;
        Ok((name, change))
    };
    members.into_iter().map(change).collect()
}

pub(crate) fn reject_reserved(members: &Map<String, Value>) -> Result<(), CliError> {
    match RESERVED.into_iter().find(|name| members.contains_key(*name)) {
        Some(name) => Err(CliError::Usage(format!("{name} is reserved"))),
        None => Ok(()),
    }
}

/// Rejects updates of members of a map, for items without versions.
pub(crate) fn without_nested(changes: BTreeMap<String, Change>) -> Result<BTreeMap<String, Change>, CliError> {
    let nested = changes.iter().find(|(_, change)| matches!(change, Change::Update(_)));
    match nested {
        Some((name, _)) => Err(CliError::Usage(format!("{name}: $update is only for `vzero put`"))),
        None => Ok(changes),
    }
}

/// Converts attributes in plain JSON to an item without keys. `null` stands for no attribute.
pub(crate) fn item(members: Map<String, Value>) -> Result<Item, CliError> {
    reject_reserved(&members)?;
    let changes = without_nested(parse(members)?)?;
    let set = changes.into_iter().filter_map(|(name, change)| match change {
        Change::Set(value) => Some((name, value)),
        Change::Remove | Change::Update(_) => None,
    });
    Ok(Item::from(
        set.collect::<std::collections::HashMap<_, AttributeValue>>(),
    ))
}

pub(crate) fn update(id: &str, options: &WriteOptions, mut members: Map<String, Value>) -> Result<Update, CliError> {
    if let Some(time) = &options.time {
        EpochMillis::parse_iso(time).map_err(|error| CliError::usage("--time", error))?;
    }
    for (name, flag) in [
        (names::TIME, &options.time),
        ("Actor", &options.actor),
        ("Reason", &options.reason),
    ] {
        members.extend(flag.as_ref().map(|value| (name.to_owned(), json!(value))));
    }
    // Attributes with a special meaning are parsed as writer-fn parses them.
    let mut own = Map::from_iter([(ID.to_owned(), json!(id))]);
    let special = [
        names::REQUEST_ID,
        REQUEST_SENT_AT,
        EXPECTED_VERSION,
        names::DELETED,
        names::TIME,
        names::TIMESTAMP,
        TYPED_VALUES,
    ];
    for name in special.into_iter().chain(RESERVED) {
        own.extend(members.remove(name).map(|value| (name.to_owned(), value)));
    }
    own.extend(
        options
            .expect
            .map(|expected| (EXPECTED_VERSION.to_owned(), json!(expected))),
    );
    own.extend(
        options
            .request_id
            .as_ref()
            .map(|id| (names::REQUEST_ID.to_owned(), json!(id))),
    );
    let fresh = uuid::Uuid::new_v4().to_string();
    let rejected = |error| CliError::usage("the update", error);
    let mut update = Update::parse(Value::Object(own), &fresh, options.writing.ordering).map_err(rejected)?;
    update.changes.extend(parse(members)?);
    update.check().map_err(rejected)?;
    Ok(update)
}
