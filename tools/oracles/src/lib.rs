//! What must hold of every parser, whatever it is given.
//!
//! Each function is the whole of a fuzz target, and takes any bytes: it must not panic. That a parser panics is one way to;
//! the other is that what it read does not hold: a value that comes back different from its own print, a record that is
//! counted twice, an error without words, or with a value in them. `tools/fuzz` runs them on random input, and `cargo test`
//! on its corpus.

#![allow(clippy::missing_panics_doc, reason = "here, a panic is the finding")]

mod attributes;
mod envelopes;
mod failure_documents;
mod filter;
mod records;
mod update;

pub use self::{
    attributes::attributes, envelopes::envelopes, failure_documents::failure_documents, filter::filter,
    records::records, update::update,
};

/// A fuzz target: its name, which is that of its corpus too, and its oracle.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: [Target; 6] = [
    ("attributes", attributes),
    ("envelopes", envelopes),
    ("failure_documents", failure_documents),
    ("filter", filter),
    ("records", records),
    ("update", update),
];

/// What no error may tell: the corpus has it in values, and in nothing else.
const SECRET: &str = "secret";

/// An error has words, and none of them is a value. `names` may be told.
fn check_error(error: &dyn std::error::Error, debug: &str, names: &str) {
    let line = shared::logging::chain(error);
    assert!(!line.is_empty(), "an error without words");
    if !names.contains(SECRET) {
        assert!(
            !line.contains(SECRET) && !debug.contains(SECRET),
            "an error tells a value: {line}"
        );
    }
}

/// All names of members in a JSON text, one after the other.
fn names(json: &serde_json::Value) -> String {
    use serde_json::Value;
    let mut found = String::new();
    let mut open = vec![json];
    while let Some(value) = open.pop() {
        match value {
            Value::Array(values) => open.extend(values),
            Value::Object(members) => {
                for (name, value) in members {
                    found.push_str(name);
                    open.push(value);
                }
            }
            _ => {}
        }
    }
    found
}
