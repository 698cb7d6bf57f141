//! The rules of v0: every condition of an update, stated once, with the meaning of its violation.
//!
//! ```text
//!        ┌─> text of the condition in the request
//! rule ──┼─> evaluation on the item that DynamoDB returns with a conditional check failure, or that was read
//!        └─> meaning of the violation: an outcome of the update, or another form of the request
//! ```
//!
//! `of_update` lists the rules whose violation is an outcome: for the request, and for [`decide`](super::decision::decide). The parts
//! of an update's [`Form`](super::form::Form) add those that depend on the form. The simulation disables rules by their names.

use aws_sdk_dynamodb::types::AttributeValue as Value;
use shared::{
    domain::{Item, names, version::Version},
    dynamodb::{
        condition::{
            Comparison::{AtLeast, AtMost, Is, IsNot, Less},
            Condition::{self, Absent, All, Any, Compare, Exists, Maps, Not, Smaller},
        },
        expression::Expression,
        n, s,
    },
};

use self::Violation::{Conflict, Duplicate, Greatest, NoMap, Older, OtherForm};
use crate::update::{ExpectedVersion, Update};

/// Condition with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// Name. Several rules have the same one if one update has one or the other.
    pub name: &'static str,
    /// Place in [`ALL`], and in the condition of a request.
    place: usize,
    /// Condition.
    pub condition: Condition,
    /// Meaning of its violation.
    pub violation: Violation,
}

/// Meaning of a rule's violation. Of several, the first one decides: after a previous delivery of the same request, the other rules can
/// be violated too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Violation {
    /// The update was applied before, or its request id belongs to another update.
    Duplicate,
    /// The latest version is not the expected one.
    Conflict,
    /// The latest item is newer, or its time cannot be read.
    Older,
    /// There is no higher version.
    Greatest,
    /// The state has no map whose members the update changes.
    NoMap,
    /// The request needs another form: it does not fit the item, or another writer has changed the item.
    OtherForm,
}

/// Attribute names of the placeholders, except `#hash`, which each request defines.
const NAMES: [(&str, &str); 21] = [
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
    ("#size", names::CHANGE_SET_SIZE),
];

