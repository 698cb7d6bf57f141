//! Stream records in the form in which Lambda delivers them.

use std::time::Duration;

use serde_json::{Number, Value, json};
use sha2::{Digest as _, Sha256};
use shared::domain::sequence::SequenceNumber;

/// A stream record, as it appears in events and failure documents.
#[derive(Debug, Clone)]
pub struct Record {
    sequence_number: SequenceNumber,
    created: Duration,
    json: Value,
    /// Size of the JSON in bytes.
    size: usize,
}

impl Record {
    /// Creates a record from its sequence number, its creation time since 1970, and the JSON that Lambda delivers.
    pub fn new(sequence_number: SequenceNumber, created: Duration, json: Value) -> Self {
        let size = json.to_string().len();
        Self {
            sequence_number,
            created,
            json,
            size,
        }
    }

    pub fn sequence_number(&self) -> &SequenceNumber {
        &self.sequence_number
    }

    pub fn created(&self) -> Duration {
        self.created
    }

    pub fn json(&self) -> &Value {
        &self.json
    }

    /// Returns the index of the lane. Records of one item share a lane, so that they stay in order.
    pub fn lane(&self, lanes: usize) -> usize {
        let keys = self.json.pointer("/dynamodb/Keys");
        let keys = keys.or_else(|| self.json.pointer("/kinesis/partitionKey"));
        let mut keys = keys.cloned().unwrap_or_default();
        // The order of the key attributes differs from record to record.
        keys.sort_all_objects();
        let hash = Sha256::digest(keys.to_string().as_bytes());
        let bytes = hash.iter().take(8);
        bytes.fold(0usize, |number, byte| number << 8 | usize::from(*byte)) % lanes
    }
}

/// Maximum payload of a synchronous invocation, in bytes.
/// See <https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html>.
pub const MAX_PAYLOAD: usize = 6 * 1024 * 1024;

/// Returns how many of the records, from the first on, fit in an event.
pub(super) fn fitting<'a>(records: impl IntoIterator<Item = &'a Record>) -> usize {
    // `{"Records":[…]}` around the records, and a comma after each.
    let mut size = 13;
    let fits = |record: &&Record| {
        size += record.size + 1;
        size <= MAX_PAYLOAD
    };
    records.into_iter().take_while(fits).count()
}

pub fn event(records: &[Record]) -> Value {
    json!({ "Records": records.iter().map(Record::json).collect::<Vec<_>>() })
}

/// Objects of a record that contain its time, and the name of the time.
const TIMES: [(&str, &str); 2] = [
    ("dynamodb", "ApproximateCreationDateTime"),
    ("kinesis", "approximateArrivalTimestamp"),
];

/// Returns the event of a failure document. Its times have Lambda's notation, such as `1.789651658E9`.
pub fn document_payload(records: &[Record]) -> String {
    let mut event = event(records);
    for record in event["Records"].as_array_mut().into_iter().flatten() {
        for (object, name) in TIMES {
            let time = record.get_mut(object).and_then(|object| object.get_mut(name));
            if let Some(Value::Number(number)) = time
                && let Some(double) = java_double(&number.to_string())
            {
                *number = double;
            }
        }
    }
    event.to_string()
}

/// Writes a decimal number of seconds as Java's `Double.toString` does. `None` if it has another form.
fn java_double(number: &str) -> Option<Number> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let is_decimal = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_decimal(whole) || !is_decimal(fraction) || whole.starts_with('0') && whole.len() > 1 {
        return None;
    }
    let decimals = |digits: &str| match digits.trim_end_matches('0') {
        "" => "0".to_owned(),
        digits => digits.to_owned(),
    };
    // From 10^7 on with an exponent.
    let text = if whole.len() <= 7 {
        format!("{whole}.{}", decimals(fraction))
    } else {
        let (first, rest) = whole.split_at(1);
        format!("{first}.{}E{}", decimals(&format!("{rest}{fraction}")), rest.len())
    };
    // Parsing would change the notation of the exponent.
    Some(Number::from_string_unchecked(text))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

    use super::*;

    #[test]
    fn times_in_documents_have_lambdas_notation() {
        for (number, text) in [
            ("1789651658", "1.789651658E9"),
            ("1764085200", "1.7640852E9"),
            ("1789651658.042", "1.789651658042E9"),
            ("1000000000", "1.0E9"),
            ("10000000", "1.0E7"),
            ("9999999", "9999999.0"),
            ("0", "0.0"),
            ("1.50", "1.5"),
        ] {
            assert_eq!(java_double(number).unwrap().to_string(), text);
        }
        for other in ["", "-1", "1e9", "01", "1.", "x"] {
            assert!(java_double(other).is_none(), "{other}");
        }
        // Only the time of the record, and not an attribute of the same name.
        let json = r#"{"dynamodb":{"NewImage":{"ApproximateCreationDateTime":{"N":"7"},"kinesis":{"N":"8"}},"ApproximateCreationDateTime":1789651658}}"#;
        let record = Record::new(
            SequenceNumber::new("1").unwrap(),
            Duration::ZERO,
            serde_json::from_str(json).unwrap(),
        );
        let expected = json.replace(":1789651658}", ":1.789651658E9}");
        assert_eq!(document_payload(&[record]), format!(r#"{{"Records":[{expected}]}}"#));
    }

    #[test]
    fn records_of_one_item_share_a_lane_in_any_order_of_their_key_attributes() {
        let record = |keys: &str| {
            let json = format!(r#"{{"dynamodb": {{"Keys": {keys}}}}}"#);
            let number = SequenceNumber::new("1").unwrap();
            Record::new(number, Duration::ZERO, serde_json::from_str(&json).unwrap())
        };
        for item in 0..20 {
            let one = record(&format!(r#"{{"PK": {{"S": "e{item}"}}, "SK": {{"S": "v0"}}}}"#));
            let other = record(&format!(r#"{{"SK": {{"S": "v0"}}, "PK": {{"S": "e{item}"}}}}"#));
            assert_eq!(one.lane(10), other.lane(10));
        }
    }
}
