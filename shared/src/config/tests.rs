//! Tests of the settings: defaults, bounds, and the names of invalid variables.

use super::*;

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
fn the_number_of_attempts_has_bounds() {
    let attempts = |value| check(&[("TABLE_NAME", "T"), ("AWS_MAX_ATTEMPTS", value)]).map(|config| config.client);
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
        ("TABLE_NAME", "T"),
        ("VERSION_DIGITS", "10"),
        ("ORDERING", "time"),
        ("WRITE_MODE", "inline"),
        ("SKIP_UNCHANGED", "true"),
    ]);
    let config = config.unwrap();
    assert_eq!(config.table, "T");
    assert_eq!(Some(config.digits), VersionDigits::new(10));
    assert_eq!(config.ordering, Ordering::Time);
    assert_eq!(
        (config.write.mode, config.write.skip_unchanged),
        (WriteMode::Inline, true)
    );
    assert_eq!(config.write.idempotency, Idempotency::Recent(Window::default()));
    assert_eq!(config.compression, Compression::None);
    let ledger = check(&[("TABLE_NAME", "T"), ("IDEMPOTENCY", "ledger")]).unwrap();
    assert_eq!(ledger.write.idempotency, Idempotency::Ledger(Retention::default()));
}

#[test]
fn an_invalid_value_is_named() {
    for (variables, message) in [
        (&[][..], "TABLE_NAME is not set"),
        (&[("TABLE_NAME", "")][..], "TABLE_NAME is not set"),
        (&[("TABLE_NAME", "T"), ("VERSION_DIGITS", "0")][..], "VERSION_DIGITS"),
        (&[("TABLE_NAME", "T"), ("ORDERING", "random")][..], "ORDERING"),
        (&[("TABLE_NAME", "T"), ("WRITE_MODE", "both")][..], "WRITE_MODE"),
        (&[("TABLE_NAME", "T"), ("IDEMPOTENCY", "none")][..], "IDEMPOTENCY"),
    ] {
        let error = check(variables).unwrap_err();
        assert!(error.contains(message), "{error}");
    }
}
