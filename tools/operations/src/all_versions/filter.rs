//! Filter of the versions of all entities. DynamoDB charges for the items that a filter of a request excludes, so it is evaluated here.

use item_diff::line::text_of;
use shared::{
    domain::{AttributeValue, Item, attached::key, recorded_at::RecordedAt, view::VersionView},
    dynamodb::Store,
};

/// Conditions that a version fulfills. `None` is no condition.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct VersionFilter {
    /// Earliest time at which it was recorded.
    pub since: Option<RecordedAt>,
    /// Latest time at which it was recorded.
    pub until: Option<RecordedAt>,
    /// Its `Actor`, also if it is uncertain.
    pub actor: Option<String>,
    /// Its `Reason`.
    pub reason: Option<String>,
    /// Its `ChangeSet`.
    pub change_set: Option<String>,
    /// Beginning of the entity's key, see [`key_words`].
    pub entity_prefix: Option<String>,
}

impl VersionFilter {
    /// `true` if versions can be excluded.
    pub fn excludes(&self) -> bool {
        let texts = [&self.actor, &self.reason, &self.change_set, &self.entity_prefix];
        self.has_period() || texts.into_iter().any(Option::is_some)
    }

    fn has_period(&self) -> bool {
        self.since.is_some() || self.until.is_some()
    }

    /// `true` if the keys of a version do not suffice for a decision.
    pub fn has_texts(&self) -> bool {
        [&self.actor, &self.reason, &self.change_set]
            .into_iter()
            .any(Option::is_some)
    }

    pub(super) fn is_in_period(&self, time: RecordedAt) -> bool {
        is_between([self.since, self.until], time)
    }

    /// Returns `false` if a stored version item is of another time, so that its further parts need not be read.
    pub(super) fn can_select(&self, stored: &Item) -> bool {
        RecordedAt::of(stored).is_none_or(|time| self.is_in_period(time))
    }

    pub(super) fn has_entity(&self, store: &Store, id: &str) -> bool {
        let prefix = self.entity_prefix.as_ref();
        prefix.is_none_or(|prefix| id.starts_with(prefix) || key_words(store, id).join(" ").starts_with(prefix))
    }

    /// Returns `true` if author, reason and change set of a version are the wanted ones.
    pub fn is_attributed(&self, view: &VersionView) -> bool {
        is_of([&self.actor, &self.reason, &self.change_set], view)
    }

    /// Decides on a version of an entity that is selected. `None` if only its time is missing for a decision.
    pub(super) fn selects(&self, view: &VersionView) -> Option<bool> {
        let is_attributed = self.is_attributed(view);
        match view.recorded_at {
            Some(time) => Some(is_attributed && self.is_in_period(time)),
            None if is_attributed && self.has_period() => None,
            None => Some(is_attributed),
        }
    }
}

pub(crate) fn is_between([since, until]: [Option<RecordedAt>; 2], time: RecordedAt) -> bool {
    since.is_none_or(|since| time >= since) && until.is_none_or(|until| time <= until)
}

/// Returns `true` if a version has this author, reason and change set, as far as they are given.
pub(crate) fn is_of([actor, reason, change_set]: [&Option<String>; 3], view: &VersionView) -> bool {
    let is = |wanted: &Option<String>, value: &Option<AttributeValue>| {
        wanted.is_none() || value.as_ref().map(text_of) == *wanted
    };
    is(actor, &view.actor) && is(reason, &view.reason) && is(change_set, &view.change_set)
}

/// Returns the words by which users name an entity: its partition key, or the key attributes of an item of an attached table.
pub fn key_words(store: &Store, id: &str) -> Vec<String> {
    let words = store.attached_table().and_then(|table| {
        // The partition key of a long key is a hash.
        let item = key::attributes(table, id).ok()?;
        table.keys().map(|key| key::to_text(item.get(&key.name)?)).collect()
    });
    words.unwrap_or_else(|| vec![id.to_owned()])
}
