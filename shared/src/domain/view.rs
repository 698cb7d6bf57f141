//! Views of versions, for readers.

use serde_json::{Map, Value, json};

use super::{
    AttributeValue, Item,
    attached::{
        self,
        change::STREAM,
        item::{ACTOR_UNCHANGED, AFTER, BACKFILL, ITEM_VERSION, OMITTED, StateOrigin, StreamChange},
    },
    attributes::{self, text},
    attribution,
    entity::EntityId,
    erased::Erased,
    names, plain,
    recorded_at::RecordedAt,
    time::{EpochMillis, InvalidTime},
    tombstone::is_deleted,
    version::Version,
};

/// One version of an entity, without its [bookkeeping](attribution::besides_attributes) attributes.
#[derive(Clone, PartialEq)]
pub struct VersionView {
    /// Entity of the version.
    pub entity: EntityId,
    /// Number of the version.
    pub version: Version,
    /// `true` if the version is a tombstone.
    pub deleted: bool,
    /// Idempotency key of the update that created it.
    pub request_id: Option<String>,
    /// Time at which it was recorded. `None` in a version of an older release, and in one that another program wrote and
    /// that is not in history yet.
    pub recorded_at: Option<RecordedAt>,
    /// `true` if another program wrote it, and its `recorded_at` comes from the stream.
    pub recorded_by_stream: bool,
    /// Author that the update names.
    pub actor: Option<AttributeValue>,
    /// `true` if the state before has the same author, so that the change need not be theirs: an attached table's record does not show
    /// who made it.
    pub actor_unchanged: bool,
    /// Reason that the update names.
    pub reason: Option<AttributeValue>,
    /// Set of changes that the update names.
    pub change_set: Option<AttributeValue>,
    /// Number of entities that the update changed together.
    pub change_set_size: Option<u64>,
    /// Sender that the platform reported.
    pub sender: Option<String>,
    /// Version whose attributes a restore copied.
    pub restored_from: Option<Version>,
    /// Stream record behind a version of an attached table.
    pub change: Option<StreamChange>,
    /// Attributes of the version.
    pub attributes: Item,
    /// Values that were erased from it.
    pub erased: Erased,
}

impl VersionView {
    /// Returns `true` if the version comes from a record of an attached table that was older than the last state of history.
    pub fn is_late(&self) -> bool {
        let change = self.change.as_ref();
        change.is_some_and(|change| change.origin == StateOrigin::Late)
    }

    /// Returns `true` if the version does not have the state of the item, because it did not fit.
    pub fn is_omitted(&self) -> bool {
        self.change.as_ref().is_some_and(|change| change.omission.is_some())
    }

    /// Creates the view of a version item or of a latest item.
    pub fn new(entity: EntityId, version: Version, mut item: Item) -> Self {
        let recorded_by_stream = item.contains_key(names::RECORDED_BY);
        let erased = Erased::of(&item);
        if item.contains_key(names::LATEST) {
            (item, _) = attribution::of_version(item, version);
        }
        let mut view = Self {
            entity,
            version,
            deleted: is_deleted(&item),
            request_id: text(&item, names::REQUEST_ID).map(str::to_owned),
            recorded_at: RecordedAt::of(&item),
            recorded_by_stream,
            actor: item.remove(names::ACTOR),
            actor_unchanged: false,
            reason: item.remove(names::REASON),
            change_set: item.remove(names::CHANGE_SET),
            change_set_size: attributes::whole(&item, names::CHANGE_SET_SIZE),
            sender: text(&item, names::SENDER).map(str::to_owned),
            restored_from: attributes::version(&item, names::RESTORED_FROM),
            change: None,
            attributes: item,
            erased,
        };
        for name in attribution::besides_attributes() {
            view.attributes.remove(name);
        }
        view
    }

