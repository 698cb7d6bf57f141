//! Where the log of a table is: an item beside the versions, which seal-fn stores at its start.

use std::collections::HashMap;

use seal::log::note::VerifierKey;
use shared::{
    domain::{Item, attributes::text, entity::RESERVED},
    dynamodb::{Store, client::error::ServiceError, expression::Expression, key, s, write::Write},
};

use crate::error::SealError;

/// Sort key of the item. Its partition key is that of the table's own items.
pub const SORT_KEY: &str = "sealed";
const LOG: &str = "Log";
const KEYS_TABLE: &str = "KeysTable";
const STATE_TABLE: &str = "StateTable";
const VERIFIER_KEY: &str = "VerifierKey";
const TABLE_ARN: &str = "TableArn";

/// Place of a table's log, and of what belongs to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// `s3://BUCKET`, or a folder.
    pub log: String,
    /// Name of the table with the random keys.
    pub keys: String,
    /// Name of the table with the state.
    pub state: String,
    /// Key that verifies checkpoints, as the table says. An auditor compares it with the one that he received.
    pub verifier: VerifierKey,
    /// Id of the table in leaves.
    pub table: String,
}

impl Place {
    /// Reads the place that a table stores, `None` if its versions are not sealed.
    ///
    /// # Errors
    ///
    /// The request fails, or the item is not what seal-fn stores.
    pub async fn of(store: &Store) -> Result<Option<Self>, SealError> {
        let item = store
            .get_stored(RESERVED, SORT_KEY, true, store.history_table())
            .await?;
        item.map(|item| parse(&item).ok_or_else(|| SealError::Unreadable("the item #vzero/sealed".to_owned())))
            .transpose()
    }

    /// Stores the place.
    ///
    /// # Errors
    ///
    /// The request fails.
    pub async fn store(&self, store: &Store) -> Result<(), ServiceError> {
        let verifier = self.verifier.to_string();
        let attributes = [
            (LOG, &self.log),
            (KEYS_TABLE, &self.keys),
            (STATE_TABLE, &self.state),
            (VERIFIER_KEY, &verifier),
            (TABLE_ARN, &self.table),
        ];
        let mut item: HashMap<_, _> = key(RESERVED, SORT_KEY);
        item.extend(attributes.map(|(name, value)| (name.to_owned(), s(value))));
        let put = Write::put(store.history_table(), item, Expression::default());
        // Without a condition, it cannot fail.
        let _ = put.send(store.client()).await?;
        Ok(())
    }
}

fn parse(item: &Item) -> Option<Place> {
    let get = |name| text(item, name).map(str::to_owned);
    Some(Place {
        log: get(LOG)?,
        keys: get(KEYS_TABLE)?,
        state: get(STATE_TABLE)?,
        verifier: VerifierKey::parse(text(item, VERIFIER_KEY)?).ok()?,
        table: get(TABLE_ARN)?,
    })
}
