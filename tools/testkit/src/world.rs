//! A versioned table of a test, written with one mode and idempotency. An update without `ID` is one of the entity `E`.

use std::time::Duration;

use operations::{
    as_of::as_of,
    read::history::{History, HistoryQuery},
};
use serde_json::{Value, json};
use shared::{
    domain::{entity::EntityId, keys::LATEST_KEY, recorded_at::RecordedAt, view::VersionView},
    dynamodb::{Store, put::put_version::PutOutcome, read::versions::ReadError},
};

use crate::{
    database::{self, Database, entity},
    updates::{self, Update, WriteError, WriteMode, WriteOptions, WriteOutcome, settings, version},
};

/// Entity of updates without `ID`.
pub const ENTITY: &str = "E";

#[derive(Clone)]
pub struct World<'a> {
    pub database: &'a Database,
    /// Name in the test, see [`Database::table_name`].
    pub table: String,
    pub store: Store,
    pub options: WriteOptions,
}

impl<'a> World<'a> {
    /// Creates a table with version keys of this width, and writes it in the mode `stream`.
    pub async fn new(database: &'a Database, table: &str, digits: u8) -> Self {
        Self {
            database,
            table: table.to_owned(),
            store: database.store(table, digits).await,
            options: WriteOptions::default(),
        }
    }

    /// Creates a table for each write mode with each idempotency.
    pub async fn each(database: &'a Database, name: &str) -> Vec<Self> {
        let mut worlds = Vec::new();
        for (number, options) in settings().into_iter().enumerate() {
            let world = Self::new(database, &format!("{name}{number}"), 1).await;
            worlds.push(world.with(options));
        }
        worlds
    }

    #[must_use]
    pub fn with(self, options: WriteOptions) -> Self {
        Self { options, ..self }
    }

    #[must_use]
    pub fn in_mode(&self, mode: WriteMode) -> Self {
        let options = WriteOptions { mode, ..self.options };
        self.clone().with(options)
    }

    /// Returns the table with a clock that shows this number of seconds since 1970.
    #[must_use]
    pub fn at(&self, second: u64) -> Self {
        let store = database::at_second(&self.store, second);
        Self { store, ..self.clone() }
    }

    /// Applies an update without the version item that stream-fn puts.
    pub async fn apply(&self, json: Value) -> Result<WriteOutcome, WriteError> {
        updates::apply(&self.store, &updates::update(of_entity(json)), self.options).await
    }

    /// Applies an update, and puts its version item.
    pub async fn write(&self, json: Value) -> Result<WriteOutcome, WriteError> {
        self.record(&updates::update(of_entity(json))).await
    }

    pub async fn record(&self, update: &Update) -> Result<WriteOutcome, WriteError> {
        updates::record(&self.store, update, self.options).await
    }

    /// Applies an update that creates this version, and puts its version item.
    pub async fn writes(&self, json: Value, number: u64) {
        let outcome = self.write(json.clone()).await;
        assert_eq!(outcome, Ok(updates::written(number)), "{:?} {json}", self.options);
    }

    /// Writes versions 1 to `count` with the attribute `n`, version n at n seconds.
    pub async fn write_versions(&self, count: u64) {
        for number in 1..=count {
            self.at(number).writes(json!({"n": number}), number).await;
        }
    }

    pub async fn put_version(&self) -> PutOutcome {
        updates::put_version(&self.store, &entity(ENTITY)).await
    }

    /// Puts an item as another program does.
    pub async fn put(&self, item: Value) {
        self.database.put(&self.table, item).await;
    }

    pub async fn delete(&self, id: &str, sort_key: &str) {
        let table = self.database.table_name(&self.table);
        database::delete_item(&self.database.client, &table, id, sort_key).await;
    }

    /// Returns all items of the table and its history table, see [`database::rows`].
    pub async fn rows(&self) -> Vec<Value> {
        database::rows(self.database, &self.table).await
    }

    /// Returns an item of the entity `E` in DynamoDB JSON, null if it does not exist.
    pub async fn item(&self, sort_key: &str) -> Value {
        let item = self.store.get(&entity(ENTITY), sort_key, true).await;
        serde_json::to_value(item.unwrap()).unwrap()
    }

    /// Returns the latest item of the entity `E`.
    pub async fn v0(&self) -> Value {
        self.item(LATEST_KEY).await
    }

    pub async fn latest(&self) -> VersionView {
        self.store.latest(&entity(ENTITY), true).await.unwrap().unwrap()
    }

    pub async fn version(&self, number: u64) -> Option<VersionView> {
        self.store
            .version(&entity(ENTITY), version(number), true)
            .await
            .unwrap()
    }

    /// Returns the versions of a strongly consistent read, or `None` if the entity does not exist.
    pub async fn history_of(&self, id: &str, query: HistoryQuery) -> Option<Vec<u64>> {
        let query = HistoryQuery {
            consistent: true,
            ..query
        };
        let history = History::read(&self.store, &entity(id), query).await.unwrap()?;
        let views = history.collect().await.unwrap();
        Some(views.iter().map(|view| view.version.get()).collect())
    }

    /// Returns the versions of the entity `E`.
    pub async fn history(&self, query: HistoryQuery) -> Vec<u64> {
        self.history_of(ENTITY, query).await.unwrap()
    }

    /// Returns the version as of this second.
    pub async fn as_of(&self, id: &str, second: u64) -> Result<Option<u64>, ReadError> {
        let time = RecordedAt::since_epoch(Duration::from_secs(second));
        let found = as_of(&self.store, &entity(id), time, true).await?;
        Ok(found.map(|view| view.version.get()))
    }

    /// Returns the names of the operations that a request of the test sends.
    pub async fn operations<T>(&self, send: impl Future<Output = T>) -> (T, Vec<&'static str>) {
        self.database.consumed();
        let sent = send.await;
        let consumed = self.database.consumed().into_iter();
        (sent, consumed.map(|(operation, _)| operation).collect())
    }

    pub fn entity(&self) -> EntityId {
        entity(ENTITY)
    }
}

fn of_entity(mut json: Value) -> Value {
    if json["ID"].is_null() {
        json["ID"] = ENTITY.into();
    }
    json
}