macro_rules! rules {
    ($($(#[$doc:meta])* $constant:ident = $name:literal: $condition:expr => $violation:ident;)*) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms, reason = "the names of the constants")]
        enum Place { $($constant),* }
        $($(#[$doc])* pub const $constant: Rule = Rule {
            name: $name,
            place: Place::$constant as usize,
            condition: $condition,
            violation: $violation,
        };)*
        /// All rules, in the order in which the condition of a request has them.
        pub const ALL: &[Rule] = &[$($constant),*];
    };
}

rules! {
    /// Requires that there is still no latest item.
    STILL_ABSENT = "stale-read": Absent("#pk") => OtherForm;
    /// Requires that the latest item still has no version.
    STILL_UNCOUNTED = "stale-read": All(&[Exists("#pk"), Absent("#latest")]) => OtherForm;
    /// Requires the latest version that was read.
    SAME_VERSION = "stale-read": Compare("#latest", Is, ":read") => OtherForm;
    /// Rejects a repetition of the last update: the counter is not idempotent, see
    /// [Atomic counters](https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/WorkingWithItems.html).
    NOT_LAST_REQUEST = "guard": Any(&[Absent("#request"), Compare("#request", IsNot, ":request")]) => Duplicate;
    /// Rejects an update of the greatest version: `v0` would have a number that is not that of a version. A `Latest` of another
    /// type passes, and fails in the calculation.
    HAS_NEXT_VERSION = "maximum-version": Any(&[Absent("#latest"), Not(&Compare("#latest", AtLeast, ":max"))]) => Greatest;
    /// Requires that no sender has claimed a later time.
    AHEAD = "ahead": Any(&[Absent("#ahead"), Compare("#ahead", Less, ":ahead")]) => OtherForm;
    /// Requires a map of recent requests. DynamoDB evaluates the condition before it resolves a path in the map: an item without the
    /// map fails the condition, and there is no validation error.
    HAS_MAP = "map": All(&[Exists("#latest"), Exists("#recent")]) => OtherForm;
    /// Rejects a repetition of a recent update.
    NOT_RECENT_REQUEST = "guard": Absent("#recent.#hash") => Duplicate;
    /// Requires that the map of recent requests is not full.
    HAS_ROOM = "room": Smaller("#recent", ":most") => OtherForm;
    /// Requires that no request has left the map.
    NONE_DROPPED = "removal-order": Absent("#dropped") => OtherForm;
    /// Requires that no request has left the map since it was read. Each removal increases the value, so the map still has the entries
    /// that were read, with these versions.
    SAME_DROPPED = "removal-order": Compare("#dropped", Is, ":before_dropped") => OtherForm;
    /// Requires an entity without versions, if the update creates the map.
    FIRST_MAP = "map-creation": Absent("#latest") => OtherForm;
    /// Requires the latest version that was read, and no map, if the update creates it.
    NEW_MAP = "map-creation": All(&[Absent("#recent"), Compare("#latest", Is, ":read")]) => OtherForm;
    /// Requires the latest version that was read, or a later one.
    BASE = "base": Compare("#latest", AtLeast, ":base") => OtherForm;
    /// Requires that the map has the requests of all versions after the one that was read.
    RETRY_GUARD = "retry-guard": Any(&[Absent("#dropped"), Compare("#dropped", AtMost, ":base")]) => OtherForm;
    /// Requires the incarnation whose requests the process knows.
    SAME_INCARNATION = "same-incarnation": Compare("#incarnation", Is, ":known") => OtherForm;
    /// Requires that the map has dropped no request that was sent when the update was, or later.
    SENT = "sent-time": Any(&[Absent("#since"), Compare("#since", Less, ":sent")]) => OtherForm;
    /// Requires that the latest item is no tombstone.
    LIVE = "ended-state": Any(&[Absent("#deleted"), Compare("#deleted", IsNot, ":deleted")]) => OtherForm;
    /// Requires the tombstone that was read.
    TOMBSTONE = "tombstone": All(&[Compare("#deleted", Is, ":deleted"), Compare("#latest", Is, ":tombstone")]) => OtherForm;
    /// Requires the tombstone that was read, of an item without versions.
    UNCOUNTED_TOMBSTONE = "tombstone": All(&[Compare("#deleted", Is, ":deleted"), Absent("#latest")]) => OtherForm;
    /// Requires a latest item that is older than the writer's time.
    CLOCK = "clock": Any(&[Absent("#recorded"), Compare("#recorded", Less, ":recorded")]) => OtherForm;
    /// Requires a latest item with the time that was read or a later one.
    SAME_CLOCK = "tick": Compare("#recorded", AtLeast, ":recorded") => OtherForm;
    /// Requires that the time of the latest item has a tick left.
    TICKS = "tick": Any(&[Absent("#tick"), Compare("#tick", Less, ":ticks")]) => OtherForm;
    /// Requires the time that was read, which has another form.
    OTHER_FORM = "other-form": Compare("#recorded", Is, ":stored") => OtherForm;
    /// Requires that the latest item is not newer. Equal times are accepted.
    RATCHET = "ratchet": Any(&[Compare("#timestamp", AtMost, ":timestamp"), All(&[Absent("#timestamp"), Absent("#time")])]) => Older;
    /// Requires the `Time` that was read, which is not later than the update.
    AFTER_TIME = "after-time": All(&[Absent("#timestamp"), Compare("#time", Is, ":before_time")]) => Older;
    /// Requires that there is no latest item.
    EXPECTED_ABSENT = "expected-version": Absent("#pk") => Conflict;
    /// Requires the expected version.
    EXPECTED_VERSION = "expected-version": Compare("#latest", Is, ":expected") => Conflict;
    /// Requires that a restore has put no attributes on the tombstone.
    NONE_STAGED = "staged": Absent("#staged") => OtherForm;
    /// Requires that no restore has put attributes on the tombstone since it was read.
    SAME_STAGED = "staged": Compare("#staged", Is, ":staged") => OtherForm;
    /// Requires the tombstone that ended the attributes to remove.
    REMOVAL = "removal": All(&[Compare("#latest", Is, ":latest"), Compare("#deleted", Is, ":deleted")]) => OtherForm;
    /// Requires the tombstone of this project on which a restore puts attributes.
    STAGING = "staging": Compare("#version", Is, ":latest") => OtherForm;
    /// Requires that no other restore has put attributes on the tombstone.
    NEXT_STAGING = "staging": Compare("#staged", Is, ":before") => OtherForm;
    /// Requires the maps whose members the update changes. The changes themselves require it in a request.
    MEMBER_MAPS = "member-maps": Maps => NoMap;
}

impl Rule {
    /// Requires this rule in an expression, which defines its values.
    pub(crate) fn add_to(self, expression: &mut Expression) {
        self.condition.each_path(&mut |path| define_names(expression, path));
        expression.require(self.place, self.condition);
    }
}

/// Adds the rules of an update whose violation is its outcome, and returns them. The rules that a form of the request
/// [implies](super::form::Form) are left out.
pub(crate) fn of_update(update: &Update, expression: &mut Expression, is_implied: impl Fn(Rule) -> bool) -> Vec<Rule> {
    let expected = update.expected.map(|expected| match expected {
        ExpectedVersion::Absent => (EXPECTED_ABSENT, None),
        ExpectedVersion::Is(version) => (EXPECTED_VERSION, Some((":expected", n(version)))),
    });
    let timestamp = update
        .timestamp
        .map(|time| (RATCHET, Some((":timestamp", n(time.get())))));
    let request = s(update.request_id.as_str());
    let rules = [
        Some((NOT_RECENT_REQUEST, None)),
        Some((NOT_LAST_REQUEST, Some((":request", request)))),
        expected,
        timestamp,
        Some((HAS_NEXT_VERSION, Some((":max", n(Version::MAX))))),
    ];
    let rules = rules.into_iter().flatten().filter(|(rule, _)| !is_implied(*rule));
    let mut rules: Vec<_> = rules
        .map(|(rule, value)| {
            if let Some((placeholder, value)) = value {
                expression.value(placeholder, value);
            }
            rule.add_to(expression);
            rule
        })
        .collect();
    if update.changes_members() && !is_implied(MEMBER_MAPS) {
        expression.changes(&update.changes);
        rules.push(MEMBER_MAPS);
    }
    rules
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
