//! A table whose versions seal-fn's own code seals in a folder.

use std::time::Duration;

use sealing::{
    sealer::Sealed,
    settings::{LogPlace, Settings},
};
use serde_json::Value;
use shared::{domain::time_index::ALWAYS, dynamodb::Store};
use testkit::{
    database::add_time_index,
    table::{self, Table, create_history},
};

pub(crate) struct Sealing {
    settings: Settings,
    _folder: tempfile::TempDir,
    /// The table, with its index by time.
    store: Store,
}

impl Sealing {
    pub(crate) fn of(table: &Table) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = table.store.clone().with_time_index(None);
        let settings = Settings {
            tables: vec![(table.name.clone(), None)],
            state: table.endpoint.table("SealState"),
            keys: table.endpoint.table("SealKeys"),
            origin: "example.com/log".to_owned(),
            place: LogPlace::Folder {
                folder: folder.path().join("log"),
                key: folder.path().join("key"),
            },
        };
        table.block_on(async {
            add_time_index(&table.client, store.history_table()).await;
            table.store.claim_layout().await.unwrap();
            store.store_time_index_since(Some(ALWAYS)).await.unwrap();
            for table_of_log in [&settings.state, &settings.keys] {
                create_history(&table.client, table_of_log).await.unwrap();
            }
        });
        Self {
            settings,
            _folder: folder,
            store,
        }
    }

    pub(crate) fn write(&self, table: &Table, update: Value) {
        table.block_on(table::write(&self.store, update));
    }

    pub(crate) fn seal(&self, table: &Table) {
        table.block_on(async {
            let sealer = self.settings.sealer(&table.endpoint.config, &table.client);
            let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
            let sealer = sealer.await.unwrap();
            sealer.run(deadline, &mut Sealed::default()).await.unwrap();
        });
    }
}
