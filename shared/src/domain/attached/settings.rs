//! Settings of an attached table without the names and types of its keys: stream-fn reads these from the table.

use std::collections::BTreeSet;

use super::definition::{AttachedTable, InvalidDefinition, KeyAttribute, Parts};

/// Attached table whose keys are not known yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachedSettings {
    /// Name of the table.
    pub table: String,
    /// Name of the history table.
    pub history_table: String,
    /// Attribute in which writers keep a version number of their own.
    pub version_attribute: Option<String>,
    /// Attributes whose change alone makes no version.
    pub ignored: BTreeSet<String>,
}

impl AttachedSettings {
    /// Returns the attached table with these keys.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidDefinition`] if a name is invalid, if both tables are the same, or if a key attribute is ignored.
    pub fn with_keys(
        &self,
        partition_key: KeyAttribute,
        sort_key: Option<KeyAttribute>,
    ) -> Result<AttachedTable, InvalidDefinition> {
        AttachedTable::new(Parts {
            table: self.table.clone(),
            history_table: Some(self.history_table.clone()),
            partition_key,
            sort_key,
            version_attribute: self.version_attribute.clone(),
            ignored: self.ignored.clone(),
            filter: None,
        })
    }
}
