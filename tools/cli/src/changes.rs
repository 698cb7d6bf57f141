//! Changes of attributes, from the command line or a JSON file.

use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
};

use attach::shell::argument;
use item_diff::{
    change::Kind,
    path::{InvalidPath, Path, Step, value_at},
};
use serde_json::{Map, Value, json};
use shared::{
    domain::{
        AttributeValue, Item,
        attached::{AttachedTable, key::number_text},
        attribution,
        change::Change,
        names,
        number::Decimal,
        plain,
        time::EpochMillis,
    },
    json,
};
use writer_fn::update::{EXPECTED_VERSION, ID, InvalidUpdate, REQUEST_SENT_AT, RESERVED, TYPED_VALUES, Update, nested};

use crate::{error::CliError, input, output, write_options::WriteOptions};

/// Changes of attributes.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Changes {
    /// Set a value: a number if it is one in its usual form, else a text; "5" in double quotes is a text, too. A path such as
    /// Address.City or Lines[2].Price sets a part
    #[arg(long, value_name = "PATH=VALUE", value_parser = pair)]
    set: Vec<(Path, String)>,
    /// Set a JSON value; {"$update": {…}} changes members of a map
    #[arg(long, value_name = "PATH=JSON", value_parser = pair)]
    set_json: Vec<(Path, String)>,
    /// Remove an attribute, or a part of it
    #[arg(long, value_name = "PATH", alias = "unset")]
    remove: Vec<Path>,
    /// Read attributes as a JSON object, or a version as `get` prints it, from a file, or - for standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["set", "set_json", "remove"])]
    json: Option<PathBuf>,
}

fn pair(text: &str) -> Result<(Path, String), String> {
    if text.starts_with('=') {
        return Err("the name is empty".to_owned());
    }
    let mut first = None;
    // A name in quotes can have an equals sign.
    for (index, _) in text.match_indices('=') {
        match text[..index].parse() {
            Ok(path) => return Ok((path, text[index + 1..].to_owned())),
            Err(error) => first = first.or(Some(error)),
        }
    }
    Err(first.map_or_else(
        || "expected NAME=VALUE".to_owned(),
        |error: InvalidPath| error.to_string(),
    ))
}

/// Prints a note if a text that looks like a number is not stored as one.
fn note_text(path: &Path, text: &str) {
    if let (Ok(number), AttributeValue::S(_)) = (Decimal::parse(text), typed(text)) {
        let number = json::number(text).map_or_else(|| number_text(&number), str::to_owned);
        let option = argument(&format!("{path}={number}"));
        let stored = format!("{path} is stored as the text \"{text}\"");
        output::note(&format!("{stored}: --set-json {option} stores a number"));
    }
}

/// Returns the value of a text: a number if DynamoDB prints it in the same way, else a text, from a JSON string if it is one.
fn typed(text: &str) -> AttributeValue {
    let is_number = Decimal::parse(text).is_ok_and(|number| number_text(&number) == text && !text.contains('e'));
    match is_number {
        true => AttributeValue::N(text.to_owned()),
        false => AttributeValue::S(json::string(text).unwrap_or_else(|| text.to_owned())),
    }
}

impl Changes {
    /// Returns `true` if the command line names neither an attribute nor a file.
    pub(crate) fn is_empty(&self) -> bool {
        self.json.is_none() && self.set.is_empty() && self.set_json.is_empty() && self.remove.is_empty()
    }

    /// Returns the attributes in plain JSON, null for one that is removed.
    pub(crate) fn read(&self) -> Result<Map<String, Value>, CliError> {
        let (members, parts) = self.with_parts(None)?;
        match parts.0.first() {
            Some((path, _)) => Err(CliError::Usage(format!(
                "{path}: a part of an attribute is only for `vzero put`"
            ))),
            None => Ok(members),
        }
    }

    /// Returns the attributes in plain JSON, null for one that is removed, and the changes of parts, for an item of this attached table.
    pub(crate) fn with_parts(&self, table: Option<&AttachedTable>) -> Result<(Map<String, Value>, Parts), CliError> {
        if let Some(path) = &self.json {
            return Ok((from_file(path, table)?, Parts::default()));
        }
        self.set.iter().for_each(|(path, text)| note_text(path, text));
        let texts = self
            .set
            .iter()
            .map(|(path, text)| Ok((path, plain::attribute(&typed(text)))));
        let values = self.set_json.iter().map(|(path, text)| {
            let value = json::parse(text).map_err(|error| CliError::usage(&path.to_string(), error))?;
            Ok((path, value))
        });
        let removed = self.remove.iter().map(|path| Ok((path, Value::Null)));
        let all = texts
            .chain(values)
            .chain(removed)
            .collect::<Result<Vec<_>, CliError>>()?;
        let (mut members, mut parts) = (Map::new(), Parts::default());
        for (index, (path, value)) in all.iter().enumerate() {
            if let Some((other, _)) = all[..index].iter().find(|(other, _)| other.overlaps(path)) {
                return Err(CliError::Usage(format!(
                    "{other} and {path} are the same value, or one is a part of the other"
                )));
            }
            match path.0.as_slice() {
                [Step::Name(name)] => _ = members.insert(name.clone(), value.clone()),
                _ => parts
                    .0
                    .push(((*path).clone(), change(&path.to_string(), value.clone())?)),
            }
        }
        Ok((members, parts))
    }
}

