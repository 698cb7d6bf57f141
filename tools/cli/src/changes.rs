//! Changes of attributes, from the command line or a JSON file.

use std::{
    collections::{BTreeMap, HashMap},
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
    match text.split_once('=') {
        Some(("", _)) => Err("the name is empty".to_owned()),
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
        None => Err("expected NAME=VALUE".to_owned()),
    }
}

impl Changes {
    /// Returns `true` if the command line names neither an attribute nor a file.
    pub(crate) fn is_empty(&self) -> bool {
        self.json.is_none() && self.set.is_empty() && self.set_json.is_empty() && self.unset.is_empty()
    }

    /// Returns the attributes in plain JSON, null for one that is removed.
    pub(crate) fn read(&self) -> Result<Map<String, Value>, CliError> {
        if let Some(path) = &self.json {
            return from_file(path);
        }
        let texts = self.set.iter().map(|(name, text)| Ok((name.clone(), json!(text))));
        let values = self.set_json.iter().map(|(name, text)| {
            let value = json::parse(text).map_err(|error| CliError::usage(name, error))?;
            Ok((name.clone(), value))
        });
        let removed = self.unset.iter().map(|name| Ok((name.clone(), Value::Null)));
        texts.chain(values).chain(removed).collect()
    }
}

/// Reads a file, or standard input if its name is `-`.
pub(crate) fn text_of(path: &Path) -> Result<String, CliError> {
    let read = match path == Path::new("-") {
        true => {
            let mut text = String::new();
            io::stdin().read_to_string(&mut text).map(|_| text)
        }
        false => std::fs::read_to_string(path),
    };
    read.map_err(|error| CliError::usage(&path.display().to_string(), error))
}

fn from_file(path: &Path) -> Result<Map<String, Value>, CliError> {
    let (text, name) = (text_of(path)?, path.display().to_string());
    let value = json::parse(&text).map_err(|error| CliError::usage(&name, error))?;
    let Value::Object(mut members) = value else {
        return Err(CliError::Usage(format!("{name}: it is not a JSON object")));
    };
    let is_version = members.contains_key("Version");
    match members.get_mut("Attributes") {
        // A version as `get` prints it.
        Some(Value::Object(attributes)) if is_version => {
            let mut attributes = std::mem::take(attributes);
            attributes.extend(members.remove_entry(names::DELETED));
            return Ok(attributes);
        }
        _ => drop(members.remove(ID)),
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

/// Converts attributes in plain JSON to changes of an item without versions. They change no members of maps.
pub(crate) fn of_item(members: Map<String, Value>) -> Result<BTreeMap<String, Change>, CliError> {
    if let Some(name) = RESERVED.into_iter().find(|name| members.contains_key(*name)) {
        return Err(CliError::Usage(format!("{name} is reserved")));
    }
    let changes = parse(members)?;
    match changes.iter().find(|(_, change)| matches!(change, Change::Update(_))) {
        Some((name, _)) => Err(CliError::Usage(format!("{name}: $update is only for `vzero put`"))),
        None => Ok(changes),
    }
}

/// Converts attributes in plain JSON to an item without keys. `null` stands for no attribute.
pub(crate) fn item(members: Map<String, Value>) -> Result<Item, CliError> {
    let set = of_item(members)?.into_iter().filter_map(|(name, change)| match change {
        Change::Set(value) => Some((name, value)),
        Change::Remove | Change::Update(_) => None,
    });
    Ok(Item::from(set.collect::<HashMap<_, AttributeValue>>()))
}

/// Attributes with a special meaning, which are parsed as writer-fn parses them.
const SPECIAL: [&str; 7] = [
    names::REQUEST_ID,
    REQUEST_SENT_AT,
    EXPECTED_VERSION,
    names::DELETED,
    names::TIME,
    names::TIMESTAMP,
    TYPED_VALUES,
];

pub(crate) fn update(id: &str, options: &WriteOptions, mut members: Map<String, Value>) -> Result<Update, CliError> {
    if let Some(time) = &options.time {
        EpochMillis::parse_iso(time).map_err(|error| CliError::usage("--time", error))?;
    }
    let member = |name: &str, value: Option<Value>| value.map(|value| (name.to_owned(), value));
    let text = |text: &Option<String>| text.as_ref().map(|text| json!(text));
    members.extend(member(names::TIME, text(&options.time)));
    members.extend(member("Actor", text(&options.actor)));
    members.extend(member("Reason", text(&options.reason)));
    let mut own = Map::from_iter([(ID.to_owned(), json!(id))]);
    for name in SPECIAL.into_iter().chain(RESERVED) {
        own.extend(member(name, members.remove(name)));
    }
    own.extend(member(EXPECTED_VERSION, options.expect.map(|expected| json!(expected))));
    own.extend(member(names::REQUEST_ID, text(&options.request_id)));
    let fresh = uuid::Uuid::new_v4().to_string();
    let rejected = |error| CliError::usage("the update", error);
    let mut update = Update::parse(Value::Object(own), &fresh, options.writing.ordering).map_err(rejected)?;
    update.changes.extend(parse(members)?);
    update.check().map_err(rejected)?;
    Ok(update)
}
