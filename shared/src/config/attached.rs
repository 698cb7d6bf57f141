//! Settings of an attached table.

use std::collections::BTreeSet;

use super::{ConfigError, parse};
use crate::{domain::attached::settings::AttachedSettings, json};

const IGNORE_ATTRIBUTES: &str = "IGNORE_ATTRIBUTES";

/// Reads the settings of an attached table, `None` if the table is not attached.
pub(super) fn settings(variable: &impl Fn(&str) -> Option<String>) -> Result<Option<AttachedSettings>, ConfigError> {
    const STREAM_ARN: &str = "ATTACHED_STREAM_ARN";
    let text = |name: &'static str| parse::<String>(variable, name);
    if text(STREAM_ARN)?.is_none() {
        return Ok(None);
    }
    let history_table = text("HISTORY_TABLE_NAME")?.ok_or_else(|| ConfigError::Invalid {
        name: "HISTORY_TABLE_NAME",
        reason: format!("it is required with {STREAM_ARN}"),
    })?;
    Ok(Some(AttachedSettings {
        table: text("TABLE_NAME")?.ok_or(ConfigError::NoTable)?,
        history_table,
        version_attribute: text("VERSION_ATTRIBUTE")?,
        ignored: ignored(&text(IGNORE_ATTRIBUTES)?.unwrap_or_default())?,
    }))
}

/// Reads names with commas between them, or a JSON list: a name can contain a comma.
fn ignored(text: &str) -> Result<BTreeSet<String>, ConfigError> {
    if text.trim_start().starts_with('[') {
        let names = json::elements(text).ok();
        let names = names.and_then(|names| names.into_iter().map(json::string).collect());
        return names.ok_or_else(|| ConfigError::Invalid {
            name: IGNORE_ATTRIBUTES,
            reason: "it is not a JSON list of names".to_owned(),
        });
    }
    let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
    Ok(names.map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::attached::definition::{InvalidDefinition, KeyAttribute, KeyType};

    const NEEDED: [(&str, &str); 3] = [
        ("TABLE_NAME", "Orders"),
        ("HISTORY_TABLE_NAME", "Log"),
        (
            "ATTACHED_STREAM_ARN",
            "arn:aws:dynamodb:eu-west-1:123456789012:table/Orders/stream/2026-11-22T06:24:48.123",
        ),
    ];

    /// Reads the needed variables with other values; an empty one counts as missing.
    fn read(changed: &[(&str, &str)]) -> Result<Option<AttachedSettings>, String> {
        let variable = |name: &str| {
            let mut all = changed.iter().chain(&NEEDED);
            all.find(|(known, _)| *known == name)
                .map(|(_, value)| (*value).to_owned())
        };
        settings(&variable).map_err(|error| error.to_string())
    }

    fn key(name: &str, kind: KeyType) -> KeyAttribute {
        KeyAttribute {
            name: name.to_owned(),
            kind,
        }
    }

    #[test]
    fn the_variables_and_the_keys_define_the_table() {
        assert_eq!(read(&[("ATTACHED_STREAM_ARN", "")]), Ok(None));
        let settings = read(&[]).unwrap().unwrap();
        let table = settings.with_keys(key("id", KeyType::S), None).unwrap();
        assert_eq!((table.table(), table.history_table()), ("Orders", "Log"));
        assert_eq!(
            (table.keys().count(), table.version_attribute(), table.ignored().len()),
            (1, None, 0)
        );
        let settings = read(&[("VERSION_ATTRIBUTE", "rev"), ("IGNORE_ATTRIBUTES", "seen, by,")]);
        let settings = settings.unwrap().unwrap();
        let table = settings
            .with_keys(key("id", KeyType::S), Some(key("no", KeyType::N)))
            .unwrap();
        let keys: Vec<_> = table.keys().map(|key| (key.name.as_str(), key.kind)).collect();
        assert_eq!(keys, [("id", KeyType::S), ("no", KeyType::N)]);
        assert_eq!(table.version_attribute(), Some("rev"));
        assert_eq!(table.ignored().iter().collect::<Vec<_>>(), ["by", "seen"]);
        let ignored = InvalidDefinition::IgnoredKey("seen".to_owned());
        assert_eq!(settings.with_keys(key("seen", KeyType::S), None), Err(ignored));
        // A name can contain a comma.
        let settings = read(&[("IGNORE_ATTRIBUTES", r#"["a,b"]"#)]).unwrap().unwrap();
        assert_eq!(settings.ignored.iter().collect::<Vec<_>>(), ["a,b"]);
    }

    #[test]
    fn errors_name_the_variable() {
        for (changed, name) in [
            (("TABLE_NAME", ""), "TABLE_NAME"),
            (("HISTORY_TABLE_NAME", ""), "HISTORY_TABLE_NAME"),
            (("IGNORE_ATTRIBUTES", "[7]"), "IGNORE_ATTRIBUTES"),
        ] {
            let error = read(&[changed]).unwrap_err();
            let found = error.strip_prefix("the environment variable ").unwrap();
            assert!(found.starts_with(&format!("{name} ")), "{changed:?}: {error}");
        }
    }
}
