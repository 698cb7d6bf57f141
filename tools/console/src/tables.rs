//! The tables of a console: the one that it was started for, and others, which are opened when a request names them.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use operations::tables::{self, Kind};

use super::{app::App, changes::plan::Changes, current::Current, health::audit::Audit};
use crate::{error::PageError, lock::lock};

pub(super) struct Tables {
    pub(super) first: Arc<App>,
    others: Mutex<HashMap<String, Arc<App>>>,
}

impl Tables {
    pub(super) fn new(first: App) -> Self {
        Self {
            first: Arc::new(first),
            others: Mutex::default(),
        }
    }

    /// Returns the table of a request, and opens it if necessary.
    pub(super) async fn app(&self, name: Option<&str>) -> Result<Arc<App>, PageError> {
        let first = &self.first;
        let Some(name) = name.filter(|name| *name != first.menu.first.0) else {
            return Ok(Arc::clone(first));
        };
        if let Some(app) = lock(&self.others).get(name) {
            return Ok(Arc::clone(app));
        }
        let listed = first.menu.listed();
        let history = listed.iter().find_map(|(listed, kind)| match kind {
            Kind::Attached(table) if listed == name => Some(table.history_table()),
            _ => None,
        });
        let mut connection = first.connection.clone();
        let store = tables::open(&connection.client, name, history).await?;
        let (compression, clock) = (connection.store.compression(), connection.store.clock().clone());
        connection.store = store.with_compression(compression).with_clock(clock);
        name.clone_into(&mut connection.table);
        let app = Arc::new(App {
            current: Arc::new(Current::of(&connection.store, Some(name))),
            connection,
            secrets: Arc::clone(&first.secrets),
            options: Arc::clone(&first.options),
            menu: Arc::clone(&first.menu),
            audit: Audit::default(),
            changes: Changes::default(),
        });
        Ok(Arc::clone(lock(&self.others).entry(name.to_owned()).or_insert(app)))
    }
}
