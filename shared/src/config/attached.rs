//! Settings of an attached table.

use std::collections::BTreeSet;

use super::{ConfigError, parse};
use crate::{
    domain::attached::{
        AttachedTable,
        definition::{InvalidDefinition, KeyAttribute, KeyType, Parts},
    },
    json,
};

const IGNORE_ATTRIBUTES: &str = "IGNORE_ATTRIBUTES";

/// Reads the definition of an attached table, `None` if the table is not attached.
pub(super) fn table(variable: &impl Fn(&str) -> Option<String>) -> Result<Option<AttachedTable>, ConfigError> {
    const PARTITION_KEY: &str = "ATTACHED_PARTITION_KEY";
    let text = |name: &str| variable(name).filter(|value| !value.is_empty());
    let missing = |name| ConfigError::Invalid {
        name,
        reason: format!("it is required with {PARTITION_KEY}"),
    };
    let Some(partition_key) = text(PARTITION_KEY) else {
        return Ok(None);
    };
    let key = |name, kind_variable| -> Result<_, ConfigError> {
        let kind: Option<KeyType> = parse(variable, kind_variable)?;
        let kind = kind.ok_or_else(|| missing(kind_variable))?;
        Ok(KeyAttribute { name, kind })
    };
    let sort_key = text("ATTACHED_SORT_KEY").map(|name| key(name, "ATTACHED_SORT_KEY_TYPE"));
    let parts = Parts {
        table: text("TABLE_NAME").ok_or(ConfigError::NoTable)?,
        history_table: Some(text("HISTORY_TABLE_NAME").ok_or_else(|| missing("HISTORY_TABLE_NAME"))?),
        partition_key: key(partition_key, "ATTACHED_PARTITION_KEY_TYPE")?,
        sort_key: sort_key.transpose()?,
        version_attribute: text("VERSION_ATTRIBUTE"),
        ignored: ignored(text("IGNORE_ATTRIBUTES"))?,
        filter: None,
    };
    let table = AttachedTable::new(parts).map_err(|error| ConfigError::Invalid {
        name: match error {
            InvalidDefinition::SameTable | InvalidDefinition::TableName("HistoryTable") => "HISTORY_TABLE_NAME",
            InvalidDefinition::TableName(_) => "TABLE_NAME",
            InvalidDefinition::IgnoredKey(_) | InvalidDefinition::EmptyName(_) => IGNORE_ATTRIBUTES,
            _ => PARTITION_KEY,
        },
        reason: error.to_string(),
    })?;
    Ok(Some(table))
}

/// Reads names with commas between them, or a JSON list: a name can contain a comma.
fn ignored(text: Option<String>) -> Result<BTreeSet<String>, ConfigError> {
    let text = text.unwrap_or_default();
    if text.trim_start().starts_with('[') {
        let names = json::elements(&text).ok();
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

    const NEEDED: [(&str, &str); 4] = [
        ("TABLE_NAME", "Orders"),
        ("HISTORY_TABLE_NAME", "Log"),
        ("ATTACHED_PARTITION_KEY", "id"),
        ("ATTACHED_PARTITION_KEY_TYPE", "S"),
    ];

    /// Reads the needed variables with other values; an empty one counts as missing.
    fn read(changed: &[(&str, &str)]) -> Result<Option<AttachedTable>, String> {
        let variable = |name: &str| {
            let mut all = changed.iter().chain(&NEEDED);
            all.find(|(known, _)| *known == name)
                .map(|(_, value)| (*value).to_owned())
        };
        table(&variable).map_err(|error| error.to_string())
    }

    #[test]
    fn the_variables_define_the_table() {
        assert_eq!(read(&[("ATTACHED_PARTITION_KEY", "")]), Ok(None));
        let table = read(&[]).unwrap().unwrap();
        assert_eq!((table.table(), table.history_table()), ("Orders", "Log"));
        assert_eq!(
            (table.keys().count(), table.version_attribute(), table.ignored().len()),
            (1, None, 0)
        );
        let table = read(&[
            ("ATTACHED_SORT_KEY", "no"),
            ("ATTACHED_SORT_KEY_TYPE", "N"),
            ("VERSION_ATTRIBUTE", "rev"),
            ("IGNORE_ATTRIBUTES", "seen, by,"),
        ]);
        let table = table.unwrap().unwrap();
        let keys: Vec<_> = table.keys().map(|key| (key.name.as_str(), key.kind)).collect();
        assert_eq!(keys, [("id", KeyType::S), ("no", KeyType::N)]);
        assert_eq!(table.version_attribute(), Some("rev"));
        assert_eq!(table.ignored().iter().collect::<Vec<_>>(), ["by", "seen"]);
        // A name can contain a comma.
        let table = read(&[("IGNORE_ATTRIBUTES", r#"["a,b"]"#)]).unwrap().unwrap();
        assert_eq!(table.ignored().iter().collect::<Vec<_>>(), ["a,b"]);
    }

    #[test]
    fn errors_name_the_variable() {
        for (changed, name) in [
            (&[("TABLE_NAME", "")][..], "TABLE_NAME"),
            (&[("TABLE_NAME", "a b")], "TABLE_NAME"),
            (&[("HISTORY_TABLE_NAME", "")], "HISTORY_TABLE_NAME"),
            (&[("HISTORY_TABLE_NAME", "Orders")], "HISTORY_TABLE_NAME"),
            (&[("HISTORY_TABLE_NAME", "x")], "HISTORY_TABLE_NAME"),
            (&[("ATTACHED_PARTITION_KEY_TYPE", "")], "ATTACHED_PARTITION_KEY_TYPE"),
            (&[("ATTACHED_PARTITION_KEY_TYPE", "X")], "ATTACHED_PARTITION_KEY_TYPE"),
            (&[("ATTACHED_SORT_KEY", "no")], "ATTACHED_SORT_KEY_TYPE"),
            (&[("IGNORE_ATTRIBUTES", "id")], "IGNORE_ATTRIBUTES"),
            (&[("IGNORE_ATTRIBUTES", "[7]")], "IGNORE_ATTRIBUTES"),
            (
                &[("ATTACHED_SORT_KEY", "id"), ("ATTACHED_SORT_KEY_TYPE", "S")],
                "ATTACHED_PARTITION_KEY",
            ),
        ] {
            let error = read(changed).unwrap_err();
            let found = error.strip_prefix("the environment variable ").unwrap();
            assert!(found.starts_with(&format!("{name} ")), "{changed:?}: {error}");
        }
    }
}
