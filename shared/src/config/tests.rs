//! Tests of the settings: defaults, bounds, and the names of invalid variables.

use super::*;
use crate::{domain::recent_requests::Window, dynamodb::write::modes::WriteMode};

fn check(variables: &[(&str, &str)]) -> Result<Config, String> {
    Config::from_variables(|name| {
        let found = variables.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| (*value).to_owned())
    })
    .map_err(|error| error.to_string())
}

#[test]
fn all_but_the_table_have_defaults() {
    let config = check(&[("TABLE_NAME", "T"), ("VERSION_DIGITS", "")]).unwrap();
    assert_eq!(config.digits, VersionDigits::default());
    assert_eq!(config.ordering, Ordering::Arrival);
    assert!(config.record_sender && !config.log_keys);
    assert_eq!(config.client, ClientSettings::default());
}

#[test]
fn compression_requires_a_history_table() {
    let compressed = |variables: &[(&str, &str)]| {
        let variables = [&[("TABLE_NAME", "T"), ("HISTORY_COMPRESSION", "deflate")], variables].concat();
        check(&variables).map(|config| config.compression)
    };
    assert_eq!(compressed(&[("HISTORY_TABLE_NAME", "H")]), Ok(Compression::Deflate));
    for same in ["", "T"] {
        let error = compressed(&[("HISTORY_TABLE_NAME", same)]).unwrap_err();
        assert!(
            error.starts_with("the environment variable HISTORY_COMPRESSION cannot be read: "),
            "{error}"
        );
        assert!(
            error.ends_with("it requires a history table, HISTORY_TABLE_NAME"),
            "{error}"
        );
    }
    for none in ["none", ""] {
        assert!(check(&[("TABLE_NAME", "T"), ("HISTORY_COMPRESSION", none)]).is_ok());
    }
    let other = check(&[("TABLE_NAME", "T"), ("HISTORY_COMPRESSION", "gzip")]).unwrap_err();
    assert!(other.ends_with("the compression is \"none\" or \"deflate\""), "{other}");
}

#[test]
fn every_variable_of_the_client_is_read() {
    let defaults = ClientSettings::default();
    let millis = Duration::from_millis;
    for (variables, expected) in [
        (&[("AWS_RETRY_MODE", "standard")][..], defaults),
        (
            &[("AWS_RETRY_MODE", "adaptive")],
            ClientSettings {
                retry_mode: RetryMode::Adaptive,
                ..defaults
            },
        ),
        (
            &[("AWS_MAX_ATTEMPTS", "1")],
            ClientSettings {
                max_attempts: 1,
                ..defaults
            },
        ),
        (
            &[("AWS_MAX_ATTEMPTS", "10"), ("CONNECT_TIMEOUT_MS", "1")],
            ClientSettings {
                max_attempts: 10,
                connect_timeout: millis(1),
                ..defaults
            },
        ),
        (
            &[("READ_TIMEOUT_MS", "1500"), ("CONNECT_TIMEOUT_MS", "")],
            ClientSettings {
                read_timeout: millis(1500),
                ..defaults
            },
        ),
        (
            &[("ATTEMPT_TIMEOUT_MS", "25000"), ("OPERATION_TIMEOUT_MS", "25000")],
            ClientSettings {
                attempt_timeout: millis(25_000),
                operation_timeout: millis(25_000),
                ..defaults
            },
        ),
    ] {
        let variables = [&[("TABLE_NAME", "T")], variables].concat();
        assert_eq!(check(&variables).unwrap().client, expected, "{variables:?}");
    }
}

