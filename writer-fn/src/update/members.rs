//! Members of an update that are not attributes. A member that is `null` counts as absent.

use serde_json::{Map, Value};
use shared::domain::{
    names,
    number::Decimal,
    request_id::{MAX_REQUEST_ID_BYTES, RequestId},
    time::{EpochMillis, InvalidTime},
    version::Version,
};

use crate::update::{EXPECTED_VERSION, ExpectedVersion, InvalidUpdate, REQUEST_SENT_AT, sent_at::SentAt};

/// Maximum length of the name of a change set in bytes: a request id can be one.
pub(super) const MAX_CHANGE_SET_BYTES: usize = MAX_REQUEST_ID_BYTES;

/// Members of an update, whose attributes are left when the others were taken.
pub(super) struct Members(pub(super) Map<String, Value>);

impl Members {
    fn take(&mut self, name: &str) -> Option<Value> {
        self.0.remove(name).filter(|value| !value.is_null())
    }

    pub(super) fn request_id(&mut self, default: &str) -> Result<RequestId, InvalidUpdate> {
        match self.take(names::REQUEST_ID) {
            Some(Value::String(id)) => Ok(RequestId::new(id)?),
            None => Ok(RequestId::new(default)?),
            Some(_) => Err(InvalidUpdate::NotAString(names::REQUEST_ID)),
        }
    }

    pub(super) fn expected_version(&mut self) -> Result<Option<ExpectedVersion>, InvalidUpdate> {
        let Some(value) = self.take(EXPECTED_VERSION) else {
            return Ok(None);
        };
        let number = number(&value).and_then(|number| number.to_u64());
        let version = Version::new(number.ok_or(InvalidUpdate::ExpectedVersion)?);
        Ok(Some(version.map_or(ExpectedVersion::Absent, ExpectedVersion::Is)))
    }

    /// Checks the name of a change set, which stays an attribute.
    pub(super) fn check_change_set(&self) -> Result<(), InvalidUpdate> {
        match self.0.get(names::CHANGE_SET) {
            None | Some(Value::Null) => Ok(()),
            Some(Value::String(name)) if (1..=MAX_CHANGE_SET_BYTES).contains(&name.len()) => Ok(()),
            Some(_) => Err(InvalidUpdate::ChangeSet),
        }
    }

    /// Takes a member that is `false` by default.
    pub(super) fn flag(&mut self, name: &'static str) -> Result<bool, InvalidUpdate> {
        let flag = self.take(name).map_or(Some(false), |flag| flag.as_bool());
        flag.ok_or(InvalidUpdate::NotABool(name))
    }

    /// Returns the time that the client gives to an update, in `Time`, in `Timestamp`, or in both.
    pub(super) fn time(&self) -> Result<Option<EpochMillis>, InvalidUpdate> {
        let member = |name| self.0.get(name).filter(|value| !value.is_null());
        let time = member(names::TIME).map(|time| EpochMillis::parse_iso(time.as_str().ok_or(InvalidTime)?));
        let timestamp = member(names::TIMESTAMP).map(|time| millis(time).ok_or(InvalidUpdate::Timestamp));
        match (time.transpose()?, timestamp.transpose()?) {
            (Some(time), Some(timestamp)) if time != timestamp => Err(InvalidUpdate::TimesDisagree),
            (time, timestamp) => Ok(time.or(timestamp)),
        }
    }

    pub(super) fn sent_at(&mut self) -> Result<Option<SentAt>, InvalidUpdate> {
        let time = |value: Value| match &value {
            Value::String(text) => EpochMillis::parse_iso(text).ok(),
            number => millis(number),
        };
        let sent = self
            .take(REQUEST_SENT_AT)
            .map(|value| time(value).ok_or(InvalidUpdate::RequestSentAt));
        Ok(sent.transpose()?.map(SentAt::since))
    }
}

fn number(value: &Value) -> Option<Decimal> {
    Decimal::parse(&value.as_number()?.to_string()).ok()
}

fn millis(value: &Value) -> Option<EpochMillis> {
    Some(EpochMillis::new(number(value)?.to_i64()?))
}
