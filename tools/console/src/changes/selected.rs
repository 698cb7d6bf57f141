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
use shared::config::Ordering;

use super::{filter::Filter, plan::Of};
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
        versions.insert(query.entity()?, [query.required_version("version")?].into());
    }
    for (_, pick) in query.starting(PICK) {
        let pick = serde_json::from_str::<(String, _)>(pick);
        let (id, version) = pick.map_err(|error| PageError::Invalid(PICK, error.into()))?;
        versions.entry(current::entity(&id)?).or_default().insert(version);
    }
    let count = versions.values().map(BTreeSet::len).sum::<usize>();
    if let Some((entity, numbers)) = versions.first_key_value() {
        let what = match numbers.first().filter(|_| count == 1) {
            Some(version) => format!("version {version} of {}", entity.as_str()),
            None => format!("{count} versions of {} items", versions.len()),
        };
        return Ok((Of::Versions(versions), Selection::default(), what));
    }
    let filter = Filter::of(query)?;
    Ok((Of::Table(filter.clone()), filter.selection()?, filter.text()))
}

/// Returns the parameters that select the versions.
pub(super) fn own(query: &Query) -> impl Iterator<Item = (&str, String)> {
    let names = "id version since until actor reason change_set prefix".split(' ');
    let named = names.filter_map(|name| Some((name, query.text(name)?)));
    let all = named.chain(query.starting(PICK));
    all.map(|(name, value)| (name, value.to_owned()))
}

/// Returns the command of the same undo. Several versions that were picked have none.
pub(super) fn command(app: &App, query: &Query, of: &Of, options: &Options) -> Option<String> {
    let (mut words, mut selecting) = (vec!["vzero undo".to_owned()], Vec::new());
    match of {
        Of::Table(filter) => selecting.extend(filter.pairs()),
        Of::Versions(versions) => {
            let (entity, numbers) = versions.first_key_value().filter(|_| versions.len() == 1)?;
            let key = key_words(app.store(), entity.as_str());
            words.extend(key.iter().map(|word| argument(word)));
            words.push(numbers.first().filter(|_| numbers.len() == 1)?.to_string());
        }
    }
    let form = "conflicts actor_changed_only with_unattributed_deletions limit max_wcu as_actor".split(' ');
    let form = form.filter_map(|name| Some((name, query.text(name)?.to_owned())));
    let ordering = options.ordering == Ordering::Time;
    let own = [
        ("as_reason", options.reason.clone()),
        ("as_change_set", options.change_set.clone()),
        ("ordering", ordering.then(|| "time".to_owned())),
        ("table", Some(app.connection.table.clone())),
        ("endpoint_url", app.connection.endpoint_url.clone()),
    ];
    let own = own.into_iter().filter_map(|(name, value)| Some((name, value?)));
    for (name, value) in selecting.into_iter().chain(form).chain(own) {
        let option = name.replace("prefix", "entity").replace('_', "-");
        words.push(match name {
            "conflicts" if options.conflicts == Conflicts::Leave => continue,
            "actor_changed_only" | "with_unattributed_deletions" => format!("--{option}"),
            _ => format!("--{option} {}", argument(&value)),
        });
    }
    Some(words.join(" "))
}
