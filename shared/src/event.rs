//! The event of an invocation.

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// Event of an invocation, as its JSON text.
///
/// A body that is not JSON, because it is empty or not UTF-8, for example, is an event without text and not an error of the
/// parser. So the function, and not the Lambda runtime, rejects it, with the same error type as any other invalid event.
#[derive(Debug)]
pub struct Event(Option<String>);

impl Event {
    /// Returns the JSON text, `None` if the body is not JSON.
    pub fn json(&self) -> Option<&str> {
        self.0.as_deref()
    }
}

impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // The only use of `RawValue` for text from outside, see `crate::json`: the runtime deserializes the body with `serde_json`,
        // and has no other access to its text. The text is not interpreted here: the deserializer of text skips it as a whole,
        // at any number of levels, and reserved names have a meaning only for other deserializers.
        // The message of the parser is dropped: it can contain a part of the body.
        let body = Box::<RawValue>::deserialize(deserializer).ok();
        Ok(Self(body.map(|body| Box::<str>::from(body).into())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_that_is_not_json_is_an_event_without_text() {
        let event = |body: &[u8]| Event::deserialize(&mut serde_json::Deserializer::from_slice(body)).unwrap();
        for body in [
            &b""[..],
            b" ",
            b"\0",
            b"\xef\xbb\xbf{}",
            b"{\"a\": \"\xff\"}",
            b"\xff",
            b"{",
            b"nul",
            b"{\"a\": 1,}",
        ] {
            assert!(event(body).json().is_none(), "{}", body.escape_ascii());
        }
        let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        let reserved = r#"{"$serde_json::private::RawValue": "[1]"}"#;
        for body in ["{}", "null", "{\"a\": 1, \"a\": 1}", reserved, &deep] {
            assert_eq!(event(body.as_bytes()).json(), Some(body));
        }
    }
}