/// Changes of parts of attributes, of which none is a part of another.
#[derive(Default)]
pub(crate) struct Parts(Vec<(Path, Change)>);

impl Parts {
    /// Returns `true` if elements of lists change. The change of an attribute then depends on the item.
    pub(crate) fn have_elements(&self) -> bool {
        self.0
            .iter()
            .any(|(path, _)| path.0.iter().any(|step| matches!(step, Step::Index(_))))
    }

    /// Returns an error if a part of an attribute with a special meaning changes.
    pub(crate) fn check(&self) -> Result<(), CliError> {
        let names = SPECIAL.into_iter().chain(RESERVED).chain(attribution::OF_CLIENT);
        let special: Vec<_> = names.map(|name| Step::Name(name.to_owned())).collect();
        let mut paths = self.0.iter().map(|(path, _)| path);
        match paths.find(|path| path.0.first().is_some_and(|step| special.contains(step))) {
            Some(path) => Err(CliError::Usage(format!("{path}: no part of this attribute can be set"))),
            None => Ok(()),
        }
    }

    /// Returns `true` if a part of this attribute changes.
    pub(crate) fn are_in(&self, name: &str) -> bool {
        let mut paths = self.0.iter().map(|(path, _)| path);
        paths.any(|path| matches!(path.0.first(), Some(Step::Name(first)) if first == name))
    }

    /// Returns the changes by path, for the hash of a request.
    pub(crate) fn by_path(&self) -> impl Iterator<Item = (String, Change)> {
        self.0.iter().map(|(path, change)| (path.to_string(), change.clone()))
    }

    /// Returns the changes of attributes: of members of maps, and of whole lists, because an update has no form for elements. The index
    /// of an element is that in the item, before any change.
    pub(crate) fn of_item(&self, item: Option<&Item>) -> Result<BTreeMap<String, Change>, String> {
        let (known, mut changes, mut item) = (item, BTreeMap::new(), item.cloned().unwrap_or_default());
        let mut parts: Vec<_> = self.0.iter().collect();
        // Removals from the end: they move the elements behind them.
        parts.sort_by(|(a, x), (b, y)| (*x == Change::Remove).cmp(&(*y == Change::Remove)).then(b.cmp(a)));
        for (path, change) in parts {
            known.map_or(Ok(()), |item| check(item, path, change))?;
            let names = path.0.iter().take_while(|step| matches!(step, Step::Name(_))).count();
            let (whole, mut change) = (&path.0[..names], change.clone());
            if names < path.0.len() {
                change_element(&mut item, path, &change)?;
                let value = value_at(&item, &Path(whole.to_vec())).cloned();
                change = value.map_or(Change::Remove, Change::Set);
            }
            insert(&mut changes, whole, change);
        }
        Ok(changes)
    }
}

/// Checks changes of whole attributes, see [`check`]. Those of an unknown item are valid.
pub(crate) fn check_all(item: Option<&Item>, changes: &BTreeMap<String, Change>) -> Result<(), String> {
    let path = |name: &String| Path(vec![Step::Name(name.clone())]);
    let mut changes = changes.iter();
    item.map_or(Ok(()), |item| {
        changes.try_for_each(|(name, change)| check(item, &path(name), change))
    })
}

/// Returns an error with the next command if a map is missing, or if there is nothing to remove from a list. Prints a note if there is no
/// such attribute or member to remove.
fn check(item: &Item, path: &Path, change: &Change) -> Result<(), String> {
    let prefix = |length: usize| Path(path.0[..length].to_vec());
    let missing = (1..=path.0.len()).find(|length| value_at(item, &prefix(*length)).is_none());
    let is_name = |step: &Step| matches!(step, Step::Name(_));
    match (change, missing) {
        (Change::Remove, Some(length)) if length == path.0.len() && path.0.iter().all(is_name) => {
            output::note(&format!("the item has no {path} to remove"));
            Ok(())
        }
        (Change::Remove, Some(_)) => Err(format!("the item has no {path} to remove")),
        (Change::Set(value), Some(length)) if length < path.0.len() && path.0[length - 1..].iter().all(is_name) => {
            let members = path.0[length..].iter().rev();
            let json = members.fold(plain::attribute(value), |json, step| match step {
                Step::Name(name) => json!({ name: json }),
                Step::Index(_) => json,
            });
            let (map, option) = (prefix(length), argument(&format!("{}={json}", prefix(length))));
            Err(format!("the item has no map {map}: --set-json {option} sets it"))
        }
        _ => Ok(()),
    }
}

