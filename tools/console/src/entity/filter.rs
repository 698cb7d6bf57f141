//! Filter of the versions of an entity: by author, by the value that changed, and by the time of creation.

use item_diff::{line::text_of, path::Path};
use shared::domain::{AttributeValue, recorded_at::RecordedAt};

/// Filter of versions. The default selects all.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Filter {
    /// Part of the actor, in any case.
    pub(super) actor: Option<String>,
    /// Path of the value that changed, as a whole or in a part.
    pub(super) path: Option<Path>,
    /// First time.
    pub(super) since: Option<RecordedAt>,
    /// Last time.
    pub(super) until: Option<RecordedAt>,
}

impl Filter {
    pub(super) fn is_active(&self) -> bool {
        *self != Self::default()
    }

    /// Returns the parameters for an address.
    pub(super) fn pairs(&self) -> [(&'static str, Option<String>); 4] {
        let time = |time: Option<RecordedAt>| time.map(|time| time.to_string());
        [
            ("actor", self.actor.clone()),
            ("path", self.path.as_ref().map(Path::to_string)),
            ("since", time(self.since)),
            ("until", time(self.until)),
        ]
    }

    /// Returns `true` if the filter selects a version by its author and its time.
    pub(super) fn selects(&self, actor: Option<&AttributeValue>, recorded_at: Option<RecordedAt>) -> bool {
        let is_actor = self
            .actor
            .as_ref()
            .is_none_or(|part| actor.is_some_and(|actor| text_of(actor).to_lowercase().contains(&part.to_lowercase())));
        let is_since = self.since.is_none_or(|since| recorded_at.is_some_and(|at| at >= since));
        let is_until = self.until.is_none_or(|until| recorded_at.is_some_and(|at| at <= until));
        is_actor && is_since && is_until
    }

    /// Returns `true` if no version before one of this time can be selected. The times increase with the versions.
    pub(super) fn ends_before(&self, recorded_at: Option<RecordedAt>) -> bool {
        matches!((self.since, recorded_at), (Some(since), Some(at)) if at < since)
    }
}
