//! The rules of v0: every condition of a request that changes the latest item, stated once, with what its failure means.
//!
//! ```text
//!        ┌─> text of the condition in the request
//! rule ──┼─> evaluation on the item that DynamoDB returns with a conditional check failure, or that was read
//!        └─> meaning of the failure: an outcome of the update, or another form of the request
//! ```
//!
//! The parts of an update's [`Form`](super::form::Form) select the rules that its request has, and define their values.
//! [`decide`](super::decision::decide) evaluates those whose failure is an outcome. The simulation disables each rule by its name.

use aws_sdk_dynamodb::types::AttributeValue as Value;
use shared::{
    domain::{Item, names, request_id::RequestHash, version::Version},
    dynamodb::{
        condition::{
            Comparison::{AtLeast, AtMost, Is, IsNot, Less},
            Condition::{self, Absent, All, Any, Compare, Exists, Not, Smaller},
        },
        expression::Expression,
        n, s,
    },
};

use self::Failure::{Conflict, Duplicate, Form, Greatest, Older};
use crate::update::{ExpectedVersion, Update};

/// Condition with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// Name. Several rules have the same one if one update has one or the other.
    pub name: &'static str,
    /// Condition.
    pub condition: Condition,
    /// Meaning of its failure.
    pub failure: Failure,
}

/// Meaning of a rule's failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The update was applied before, or its request id belongs to another update.
    Duplicate,
    /// The latest version is not the expected one.
    Conflict,
    /// The latest item is newer, or its time cannot be read.
    Older,
    /// There is no higher version.
    Greatest,
    /// The request needs another form: it does not fit the item, or another writer has changed the item.
    Form,
}

/// Attribute names of the placeholders, except `#hash`, which each request defines.
const NAMES: [(&str, &str); 20] = [
    ("#pk", names::PK),
    ("#latest", names::LATEST),
    ("#request", names::REQUEST_ID),
    ("#payload", names::REQUEST_PAYLOAD),
    ("#incarnation", names::INCARNATION),
    ("#recent", names::RECENT_REQUESTS),
    ("#since", names::REQUESTS_SINCE),
    ("#dropped", names::REQUESTS_DROPPED),
    ("#ahead", names::REQUESTS_AHEAD),
    ("#recorded", names::RECORDED_AT),
    ("#tick", names::RECORDED_TICK),
    ("#version", names::RECORDED_VERSION),
    ("#ttl", names::TTL),
    ("#deleted", names::DELETED),
    ("#state", names::TOMBSTONE_STATE),
    ("#staged", names::TOMBSTONE_STAGED),
    ("#timestamp", names::TIMESTAMP),
    ("#time", names::TIME),
    ("#sender", names::SENDER),
    ("#restored", names::RESTORED_FROM),
];

