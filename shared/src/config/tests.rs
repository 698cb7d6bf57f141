//! Tests of the settings: defaults, bounds, and the names of invalid variables.

use super::*;
use crate::domain::attached::{
    AttachedTable,
    definition::{InvalidDefinition, KeyAttribute, KeyType},
};

fn check(variables: &[(&str, &str)]) -> Result<Config, String> {
    let all = [&[("TABLE_NAME", "T")], variables].concat();
    Config::from_variables(|name| {
        let found = all.iter().rfind(|(known, _)| *known == name);
        found.map(|(_, value)| (*value).to_owned())
    })
    .map_err(|error| error.to_string())
}

#[test]
fn all_but_the_table_have_defaults() {
    let defaults = check(&[]).unwrap();
    assert_eq!(
        (defaults.digits, defaults.ordering),
        (VersionDigits::default(), Ordering::Arrival)
    );
    assert_eq!(
        (defaults.write, defaults.client),
        (WriteOptions::default(), ClientSettings::default())
    );
    let empty = [
        "VERSION_DIGITS",
        "HISTORY_TABLE_NAME",
        "HISTORY_COMPRESSION",
        "AWS_MAX_ATTEMPTS",
        "IDEMPOTENCY",
    ];
    assert_eq!(check(&empty.map(|name| (name, ""))), Ok(defaults));
}

#[test]
fn the_number_of_attempts_has_bounds() {
    let attempts = |value| check(&[("AWS_MAX_ATTEMPTS", value)]).map(|config| config.client);
    for (value, max_attempts) in [("", 3), ("1", 1), ("10", 10)] {
        let expected = ClientSettings {
            max_attempts,
            ..ClientSettings::default()
        };
        assert_eq!(attempts(value), Ok(expected));
    }
    for value in ["0", "11", "-1", "three", "99999999999999999999"] {
        let error = "the environment variable AWS_MAX_ATTEMPTS cannot be read: expected a whole number from 1 to 10";
        assert_eq!(attempts(value), Err(error.to_owned()));
    }
}

#[test]
fn every_variable_is_read() {
    let config = check(&[
        ("VERSION_DIGITS", "10"),
        ("HISTORY_TABLE_NAME", "H"),
        ("HISTORY_COMPRESSION", "deflate"),
        ("ORDERING", "time"),
        ("WRITE_MODE", "inline"),
        ("SKIP_UNCHANGED", "true"),
        ("IDEMPOTENCY", "ledger"),
        ("TIME_INDEX", "true"),
    ]);
    let expected = Config {
        table: "T".to_owned(),
        history: Some("H".to_owned()),
        attached: None,
        digits: VersionDigits::new(10).unwrap(),
        compression: Compression::Deflate,
        ordering: Ordering::Time,
        write: WriteOptions {
            mode: WriteMode::Inline,
            idempotency: Idempotency::Ledger,
            skip_unchanged: true,
        },
        time_index: true,
        client: ClientSettings::default(),
    };
    assert_eq!(config, Ok(expected));
}

#[test]
fn an_invalid_value_is_named() {
    let no_history = "it requires a history table, HISTORY_TABLE_NAME";
    for (name, value, reason) in [
        ("TABLE_NAME", "", "TABLE_NAME is not set"),
        ("VERSION_DIGITS", "0", "a whole number from 1 to 20"),
        ("ORDERING", "random", "the ordering is \"arrival\" or \"time\""),
        (
            "WRITE_MODE",
            "both",
            "the write mode is \"stream\", \"inline\" or \"transaction\"",
        ),
        ("IDEMPOTENCY", "none", "the idempotency is \"recent\" or \"ledger\""),
        ("TIME_INDEX", "yes", "provided string was not `true` or `false`"),
        ("SKIP_UNCHANGED", "maybe", "provided string was not `true` or `false`"),
        (
            "HISTORY_COMPRESSION",
            "gzip",
            "the compression is \"none\" or \"deflate\"",
        ),
        ("HISTORY_COMPRESSION", "deflate", no_history),
    ] {
        let error = check(&[(name, value)]).unwrap_err();
        assert!(
            error.starts_with(&format!("the environment variable {name} ")),
            "{error}"
        );
        assert!(error.ends_with(reason), "{error}");
    }
    let same = check(&[("HISTORY_TABLE_NAME", "T"), ("HISTORY_COMPRESSION", "deflate")]);
    assert!(same.unwrap_err().ends_with(no_history));
}

#[test]
fn the_variables_and_the_keys_define_an_attached_table() {
    let attached = |changed: &[(&str, &str)]| {
        let stream = "arn:aws:dynamodb:eu-west-1:123456789012:table/Orders/stream/2026-11-22T06:24:48.123";
        let needed = [
            ("TABLE_NAME", "Orders"),
            ("HISTORY_TABLE_NAME", "Log"),
            ("ATTACHED_STREAM_ARN", stream),
        ];
        check(&[&needed, changed].concat()).map(|config| config.attached)
    };
    assert_eq!(attached(&[("ATTACHED_STREAM_ARN", "")]), Ok(None));
    let both = [
        ("VERSION_ATTRIBUTE", "rev"),
        ("ACTOR_ATTRIBUTE", "by"),
        ("REASON_ATTRIBUTE", "why"),
        ("CHANGE_SET_ATTRIBUTE", "job"),
        ("IGNORE_ATTRIBUTES", "seen, by,"),
        ("FILTER", "{}"),
    ];
    for (changed, version_attribute, ignored) in [
        (&[][..], None, &[][..]),
        (&both, Some("rev"), &["by", "seen"]),
        // A name can contain a comma.
        (&[("IGNORE_ATTRIBUTES", r#"["a,b"]"#)], None, &["a,b"]),
    ] {
        let settings = attached(changed).unwrap().unwrap();
        assert_eq!(
            (settings.table.as_str(), settings.history_table.as_deref()),
            ("Orders", Some("Log"))
        );
        assert_eq!(settings.version_attribute.as_deref(), version_attribute);
        let others = [
            &settings.actor_attribute,
            &settings.reason_attribute,
            &settings.change_set_attribute,
            &settings.filter,
        ];
        assert_eq!(
            others.map(Option::as_deref),
            ["by", "why", "job", "{}"].map(|value| version_attribute.and(Some(value)))
        );
        assert!(settings.ignored.iter().eq(ignored));
    }
    let ignored = attached(&[("IGNORE_ATTRIBUTES", "seen")]).unwrap().unwrap();
    let table = AttachedTable::new(ignored, vec![KeyAttribute::new("seen", KeyType::S)]);
    assert_eq!(table, Err(InvalidDefinition::IgnoredKey("seen".to_owned())));
    for (name, value) in [("HISTORY_TABLE_NAME", ""), ("IGNORE_ATTRIBUTES", "[7]")] {
        let error = attached(&[(name, value)]).unwrap_err();
        assert!(
            error.starts_with(&format!("the environment variable {name} ")),
            "{error}"
        );
    }
}
