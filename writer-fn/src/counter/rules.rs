//! The rules of v0: every condition of a request that changes the latest item, stated once.
//!
//! The parts of an update's [`Form`](super::form::Form) select the rules that its request has, and define their values. After a
//! conditional check failure, the same conditions are evaluated on the item that DynamoDB returns. The simulation disables each
//! rule by its name.

use shared::{
    domain::{Item, names},
    dynamodb::{
        condition::{
            Comparison::{AtLeast, AtMost, Is, IsNot, Less},
            Condition::{self, Absent, All, Any, Compare, Exists, Not, Smaller},
        },
        expression::Expression,
    },
};

/// Condition with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// Name. Several rules have the same one if one update has one or the other.
    pub name: &'static str,
    /// Condition.
    pub condition: Condition,
}

/// Attribute names of the placeholders in the conditions, except `#hash`, which each request defines.
const NAMES: [(&str, &str); 14] = [
    ("#pk", names::PK),
    ("#latest", names::LATEST),
    ("#request", names::REQUEST_ID),
    ("#recent", names::RECENT_REQUESTS),
    ("#since", names::REQUESTS_SINCE),
    ("#dropped", names::REQUESTS_DROPPED),
    ("#ahead", names::REQUESTS_AHEAD),
    ("#recorded", names::RECORDED_AT),
    ("#tick", names::RECORDED_TICK),
    ("#version", names::RECORDED_VERSION),
    ("#deleted", names::DELETED),
    ("#staged", names::TOMBSTONE_STAGED),
    ("#timestamp", names::TIMESTAMP),
    ("#time", names::TIME),
];