/// Changes an element of a list, or a part of one.
fn change_element(item: &mut Item, path: &Path, change: &Change) -> Result<(), String> {
    let kind = match change {
        Change::Set(value) if value_at(item, path).is_some() => Kind::Changed(value, value),
        Change::Set(value) => Kind::Added(value),
        Change::Remove => Kind::Removed(&AttributeValue::Null(true)),
        Change::Update(_) => {
            return Err(format!(
                "{path}: $update is not for elements of lists: name the member in the path"
            ));
        }
    };
    let change = item_diff::change::Change {
        path: path.clone(),
        kind,
    };
    change
        .apply(item)
        .ok_or_else(|| format!("the item has no {path}: set the whole list with --set-json"))
}

fn insert(changes: &mut BTreeMap<String, Change>, path: &[Step], change: Change) {
    match path {
        [Step::Name(name)] => _ = changes.insert(name.clone(), change),
        [Step::Name(name), rest @ ..] => {
            let members = changes
                .entry(name.clone())
                .or_insert_with(|| Change::Update(BTreeMap::new()));
            if let Change::Update(members) = members {
                insert(members, rest, change);
            }
        }
        _ => {}
    }
}

fn from_file(path: &std::path::Path, table: Option<&AttachedTable>) -> Result<Map<String, Value>, CliError> {
    let (text, name) = (input::text_of(path)?, path.display().to_string());
    let value = json::parse(&text).map_err(|error| CliError::usage(&name, error))?;
    let Value::Object(mut members) = value else {
        return Err(CliError::Usage(format!("{name}: it is not a JSON object")));
    };
    let is_version = members.contains_key("Version");
    match members.get_mut("Attributes") {
        // A version as `get` prints it.
        Some(Value::Object(attributes)) if is_version => {
            let mut attributes = std::mem::take(attributes);
            let deleted = members.remove_entry(names::DELETED);
            match table {
                Some(_) if deleted.as_ref().is_some_and(|(_, deleted)| *deleted == true) => {
                    return Err(CliError::Usage(format!(
                        "{name}: the version is a tombstone: restore it by its number"
                    )));
                }
                Some(table) => attributes.retain(|name, _| !is_of_version(table, name)),
                None => attributes.extend(deleted),
            }
            return Ok(attributes);
        }
        _ => drop(members.remove(ID)),
    }
    Ok(members)
}

/// Returns `true` if an attribute belongs to one version of one item: its key, version number, author, reason or change set.
fn is_of_version(table: &AttachedTable, name: &str) -> bool {
    table.attribution().any(|own| own == name)
        || table.version_attribute() == Some(name)
        || table.keys().any(|key| key.name == name)
}

/// Converts attributes in plain JSON to changes.
pub(crate) fn parse(members: Map<String, Value>) -> Result<BTreeMap<String, Change>, CliError> {
    let change = |(name, value): (String, Value)| change(&name, value).map(|change| (name, change));
    members.into_iter().map(change).collect()
}

/// Converts a value in plain JSON to a change of an attribute.
fn change(name: &str, value: Value) -> Result<Change, CliError> {
    let convert = |value| match nested::is_in(&value, true) {
        true => {
            let name = name.to_owned();
            Err(CliError::Usage(InvalidUpdate::MisplacedUpdate { name }.to_string()))
        }
        false => plain::from_json(value).map_err(|error| CliError::usage(name, error)),
    };
    nested::from_json(value, &convert)
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

/// Returns the error of an attribute with a value of its own, and one of an option.
pub(crate) fn two_values(option: &str, name: &str) -> CliError {
    CliError::Usage(format!(
        "{option} sets {name}, which has another value: use one of them"
    ))
}

/// Attributes with a special meaning, which are parsed as writer-fn parses them.
const SPECIAL: [&str; 8] = [
    names::REQUEST_ID,
    REQUEST_SENT_AT,
    EXPECTED_VERSION,
    names::DELETED,
    names::TIME,
    names::TIMESTAMP,
    names::CHANGE_SET,
    TYPED_VALUES,
];

pub(crate) fn update(id: &str, options: &WriteOptions, mut members: Map<String, Value>) -> Result<Update, CliError> {
    if let Some(time) = &options.time {
        EpochMillis::parse_iso(time).map_err(|error| CliError::usage("--time", error))?;
    }
    let member = |name: &str, value: Option<Value>| value.map(|value| (name.to_owned(), value));
    let text = |text: &Option<String>| text.as_ref().map(|text| json!(text));
    members.extend(member(names::TIME, text(&options.time)));
    for (option, name, value) in [
        ("--actor", names::ACTOR, &options.actor),
        ("--reason", names::REASON, &options.reason),
        ("--change-set", names::CHANGE_SET, &options.change_set),
    ] {
        if value.is_some() && members.contains_key(name) {
            return Err(two_values(option, name));
        }
        members.extend(member(name, text(value)));
    }
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
