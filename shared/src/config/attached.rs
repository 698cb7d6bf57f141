//! Settings of an attached table.

use std::collections::BTreeSet;

use super::{ConfigError, Variables};
use crate::{domain::attached::definition::AttachedSettings, json};

/// Reads the settings of an attached table, `None` if the table is not attached.
pub(super) fn settings(variables: &Variables<'_>) -> Result<Option<AttachedSettings>, ConfigError> {
    const STREAM_ARN: &str = "ATTACHED_STREAM_ARN";
    const HISTORY_TABLE: &str = "HISTORY_TABLE_NAME";
    if variables.text(STREAM_ARN).is_none() {
        return Ok(None);
    }
    let history = variables.text(HISTORY_TABLE);
    let history =
        history.ok_or_else(|| ConfigError::invalid(HISTORY_TABLE, format!("it is required with {STREAM_ARN}")))?;
    Ok(Some(AttachedSettings {
        table: variables.text("TABLE_NAME").ok_or(ConfigError::NoTable)?,
        history_table: Some(history),
        version_attribute: variables.text("VERSION_ATTRIBUTE"),
        ignored: ignored(&variables.text(IGNORE_ATTRIBUTES).unwrap_or_default())?,
        filter: None,
    }))
}

const IGNORE_ATTRIBUTES: &str = "IGNORE_ATTRIBUTES";

/// Reads names with commas between them, or a JSON list: a name can contain a comma.
fn ignored(text: &str) -> Result<BTreeSet<String>, ConfigError> {
    if text.trim_start().starts_with('[') {
        let names = json::elements(text).ok();
        let names = names.and_then(|names| names.into_iter().map(json::string).collect());
        return names.ok_or_else(|| ConfigError::invalid(IGNORE_ATTRIBUTES, "it is not a JSON list of names"));
    }
    let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
    Ok(names.map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::attached::{
        AttachedTable,
        definition::{InvalidDefinition, KeyAttribute, KeyType},
    };

    /// Reads these variables, and the required ones.
    fn read(changed: &[(&str, &str)]) -> Result<Option<AttachedSettings>, String> {
        let stream = "arn:aws:dynamodb:eu-west-1:123456789012:table/Orders/stream/2026-11-22T06:24:48.123";
        let needed = [
            ("TABLE_NAME", "Orders"),
            ("HISTORY_TABLE_NAME", "Log"),
            ("ATTACHED_STREAM_ARN", stream),
        ];
        let variable = |name: &str| {
            let mut all = changed.iter().chain(&needed);
            all.find(|(known, _)| *known == name)
                .map(|(_, value)| (*value).to_owned())
        };
        settings(&Variables(&variable)).map_err(|error| error.to_string())
    }

    #[test]
    fn the_variables_and_the_keys_define_the_table() {
        assert_eq!(read(&[("ATTACHED_STREAM_ARN", "")]), Ok(None));
        for (changed, version_attribute, ignored) in [
            (&[][..], None, &[][..]),
            (
                &[("VERSION_ATTRIBUTE", "rev"), ("IGNORE_ATTRIBUTES", "seen, by,")],
                Some("rev"),
                &["by", "seen"],
            ),
            // A name can contain a comma.
            (&[("IGNORE_ATTRIBUTES", r#"["a,b"]"#)], None, &["a,b"]),
        ] {
            let settings = read(changed).unwrap().unwrap();
            let keys = [KeyAttribute::new("id", KeyType::S), KeyAttribute::new("no", KeyType::N)];
            let table = AttachedTable::new(settings, keys.to_vec()).unwrap();
            assert_eq!((table.table(), table.history_table()), ("Orders", "Log"));
            assert!(table.keys().eq(&keys));
            assert_eq!(table.version_attribute(), version_attribute);
            assert!(table.ignored().iter().eq(ignored));
        }
        let settings = read(&[("IGNORE_ATTRIBUTES", "seen")]).unwrap().unwrap();
        let ignored = InvalidDefinition::IgnoredKey("seen".to_owned());
        assert_eq!(
            AttachedTable::new(settings, vec![KeyAttribute::new("seen", KeyType::S)]),
            Err(ignored)
        );
    }

    #[test]
    fn errors_name_the_variable() {
        for (name, value) in [
            ("TABLE_NAME", ""),
            ("HISTORY_TABLE_NAME", ""),
            ("IGNORE_ATTRIBUTES", "[7]"),
        ] {
            let error = read(&[(name, value)]).unwrap_err();
            let found = error.strip_prefix("the environment variable ").unwrap();
            assert!(found.starts_with(&format!("{name} ")), "{name}: {error}");
        }
    }
}
