//! A console in the process of a test.

use std::{net::TcpListener, time::Duration};

use history_console::{Console, Options};
use operations::connection::Connection;
use shared::{config::WriteMode, dynamodb::Store};
use testkit::{database, vzero::Vzero};

/// Serves a table, with this token or a random one.
pub(crate) fn serve(vzero: &Vzero, store: &Store, token: Option<&str>, allows_writes: bool) -> Console {
    let _runtime = vzero.runtime.enter();
    let (config, table) = (&vzero.endpoint.config, store.latest_table());
    let endpoint_url = config.endpoint_url().unwrap_or_default();
    let mut connection = Connection::new(&vzero.client, config.clone(), endpoint_url, table, store.digits())
        .with_history(store.own_history().map(str::to_owned));
    if let Some(table) = store.attached_table() {
        connection = connection.attached(table.clone());
    }
    let options = Options {
        token: token.map(str::to_owned),
        writes: allows_writes.then(|| database::mode(WriteMode::Inline)),
        lag: Duration::ZERO,
        ..Options::default()
    };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    Console::serve(listener, connection, options).unwrap()
}