macro_rules! rules {
    ($($(#[$doc:meta])* $constant:ident = $name:literal: $condition:expr => $failure:ident;)*) => {
        $($(#[$doc])* pub const $constant: Rule = Rule { name: $name, condition: $condition, failure: $failure };)*
        /// All rules.
        pub const ALL: &[Rule] = &[$($constant),*];
    };
}

rules! {
    /// Rejects a repetition of the last update: the counter is not idempotent, see
    /// [Atomic counters](https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/WorkingWithItems.html).
    NOT_LAST_REQUEST = "guard": Any(&[Absent("#request"), Compare("#request", IsNot, ":request")]) => Duplicate;
    /// Rejects a repetition of a recent update.
    NOT_RECENT_REQUEST = "guard": Absent("#recent.#hash") => Duplicate;
    /// Rejects an update of the greatest version: `v0` would have a number that is not that of a version. A `Latest` of another
    /// type passes, and fails in the calculation.
    HAS_NEXT_VERSION = "maximum-version": Any(&[Absent("#latest"), Not(&Compare("#latest", AtLeast, ":max"))]) => Greatest;
    /// Requires a map of recent requests. DynamoDB evaluates the condition before it resolves a path in the map: an item without the
    /// map fails the condition, and there is no validation error.
    HAS_MAP = "map": All(&[Exists("#latest"), Exists("#recent")]) => Form;
    /// Requires that the map of recent requests is not full.
    HAS_ROOM = "room": Smaller("#recent", ":most") => Form;
    /// Requires an entity without versions, if the update creates the map.
    FIRST_MAP = "map-creation": Absent("#latest") => Form;
    /// Requires the latest version that was read, and no map, if the update creates it.
    NEW_MAP = "map-creation": All(&[Absent("#recent"), Compare("#latest", Is, ":read")]) => Form;
    /// Requires that no request has left the map.
    NONE_DROPPED = "removal-order": Absent("#dropped") => Form;
    /// Requires that no request has left the map since it was read. Each removal increases the value, so the map still has the entries
    /// that were read, with these versions.
    SAME_DROPPED = "removal-order": Compare("#dropped", Is, ":before_dropped") => Form;
    /// Requires that no sender has claimed a later time.
    AHEAD = "ahead": Any(&[Absent("#ahead"), Compare("#ahead", Less, ":ahead")]) => Form;
    /// Requires the latest version that was read, or a later one.
    BASE = "base": Compare("#latest", AtLeast, ":base") => Form;
    /// Requires that the map has the requests of all versions after the one that was read.
    RETRY_GUARD = "retry-guard": Any(&[Absent("#dropped"), Compare("#dropped", AtMost, ":base")]) => Form;
    /// Requires that the map has dropped no request that was sent when the update was, or later.
    SENT = "sent-time": Any(&[Absent("#since"), Compare("#since", Less, ":sent")]) => Form;
    /// Requires that the latest item is no tombstone.
    LIVE = "ended-state": Any(&[Absent("#deleted"), Compare("#deleted", IsNot, ":deleted")]) => Form;
    /// Requires the tombstone that was read.
    TOMBSTONE = "tombstone": All(&[Compare("#deleted", Is, ":deleted"), Compare("#latest", Is, ":tombstone")]) => Form;
    /// Requires the tombstone that was read, of an item without versions.
    UNCOUNTED_TOMBSTONE = "tombstone": All(&[Compare("#deleted", Is, ":deleted"), Absent("#latest")]) => Form;
    /// Requires that a restore has put no attributes on the tombstone.
    NONE_STAGED = "staged": Absent("#staged") => Form;
    /// Requires that no restore has put attributes on the tombstone since it was read.
    SAME_STAGED = "staged": Compare("#staged", Is, ":staged") => Form;
    /// Requires the tombstone that ended the attributes to remove.
    REMOVAL = "removal": All(&[Compare("#latest", Is, ":latest"), Compare("#deleted", Is, ":deleted")]) => Form;
    /// Requires the tombstone of this project on which a restore puts attributes.
    STAGING = "staging": Compare("#version", Is, ":latest") => Form;
    /// Requires that no other restore has put attributes on the tombstone.
    NEXT_STAGING = "staging": Compare("#staged", Is, ":before") => Form;
    /// Requires a latest item that is older than the writer's time.
    CLOCK = "clock": Any(&[Absent("#recorded"), Compare("#recorded", Less, ":recorded")]) => Form;
    /// Requires a latest item with the time that was read or a later one.
    SAME_CLOCK = "tick": Compare("#recorded", AtLeast, ":recorded") => Form;
    /// Requires that the time of the latest item has a tick left.
    TICKS = "tick": Any(&[Absent("#tick"), Compare("#tick", Less, ":ticks")]) => Form;
    /// Requires the time that was read, which has another form.
    OTHER_FORM = "other-form": Compare("#recorded", Is, ":stored") => Form;
    /// Requires that the latest item is not newer. Equal times are accepted.
    RATCHET = "ratchet": Any(&[Compare("#timestamp", AtMost, ":timestamp"), All(&[Absent("#timestamp"), Absent("#time")])]) => Older;
    /// Requires the `Time` that was read, which is not later than the update.
    AFTER_TIME = "after-time": All(&[Absent("#timestamp"), Compare("#time", Is, ":before_time")]) => Older;
    /// Requires that there is no latest item.
    EXPECTED_ABSENT = "expected-version": Absent("#pk") => Conflict;
    /// Requires the expected version.
    EXPECTED_VERSION = "expected-version": Compare("#latest", Is, ":expected") => Conflict;
    /// Requires that there is still no latest item.
    STILL_ABSENT = "stale-read": Absent("#pk") => Form;
    /// Requires that the latest item still has no version.
    STILL_UNCOUNTED = "stale-read": All(&[Exists("#pk"), Absent("#latest")]) => Form;
    /// Requires the latest version that was read.
    SAME_VERSION = "stale-read": Compare("#latest", Is, ":read") => Form;
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
        self.condition.each_path(&mut |path| define_names(expression, path));
    }
}

/// Returns the rules of an update whose failure is its outcome, and defines their placeholders. The first one that fails decides: after
/// a previous delivery of the same request, the other rules can fail too.
pub(crate) fn of_update(update: &Update, expression: &mut Expression) -> Vec<Rule> {
    expression
        .name("#hash", RequestHash::of(&update.request_id).key())
        .value(":request", s(update.request_id.as_str()))
        .value(":max", n(Version::MAX));
    let mut rules = vec![NOT_RECENT_REQUEST, NOT_LAST_REQUEST];
    rules.extend(expected(update, expression));
    if let Some(timestamp) = update.timestamp {
        expression.value(":timestamp", n(timestamp.get()));
        rules.push(RATCHET);
    }
    rules.push(HAS_NEXT_VERSION);
    for rule in &rules {
        rule.define_names(expression);
    }
    rules
}

/// Returns the rule of the version that an update expects, and defines its value.
pub(crate) fn expected(update: &Update, expression: &mut Expression) -> Option<Rule> {
    Some(match update.expected? {
        ExpectedVersion::Absent => EXPECTED_ABSENT,
        ExpectedVersion::Is(version) => {
            expression.value(":expected", n(version));
            EXPECTED_VERSION
        }
    })
}

/// Adds a `SET` clause with a value, such as `#since = :since`.
pub(crate) fn assign(expression: &mut Expression, clause: &'static str, value: Value) {
    let (_, of_value) = clause.split_once(" = ").unwrap_or_default();
    set(expression, clause);
    expression.value(of_value, value);
}

/// Adds a `SET` clause, which defines its names.
pub(crate) fn set(expression: &mut Expression, clause: &'static str) {
    define_names(expression, clause);
    expression.set(clause);
}

/// Removes attributes.
pub(crate) fn remove(expression: &mut Expression, placeholder: &'static str) {
    define_names(expression, placeholder);
    expression.remove(placeholder);
}

/// Defines the names of the placeholders in a path or a clause.
fn define_names(expression: &mut Expression, text: &str) {
    let placeholders = text.split(|c: char| c != '#' && !c.is_ascii_lowercase());
    for placeholder in placeholders.filter(|placeholder| placeholder.starts_with('#')) {
        if let Some((_, name)) = NAMES.iter().find(|(known, _)| *known == placeholder) {
            expression.name(placeholder, *name);
        }
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