#[test]
fn variables_of_the_client_have_bounds() {
    let attempts = "expected a whole number from 1 to 10";
    let millis = "expected a whole number from 1 to 25000";
    for (variables, reason) in [
        (&[("AWS_RETRY_MODE", "legacy")][..], "expected standard or adaptive"),
        (&[("AWS_MAX_ATTEMPTS", "0")], attempts),
        (&[("AWS_MAX_ATTEMPTS", "11")], attempts),
        (&[("AWS_MAX_ATTEMPTS", "-1")], attempts),
        (&[("AWS_MAX_ATTEMPTS", "three")], attempts),
        (&[("CONNECT_TIMEOUT_MS", "0")], millis),
        (&[("CONNECT_TIMEOUT_MS", "1s")], millis),
        (&[("READ_TIMEOUT_MS", "1.5")], millis),
        (&[("ATTEMPT_TIMEOUT_MS", "-2000")], millis),
        (&[("OPERATION_TIMEOUT_MS", "25001")], millis),
        (&[("OPERATION_TIMEOUT_MS", "99999999999999999999")], millis),
        (
            &[("ATTEMPT_TIMEOUT_MS", "8001")],
            "8001 is greater than OPERATION_TIMEOUT_MS, 8000",
        ),
        (
            &[("ATTEMPT_TIMEOUT_MS", "500"), ("OPERATION_TIMEOUT_MS", "499")],
            "500 is greater than OPERATION_TIMEOUT_MS, 499",
        ),
    ] {
        let error = check(&[&[("TABLE_NAME", "T")], variables].concat()).unwrap_err();
        let name = variables[0].0;
        assert_eq!(
            error,
            format!("the environment variable {name} cannot be read: {reason}")
        );
    }
}

#[test]
fn every_variable_is_read() {
    let config = check(&[
        ("TABLE_NAME", "T"),
        ("VERSION_DIGITS", "10"),
        ("ORDERING", "time"),
        ("LOG_KEYS", "true"),
        ("RECORD_SENDER", "false"),
        ("WRITE_MODE", "inline"),
        ("SKIP_UNCHANGED", "true"),
        ("IDEMPOTENCY_WINDOW", "4"),
        ("TOMBSTONE_TTL_DAYS", "7"),
    ]);
    let config = config.unwrap();
    assert_eq!(config.table, "T");
    assert_eq!(Some(config.digits), VersionDigits::new(10));
    assert_eq!(config.ordering, Ordering::Time);
    assert!(config.log_keys && !config.record_sender);
    assert_eq!(
        (config.write.mode, config.write.skip_unchanged),
        (WriteMode::Inline, true)
    );
    assert_eq!(config.write.idempotency, Idempotency::Recent(Window::new(4).unwrap()));
    assert_eq!(config.write.tombstone_ttl, Retention::days(7));
    assert_eq!(config.compression, Compression::None);
    let never = check(&[("TABLE_NAME", "T"), ("TOMBSTONE_TTL_DAYS", "0")]).unwrap();
    assert_eq!(never.write.tombstone_ttl, None);
    let ledger = check(&[
        ("TABLE_NAME", "T"),
        ("IDEMPOTENCY", "ledger"),
        ("LEDGER_TTL_DAYS", "30"),
    ])
    .unwrap();
    assert_eq!(
        ledger.write.idempotency,
        Idempotency::Ledger(Retention::days(30).unwrap())
    );
}

#[test]
fn an_invalid_value_is_named() {
    for (variables, message) in [
        (&[][..], "TABLE_NAME is not set"),
        (&[("TABLE_NAME", "")][..], "TABLE_NAME is not set"),
        (&[("TABLE_NAME", "T"), ("VERSION_DIGITS", "0")][..], "VERSION_DIGITS"),
        (&[("TABLE_NAME", "T"), ("ORDERING", "random")][..], "ORDERING"),
        (&[("TABLE_NAME", "T"), ("LOG_KEYS", "yes")][..], "LOG_KEYS"),
        (&[("TABLE_NAME", "T"), ("WRITE_MODE", "both")][..], "WRITE_MODE"),
        (&[("TABLE_NAME", "T"), ("IDEMPOTENCY", "none")][..], "IDEMPOTENCY"),
        (
            &[("TABLE_NAME", "T"), ("IDEMPOTENCY_WINDOW", "0")][..],
            "IDEMPOTENCY_WINDOW",
        ),
        (&[("TABLE_NAME", "T"), ("LEDGER_TTL_DAYS", "0")][..], "LEDGER_TTL_DAYS"),
        (
            &[("TABLE_NAME", "T"), ("TOMBSTONE_TTL_DAYS", "-1")][..],
            "TOMBSTONE_TTL_DAYS",
        ),
    ] {
        let error = check(variables).unwrap_err();
        assert!(error.contains(message), "{error}");
    }
}
