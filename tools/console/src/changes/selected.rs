//! Parameters that select the versions of an undo, in words, and as a command.

use std::collections::{BTreeMap, BTreeSet};

use attach::shell::argument;
use operations::{
    all_versions::filter::key_words,
    undo::{
        options::{Conflicts, Options},
        selection::Selection,
    },
};
use serde_json::json;
use shared::{
    config::{Ordering, WriteMode},
    domain::version::Version,
};

use super::{entity::Entity, filter::Filter, plan::Of};
use crate::{app::App, current, error::PageError, query::Query};

/// Beginning of the names of parameters that select versions, each as `["E#1",7]`.
pub(super) const PICK: &str = "pick";
/// Treatments of conflicts, in a form and in words.
pub(super) const CONFLICTS: [(&str, Conflicts, &str); 3] = [
    ("leave", Conflicts::Leave, "leave the item as it is"),
    ("skip-path", Conflicts::SkipPath, "undo the other paths of the item"),
    (
        "overwrite",
        Conflicts::Overwrite,
        "restore the value from before the selected changes",
    ),
];

/// Returns what a query selects, in words too.
pub(super) fn selected(query: &Query) -> Result<(Of, Selection, String), PageError> {
    let mut versions = BTreeMap::<_, BTreeSet<_>>::new();
    if query.text("id").is_some() {
        let version = query.required_version("version")?;
        versions.entry(query.entity()?).or_default().insert(version);
    }
    for (_, pick) in query.starting(PICK) {
        let pick = serde_json::from_str::<(String, Version)>(pick);
        let (id, version) = pick.map_err(|error| PageError::Invalid(PICK, error.into()))?;
        versions.entry(current::entity(&id)?).or_default().insert(version);
    }
    if let Some((entity, numbers)) = versions.first_key_value() {
        let numbers = Entity::numbers(&json!(numbers));
        let what = match versions.len() {
            1 => format!("version {numbers} of {}", entity.as_str()),
            entities => format!(
                "{} versions of {entities} items",
                versions.values().map(BTreeSet::len).sum::<usize>()
            ),
        };
        return Ok((Of::Versions(versions), Selection::default(), what));
    }
    let filter = Filter::of(query)?;
    let selection = filter.selection()?;
    let what = filter.text();
    Ok((
        Of::Table(filter.scanned.entity_prefix.into_iter().collect()),
        selection,
        what,
    ))
}

/// Returns the parameters that select the versions.
pub(super) fn own(query: &Query) -> impl Iterator<Item = (&str, String)> {
    let names = "id version since until actor reason change_set prefix".split(' ');
    let named = names.filter_map(|name| Some((name, query.text(name)?)));
    let all = named.chain(query.starting(PICK));
    all.map(|(name, value)| (name, value.to_owned()))
}

/// Returns the command of the same undo. Versions of several entities, and several versions of one, have none.
pub(super) fn command(app: &App, query: &Query, of: &Of, options: &Options) -> Option<String> {
    let (mut words, selection) = (vec!["vzero undo".to_owned()], &options.selection);
    let mut names = "conflicts limit max_wcu as_actor".to_owned();
    if let Of::Versions(versions) = of {
        let ((entity, numbers), 1) = (versions.first_key_value()?, versions.len()) else {
            return None;
        };
        let key = key_words(app.store(), entity.as_str());
        words.extend(key.iter().map(|word| argument(word)));
        words.extend(numbers.iter().map(Version::to_string));
        if numbers.len() > 1 {
            return None;
        }
    } else {
        names.push_str(" actor reason change_set prefix");
    }
    let mut add = |name: &str, value: Option<String>| {
        words.extend(value.map(|value| format!("--{name} {}", argument(&value))));
    };
    add("since", selection.since.map(|time| time.to_string()));
    add("until", selection.until.map(|time| time.to_string()));
    for name in names.split(' ') {
        let option = if name == "prefix" {
            "entity".to_owned()
        } else {
            name.replace('_', "-")
        };
        let is_default = name == "conflicts" && options.conflicts == Conflicts::Leave;
        add(&option, query.text(name).filter(|_| !is_default).map(str::to_owned));
    }
    add("as-reason", options.reason.clone());
    add("as-change-set", options.change_set.clone());
    add(
        "ordering",
        (options.ordering == Ordering::Time).then(|| "time".to_owned()),
    );
    let is_stream = options.write.mode == WriteMode::Stream;
    add(
        "mode",
        (!is_stream).then(|| format!("{:?}", options.write.mode).to_lowercase()),
    );
    add("table", Some(app.connection.table.clone()));
    add("endpoint-url", app.connection.endpoint_url.clone());
    for (option, is_given) in [
        ("--actor-changed-only", selection.actor_changed_only),
        ("--with-unattributed-deletions", selection.with_unattributed_deletions),
    ] {
        words.extend(is_given.then(|| option.to_owned()));
    }
    Some(words.join(" "))
}