    /// Creates the view of a version of an attached table, or of its latest item. Its attributes have the names that the writer
    /// gave them.
    pub fn of_attached(entity: EntityId, version: Version, item: Item) -> Self {
        let mut view = Self::new(entity, version, item);
        view.actor_unchanged = view.attributes.remove(ACTOR_UNCHANGED) == Some(AttributeValue::Bool(true));
        view.change = StreamChange::take(&mut view.attributes);
        view.attributes = attached::item::as_written(view.attributes);
        view
    }

    /// Returns `{"ID": …, "Version": 3, "Deleted": false, "RecordedAt": …, "RequestId": …, "Actor": …, "Reason": …,
    /// "Attributes": {…}}`, with the attributes in [plain] JSON. Members without a value are left out.
    pub fn to_json(&self) -> Value {
        let mut json = Map::from_iter([("ID".to_owned(), self.entity.as_str().into())]);
        json.extend(self.record_json());
        json.insert("Deleted".to_owned(), self.deleted.into());
        json.insert("Attributes".to_owned(), plain::attributes(&self.attributes).into());
        json.into()
    }

    /// Returns who recorded the version, when and why: `{"Version": 3, "RecordedAt": …, "RequestId": …, "Actor": …,
    /// "Reason": …, "ChangeSet": …, "ChangeSetSize": 2, "Sender": …, "RestoredFrom": 1}`. Members without a value are left out. `Erased`
    /// has the erased values: `[{"Attribute": ["Place", "Street"], "At": …, "Reason": …}]`. A version of an attached table also has `Stream`, `ItemVersion`, `ActorUnchanged` if it is true, and one of the marks `Baseline`, `Missed` and `Late`, a late one
    /// `After`, and one without its state `Omitted`.
    pub fn record_json(&self) -> Map<String, Value> {
        let change = self.change.as_ref();
        let recorded_by = self.recorded_by_stream.then_some(match change {
            Some(change) if change.stream == BACKFILL => BACKFILL,
            _ => super::version_item::RECORDED_BY_STREAM,
        });
        let mark = change.and_then(|change| change.origin.mark());
        let members = [
            ("Version", Some(json!(self.version))),
            (names::RECORDED_AT, self.recorded_at.map(|time| time.to_string().into())),
            (names::RECORDED_BY, recorded_by.map(Value::from)),
            (names::REQUEST_ID, self.request_id.as_deref().map(Value::from)),
            (names::ACTOR, self.actor.as_ref().map(plain::attribute)),
            (ACTOR_UNCHANGED, self.actor_unchanged.then(|| true.into())),
            (names::REASON, self.reason.as_ref().map(plain::attribute)),
            (names::CHANGE_SET, self.change_set.as_ref().map(plain::attribute)),
            (names::CHANGE_SET_SIZE, self.change_set_size.map(Value::from)),
            (names::SENDER, self.sender.as_deref().map(Value::from)),
            (names::RESTORED_FROM, self.restored_from.map(|version| json!(version))),
            (STREAM, change.map(|change| change.stream.as_str().into())),
            (
                ITEM_VERSION,
                change.and_then(|change| Some(plain::attribute(change.item_version.as_ref()?))),
            ),
            (mark.unwrap_or_default(), mark.map(|_| true.into())),
            (AFTER, change.and_then(|change| Some(json!(change.after?)))),
            (OMITTED, change.and_then(|change| Some(json!(change.omission?)))),
            (names::ERASED, self.erased.to_json()),
        ];
        let members = members
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), value?)));
        members.collect()
    }
}

/// Returns the time that the client gave to a version: the later one of `Timestamp` and `Time`, which are equal in a version
/// of this release.
///
/// # Errors
///
/// Returns [`NoTime`] if the item has neither a valid `Timestamp` nor a valid `Time`.
pub fn time_of(item: &Item) -> Result<EpochMillis, NoTime> {
    let timestamp = attributes::number(item, names::TIMESTAMP).and_then(|millis| millis.to_i64());
    let timestamp = timestamp.map(EpochMillis::new);
    let time = text(item, names::TIME).and_then(|time| EpochMillis::parse_iso(time).ok());
    match time.max(timestamp) {
        Some(time) => Ok(time),
        None if item.contains_key(names::TIME) || item.contains_key(names::TIMESTAMP) => Err(NoTime::Time(InvalidTime)),
        None => Err(NoTime::Absent),
    }
}