macro_rules! rules {
    ($($(#[$doc:meta])* $constant:ident = $name:literal: $condition:expr;)*) => {
        $($(#[$doc])* pub const $constant: Rule = Rule { name: $name, condition: $condition };)*
        /// All rules.
        pub const ALL: &[Rule] = &[$($constant),*];
    };
}

rules! {
    /// Rejects a repetition of the last update: the counter is not idempotent, see
    /// [Atomic counters](https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/WorkingWithItems.html).
    NOT_LAST_REQUEST = "guard": Any(&[Absent("#request"), Compare("#request", IsNot, ":request")]);
    /// Rejects a repetition of a recent update.
    NOT_RECENT_REQUEST = "guard": Absent("#recent.#hash");
    /// Rejects an update of the greatest version: `v0` would have a number that is not that of a version. A `Latest` of another
    /// type passes, and fails in the calculation.
    HAS_NEXT_VERSION = "maximum-version": Any(&[Absent("#latest"), Not(&Compare("#latest", AtLeast, ":max"))]);
    /// Requires a map of recent requests. DynamoDB evaluates the condition before it resolves a path in the map: an item without the
    /// map fails the condition, and there is no validation error.
    HAS_MAP = "map": All(&[Exists("#latest"), Exists("#recent")]);
    /// Requires that the map of recent requests is not full.
    HAS_ROOM = "room": Smaller("#recent", ":most");
    /// Requires an entity without versions, if the update creates the map.
    FIRST_MAP = "map-creation": Absent("#latest");
    /// Requires the latest version that was read, and no map, if the update creates it.
    NEW_MAP = "map-creation": All(&[Absent("#recent"), Compare("#latest", Is, ":read")]);
    /// Requires that no request has left the map.
    NONE_DROPPED = "removal-order": Absent("#dropped");
    /// Requires that no request has left the map since it was read. Each removal increases the value, so the map still has the entries
    /// that were read, with these versions.
    SAME_DROPPED = "removal-order": Compare("#dropped", Is, ":before");
    /// Requires that no sender has claimed a later time.
    AHEAD = "ahead": Any(&[Absent("#ahead"), Compare("#ahead", Less, ":ahead")]);
    /// Requires the latest version that was read, or a later one.
    BASE = "base": Compare("#latest", AtLeast, ":base");
    /// Requires that the map has the requests of all versions after the one that was read.
    RETRY_GUARD = "retry-guard": Any(&[Absent("#dropped"), Compare("#dropped", AtMost, ":base")]);
    /// Requires that the map has dropped no request that was sent when the update was, or later.
    SENT = "sent-time": Any(&[Absent("#since"), Compare("#since", Less, ":sent")]);
    /// Requires that the latest item is no tombstone.
    LIVE = "ended-state": Any(&[Absent("#deleted"), Compare("#deleted", IsNot, ":deleted")]);
    /// Requires the tombstone that was read.
    TOMBSTONE = "tombstone": All(&[Compare("#deleted", Is, ":deleted"), Compare("#latest", Is, ":tombstone")]);
    /// Requires the tombstone that was read, of an item without versions.
    UNCOUNTED_TOMBSTONE = "tombstone": All(&[Compare("#deleted", Is, ":deleted"), Absent("#latest")]);
    /// Requires that a restore has put no attributes on the tombstone.
    NONE_STAGED = "staged": Absent("#staged");
    /// Requires that no restore has put attributes on the tombstone since it was read.
    SAME_STAGED = "staged": Compare("#staged", Is, ":staged");
    /// Requires the tombstone that ended the attributes to remove.
    REMOVAL = "removal": All(&[Compare("#latest", Is, ":latest"), Compare("#deleted", Is, ":deleted")]);
    /// Requires the tombstone of this project on which a restore puts attributes.
    STAGING = "staging": Compare("#version", Is, ":latest");
    /// Requires that no other restore has put attributes on the tombstone.
    NEXT_STAGING = "staging": Compare("#staged", Is, ":before");
    /// Requires a latest item that is older than the writer's time.
    CLOCK = "clock": Any(&[Absent("#recorded"), Compare("#recorded", Less, ":recorded")]);
    /// Requires a latest item with the time that was read or a later one.
    SAME_CLOCK = "tick": Compare("#recorded", AtLeast, ":recorded");
    /// Requires that the time of the latest item has a tick left.
    TICKS = "tick": Any(&[Absent("#tick"), Compare("#tick", Less, ":ticks")]);
    /// Requires the time that was read, which has another form.
    OTHER_FORM = "other-form": Compare("#recorded", Is, ":stored");
    /// Requires that the latest item is not newer. Equal times are accepted.
    RATCHET = "ratchet": Any(&[Compare("#timestamp", AtMost, ":timestamp"), All(&[Absent("#timestamp"), Absent("#time")])]);
    /// Requires the `Time` that was read, which is not later than the update.
    AFTER_TIME = "after-time": All(&[Absent("#timestamp"), Compare("#time", Is, ":before")]);
    /// Requires that there is no latest item.
    EXPECTED_ABSENT = "expected-version": Absent("#pk");
    /// Requires the expected version.
    EXPECTED_VERSION = "expected-version": Compare("#latest", Is, ":expected");
    /// Requires that there is still no latest item.
    STILL_ABSENT = "stale-read": Absent("#pk");
    /// Requires that the latest item still has no version.
    STILL_UNCOUNTED = "stale-read": All(&[Exists("#pk"), Absent("#latest")]);
    /// Requires the latest version that was read.
    SAME_VERSION = "stale-read": Compare("#latest", Is, ":read");
}

impl Rule {
    /// Requires this rule in an expression, which defines its values.
    pub(crate) fn add_to(self, expression: &mut Expression) {
        self.define_names(expression);
        expression.require(self.condition);
    }

    /// Requires this rule before all others.
    pub(crate) fn add_first(self, expression: &mut Expression) {
        self.define_names(expression);
        expression.require_first(self.condition);
    }

    fn define_names(self, expression: &mut Expression) {
        self.condition.each_path(&mut |path| {
            for placeholder in path.split('.') {
                if let Some((_, name)) = NAMES.iter().find(|(known, _)| *known == placeholder) {
                    expression.name(placeholder, *name);
                }
            }
        });
    }
}

/// Returns the conditions of the rules with this name, as they are in a request.
pub fn named(name: &str) -> impl Iterator<Item = String> {
    ALL.iter()
        .filter(move |rule| rule.name == name)
        .map(|rule| rule.condition.to_string())
}

/// Returns `true` if the rules hold for a stored item that a part of a form adds to an expression.
pub(crate) fn hold(part: impl FnOnce(&mut Expression), stored: Option<&Item>) -> bool {
    let mut expression = Expression::default();
    part(&mut expression);
    expression.holds(stored)
}
