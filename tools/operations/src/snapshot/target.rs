//! Empty table into which a snapshot is written.
//!
//! | snapshot of | becomes | written by |
//! |---|---|---|
//! | a versioned table | version 1 of each entity | an update that expects no version, as in a [backfill](crate::backfill) |
//! | an attached table | items with the same keys | `PutItem`, on condition that the key is free |
//!
//! Both write nothing if an earlier run has written the state, so that an interrupted run can resume.

use shared::{
    config::{Ordering, WriteOptions},
    domain::{
        AttributeValue, Item, entity::is_reserved, keys::partition_key_of, layout::table_name, names, view::VersionView,
    },
    dynamodb::{
        Store,
        client::error::{ErrorKind, ServiceError},
        expression::Expression,
        read::describe_table::keys_of,
        write::Write,
    },
};

use crate::{
    backfill::{Backfill, ItemOutcome, Stop},
    error::OperationError,
    rate_limit::RateLimiter,
    read::paced::Paced,
    segments::scan,
    tables::open,
};

/// Number of items of a page that is read to find out whether the table is empty. A versioned table has up to two of its own settings.
const FIRST_ITEMS: i32 = 4;

/// Outcome of the write of a state.
pub(super) enum Written {
    New,
    AlreadyThere,
    /// The table cannot have the state, for this reason.
    Refused(String),
}

/// Table into which states are written.
pub struct Target {
    table: Paced,
    kind: Kind,
}

enum Kind {
    /// Items with this partition key.
    Items(String),
    Versions(Box<Backfill>),
}

impl Target {
    /// Opens the target of states of a store, a table of the same keys. The one of a versioned table is a versioned table, with these
    /// options of writes.
    ///
    /// # Errors
    ///
    /// Returns [`OperationError::Invalid`] if the tables are the same, or have other keys, and [`OperationError::Service`] if a request
    /// fails.
    pub async fn new(
        source: &Store,
        name: &str,
        limiter: &RateLimiter,
        (ordering, options): (Ordering, WriteOptions),
    ) -> Result<Self, OperationError> {
        let from = source.latest_table();
        if table_name(from) == table_name(name) {
            return Err(OperationError::Invalid(format!(
                "{name} is the table of the snapshot itself"
            )));
        }
        let plain = Store::new(source.client().clone(), name, source.digits());
        let described = plain.described().await?;
        let keys = keys_of(&described.ok_or_else(|| OperationError::NoTable(name.to_owned()))?);
        if keys != keys_of(&source.description().await?) {
            return Err(OperationError::Invalid(format!(
                "{name} does not have the keys of {from}"
            )));
        }
        let target = match source.attached_table() {
            Some(_) => plain,
            None => open(source.client(), name, None).await?,
        };
        if target.attached_table().is_some() {
            return Err(OperationError::Refused(format!("other programs write {name}")));
        }
        let table = Paced::new(&target, limiter);
        let backfill = || Backfill::of_states(Paced::new(source, limiter), table.clone(), ordering, options);
        let kind = match (source.attached_table(), keys.into_iter().next()) {
            (Some(_), Some((key, _))) => Kind::Items(key),
            _ => Kind::Versions(Box::new(backfill())),
        };
        Ok(Self { table, kind })
    }

    /// Stores the layout of a versioned table that has none.
    ///
    /// # Errors
    ///
    /// As [`Store::claim_layout`].
    pub async fn claim(&self) -> Result<(), OperationError> {
        match self.kind {
            Kind::Items(_) => Ok(()),
            Kind::Versions(_) => Ok(self.table.store.claim_layout().await?),
        }
    }

    pub fn name(&self) -> &str {
        self.table.store.latest_table()
    }

    /// Returns an error if the table, or its history table, has an item besides its own settings.
    ///
    /// # Errors
    ///
    /// Returns [`OperationError::Refused`] if it has one, [`OperationError::Service`] if a request fails.
    pub async fn check_empty(&self) -> Result<(), OperationError> {
        let store = &self.table.store;
        for table in store.tables() {
            let mut start = None;
            loop {
                let request = scan::request(None, start, Some(FIRST_ITEMS), table).consistent_read(true);
                let page = scan::page(store, request, Some).await?;
                let is_setting = |item: &Item| partition_key_of(item).is_some_and(is_reserved);
                let is_versioned = matches!(self.kind, Kind::Versions(_));
                if !page.items.iter().all(|item| is_versioned && is_setting(item)) {
                    return Err(OperationError::Refused(format!(
                        "{table} is not empty: a snapshot is written into an empty table only. An interrupted one resumes with the --state FILE that it was started with; without, \
                         delete {table} and create it again"
                    )));
                }
                start = page.next;
                if start.is_none() {
                    break;
                }
            }
        }
        Ok(())
    }

    pub(super) async fn write(&self, view: &VersionView) -> Result<Written, OperationError> {
        let mut item = view.attributes.clone();
        let written = match &self.kind {
            Kind::Items(key) => {
                return Ok(
                    match self.table.send(async |store| put(store, key, &item).await).await {
                        Ok(true) => Written::New,
                        Ok(false) => Written::AlreadyThere,
                        Err(error) if error.kind == ErrorKind::Rejected => Written::Refused(error.to_string()),
                        Err(error) => return Err(error.into()),
                    },
                );
            }
            Kind::Versions(backfill) => {
                item.insert(names::PK.to_owned(), AttributeValue::S(view.entity.as_str().to_owned()));
                Box::pin(backfill.item(&item)).await
            }
        };
        match written {
            Ok(ItemOutcome::Written) => Ok(Written::New),
            Ok(_) => Ok(Written::AlreadyThere),
            Err(Stop::Refused(why)) => Ok(Written::Refused(why.to_string())),
            Err(Stop::Failed(error)) => Err(error),
        }
    }
}

/// Puts an item. Returns `false` if the table has an item with its key.
pub(crate) async fn put(store: &Store, key: &str, item: &Item) -> Result<bool, ServiceError> {
    let mut absent = Expression::default();
    absent.condition("attribute_not_exists(#pk)").name("#pk", key);
    let put = Write::put(store.latest_table(), item.clone(), absent).send(store.client());
    Ok(put.await?.is_ok())
}
