//! Puts a stream record into quarantine by transactions, because the text of a record can need several items. A transaction has at most
//! 4 MB, so a record that is longer needs several: the item by which readers find it is put last.
//!
//! The put is conditional, so that a record that is delivered again is quarantined once, and its first copy stays.

use crate::{
    domain::quarantine::QuarantinedRecord,
    dynamodb::{Store, client::error::ServiceError},
};

impl Store {
    /// Puts a record into quarantine. Returns `false` if it was there already.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if the request fails.
    pub async fn quarantine(&self, record: &QuarantinedRecord) -> Result<bool, ServiceError> {
        let mut is_put = false;
        for group in record.groups() {
            // An earlier delivery can have put a group: with the same text, as the hash in its keys shows.
            is_put = self.put_together(&group).await?;
        }
        Ok(is_put)
    }
}