/// Reason why a version has no known time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoTime {
    /// `Timestamp` and `Time` are missing.
    #[error("it has neither a Timestamp nor a Time")]
    Absent,
    /// Neither `Timestamp` nor `Time` is a time.
    #[error("its Time or Timestamp cannot be read")]
    Time(#[from] InvalidTime),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(version: u64, item: Value) -> VersionView {
        let item = serde_json::from_value(item).unwrap();
        VersionView::new(EntityId::new("E").unwrap(), Version::new(version).unwrap(), item)
    }

    #[test]
    fn a_view_has_no_bookkeeping_attributes() {
        let item = json!({
            "PK": {"S": "E"}, "SK": {"S": "v3"}, "RequestId": {"S": "r"}, "Deleted": {"BOOL": true},
            "RecentRequests": {"M": {"hash": {"N": "3"}}}, "RequestPayload": {"S": "p"}, "Actor": {"S": "amy"},
            "Reason": {"S": "test"}, "ChangeSet": {"S": "c"}, "ChangeSetSize": {"N": "2"}, "Sender": {"S": "AIDA"}, "RestoredFrom": {"N": "1"},
            "RecordedAt": {"S": "2026-11-22T06:24:48.123456003Z"}, "RecordedBy": {"S": "stream"},
            "B": {"N": "1.50"}, "A": {"NULL": true}, "C": {"L": [{"NULL": true}]},
        });
        let expected = r#"{"ID":"E","Version":3,"RecordedAt":"2026-11-22T06:24:48.123456003Z","RecordedBy":"stream",
            "RequestId":"r","Actor":"amy","Reason":"test","ChangeSet":"c","ChangeSetSize":2,"Sender":"AIDA","RestoredFrom":1,"Deleted":true,
            "Attributes":{"A":{"$null":true},"B":1.50,"C":[null]}}"#;
        let expected: Value = serde_json::from_str(expected).unwrap();
        assert_eq!(view(3, item).to_json(), expected);
        // A latest item gives its version without the attributes of an older one.
        let latest = view(
            3,
            json!({"Latest": {"N": "3"}, "RecordedVersion": {"N": "2"}, "Actor": {"S": "amy"}, "B": {"N": "1"}}),
        );
        assert_eq!(
            latest.to_json(),
            json!({"ID": "E", "Version": 3, "Deleted": false, "Attributes": {"B": 1}})
        );
    }

    #[test]
    fn the_time_of_a_version() {
        let time = |item: Value| time_of(&view(1, item).attributes).map(EpochMillis::get);
        let both = |time: &str, timestamp: &str| json!({"Time": {"S": time}, "Timestamp": {"N": timestamp}});
        assert_eq!(time(json!({"Time": {"S": "1970-01-01T00:00:01"}})), Ok(1000));
        assert_eq!(time(json!({"Timestamp": {"N": "7"}})), Ok(7));
        // An older release kept one of them when an update set the other.
        assert_eq!(time(both("1970-01-01T00:00:01", "7")), Ok(1000));
        assert_eq!(time(both("1970-01-01T00:00:01", "7000")), Ok(7000));
        assert_eq!(time(both("soon", "7")), Ok(7));
        assert_eq!(time(json!({})), Err(NoTime::Absent));
        assert_eq!(time(json!({"Time": {"S": "soon"}})), Err(NoTime::Time(InvalidTime)));
        assert_eq!(
            time(json!({"Timestamp": {"N": "1e99"}})),
            Err(NoTime::Time(InvalidTime))
        );
    }
}
