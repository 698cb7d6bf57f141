//! What the user wants changed.

use std::{
    collections::BTreeMap,
    io::{self, Read as _},
    path::Path,
};

use serde_json::{Map, Value, json};
use shared::domain::{
    AttributeValue, Item, names, plain,
    time::EpochMillis,
    update::{Change, EXPECTED_VERSION, ID, Ordering, RESERVED, Update},
};

use crate::{
    args::{Args, Changes},
    error::CliError,
};

/// Reads the changes: attributes by name.
pub(crate) fn read(changes: &Changes) -> Result<Map<String, Value>, CliError> {
    if let Some(path) = &changes.json {
        return from_file(path);
    }
    let mut members = Map::new();
    for (name, text) in &changes.set {
        members.insert(name.clone(), json!(text));
    }
    for (name, json) in &changes.set_json {
        let value = serde_json::from_str(json).map_err(|error| CliError::usage(name, error))?;
        members.insert(name.clone(), value);
    }
    members.extend(changes.unset.iter().map(|name| (name.clone(), Value::Null)));
    Ok(members)
}

fn from_file(path: &Path) -> Result<Map<String, Value>, CliError> {
    let mut text = String::new();
    let read = if path == Path::new("-") {
        io::stdin().read_to_string(&mut text).map(drop)
    } else {
        std::fs::read_to_string(path).map(|content| text = content)
    };
    let name = path.display().to_string();
    read.map_err(|error| CliError::usage(&name, error))?;
    let value = serde_json::from_str(&text).map_err(|error| CliError::usage(&name, error))?;
    let Value::Object(mut members) = value else {
        return Err(CliError::Usage(format!("{name}: it is not a JSON object")));
    };
    // A version as `get` shows it.
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

/// Turns attributes in plain JSON into changes.
pub(crate) fn changes(members: Map<String, Value>) -> Result<BTreeMap<String, Change>, CliError> {
    let change = |(name, value): (String, Value)| {
        let change = match value {
            Value::Null => Change::Remove,
            value => Change::Set(plain::from_json(value).map_err(|error| CliError::usage(&name, error))?),
        };
        Ok((name, change))
    };
    members.into_iter().map(change).collect()
}

/// Refuses what no item may set.
pub(crate) fn refuse_reserved(members: &Map<String, Value>) -> Result<(), CliError> {
    match RESERVED.into_iter().find(|name| members.contains_key(*name)) {
        Some(name) => Err(CliError::Usage(format!("{name} is reserved"))),
        None => Ok(()),
    }
}

/// The attributes of an item, all of them set.
pub(crate) fn item(changes: &Changes) -> Result<Item, CliError> {
    let members = read(changes)?;
    refuse_reserved(&members)?;
    let set = self::changes(members)?
        .into_iter()
        .filter_map(|(name, change)| match change {
            Change::Set(value) => Some((name, value)),
            Change::Remove => None,
        });
    Ok(Item::from(
        set.collect::<std::collections::HashMap<_, AttributeValue>>(),
    ))
}

/// The update that the flags and these attributes make.
pub(crate) fn update(id: &str, args: &Args, mut members: Map<String, Value>) -> Result<Update, CliError> {
    if let Some(time) = &args.time {
        EpochMillis::parse_iso(time).map_err(|error| CliError::usage("--time", error))?;
    }
    for (name, flag) in [
        (names::TIME, &args.time),
        ("Actor", &args.actor),
        ("Reason", &args.reason),
    ] {
        members.extend(flag.as_ref().map(|value| (name.to_owned(), json!(value))));
    }
    // What has a meaning of its own is read as writer-fn reads it.
    let mut own = Map::from_iter([(ID.to_owned(), json!(id))]);
    let special = [names::REQUEST_ID, EXPECTED_VERSION, names::DELETED];
    let by_time = [names::TIME, names::TIMESTAMP]
        .into_iter()
        .filter(|_| args.ordering == Ordering::Time);
    for name in special.into_iter().chain(by_time).chain(RESERVED) {
        own.extend(members.remove(name).map(|value| (name.to_owned(), value)));
    }
    own.extend(
        args.expect
            .map(|expected| (EXPECTED_VERSION.to_owned(), json!(expected))),
    );
    own.extend(
        args.request_id
            .as_ref()
            .map(|id| (names::REQUEST_ID.to_owned(), json!(id))),
    );
    let fresh = uuid::Uuid::new_v4().to_string();
    let refused = |error| CliError::usage("the update", error);
    let mut update = Update::parse(Value::Object(own), &fresh, args.ordering).map_err(refused)?;
    update.changes.extend(changes(members)?);
    update.check().map_err(refused)?;
    Ok(update)
}
