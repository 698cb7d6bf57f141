//! Size of the tables that a scan reads.

use shared::dynamodb::{Store, client::error::ServiceError, read::describe_table::items_of};

/// Number of items, and of bytes. DynamoDB updates them about every six hours.
#[derive(Debug, Clone, Copy, Default)]
pub struct TableSize {
    pub items: u64,
    pub bytes: u64,
}

impl TableSize {
    /// Describes the tables of a store.
    pub async fn of(store: &Store) -> Result<Self, ServiceError> {
        let mut size = Self::default();
        for name in store.tables() {
            let table = Store::new(store.client().clone(), name, store.digits());
            let table = table.description().await?;
            size.items += items_of(&table);
            let bytes = table.table_size_bytes.and_then(|bytes| u64::try_from(bytes).ok());
            size.bytes += bytes.unwrap_or_default();
        }
        Ok(size)
    }
}
