//! A console in the process of a test.

use std::{net::TcpListener, time::Duration};

use history_console::{Console, Options};
use operations::connection::Connection;
use shared::config::WriteMode;
use testkit::{database, table::Table};

/// Serves a table, with this token or a random one.
pub(crate) fn serve(table: &Table, token: Option<&str>, allows_writes: bool) -> Console {
    let _runtime = table.runtime.enter();
    let (config, store) = (&table.endpoint.config, &table.store);
    let endpoint_url = config.endpoint_url().unwrap_or_default();
    let connection = Connection::new(&table.client, config.clone(), endpoint_url, &table.name, store.digits())
        .with_history(store.own_history().map(str::to_owned));
    let options = Options {
        token: token.map(str::to_owned),
        writes: allows_writes.then(|| database::mode(WriteMode::Inline)),
        lag: Duration::ZERO,
        ..Options::default()
    };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    Console::serve(listener, connection, options).unwrap()
}
