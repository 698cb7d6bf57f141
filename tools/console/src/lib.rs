//! The history browser: the history of a table in the web browser.
//!
//! ```text
//! request ─▶ guard ─▶ query parameters ─▶ library ─▶ view ─▶ HTML, or JSON if the request accepts only that
//! ```
//!
//! `vzero console` starts it, and the local stack serves it. It reads through `shared` and `operations`; without write
//! options it changes nothing. The package is called `history-console`, because the published crate `console` is
//! used for terminals.

#![allow(
    missing_docs,
    reason = "an internal crate: comments are where a name does not say enough"
)]

mod address;
mod app;
mod as_of;
mod assets;
mod background;
mod compare;
mod connections;
mod entities;
mod entity;
mod error;
mod guard;
mod health;
pub mod hosts;
mod page;
mod quarantine;
mod query;
mod record;
mod restore;
mod secrets;
mod server;
mod summary;
mod time;
mod timeline;
mod value;
mod version;

use std::{
    fmt,
    net::{IpAddr, SocketAddr, TcpListener},
    num::NonZeroU32,
    sync::Arc,
    time::Duration,
};

use operations::connection::Connection;
use shared::{
    config::{Ordering, WriteOptions},
    domain::keys::VersionDigits,
};

use self::{app::App, connections::Limits, guard::Guard, hosts::Hosts, secrets::Secrets};

/// Default time in which a missing version may still arrive.
const LAG: Duration = Duration::from_secs(60);

/// A console that serves until it is dropped.
pub struct Console {
    address: SocketAddr,
    /// `http://` and the host.
    origin: String,
    url: String,
    secrets: Arc<Secrets>,
    task: tokio::task::JoinHandle<()>,
}

#[derive(Debug)]
pub struct Options {
    /// Access token. Default: a random one.
    pub token: Option<String>,
    /// Options of writes, or `None` for a read-only console.
    pub writes: Option<WriteOptions>,
    pub ordering: Ordering,
    /// Time in which a missing version may still arrive.
    pub lag: Duration,
    /// Maximum number of read units a second of an audit.
    pub max_read_units: Option<NonZeroU32>,
    /// Address that other machines connect to. Default: only this machine can connect.
    pub bind: Option<IpAddr>,
    pub hosts: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            token: None,
            writes: None,
            ordering: Ordering::default(),
            lag: LAG,
            max_read_units: None,
            bind: None,
            hosts: Vec::new(),
        }
    }
}

/// A table, and the location of its failure documents.
#[derive(Debug)]
pub struct Table<'a> {
    pub client: &'a aws_sdk_dynamodb::Client,
    /// Credentials and Region for clients of other services.
    pub sdk: aws_config::SdkConfig,
    pub endpoint_url: &'a str,
    pub name: &'a str,
    pub digits: VersionDigits,
    /// Table of history if it is not the table itself.
    pub history: Option<String>,
}

impl fmt::Debug for Console {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the secrets.
        f.debug_struct("Console")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl Console {
    /// Serves a table, read-only and only to this machine.
    pub fn of_table(listener: TcpListener, table: Table<'_>) -> std::io::Result<Self> {
        let connection = Connection::new(table.client, table.sdk, table.endpoint_url, table.name, table.digits)
            .with_history(table.history);
        Self::serve(listener, connection, Options::default())
    }

    pub fn serve(listener: TcpListener, connection: Connection, options: Options) -> std::io::Result<Self> {
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let address = listener.local_addr()?;
        let secrets = Arc::new(Secrets::new(options.token));
        let hosts = Hosts {
            bind: options.bind,
            names: options.hosts,
        };
        let origin = format!("http://{}", hosts.authority(address));
        let url = format!("{origin}/?token={}", secrets.token.as_str());
        let guard = Guard::new(Arc::clone(&secrets), hosts, address.port());
        let app = App {
            connection,
            secrets: Arc::clone(&secrets),
            writes: options.writes,
            lag: options.lag,
            max_read_units: options.max_read_units,
            ordering: options.ordering,
            audit: health::audit::Audit::default(),
        };
        let router = server::router(app, guard);
        let task = tokio::spawn(connections::serve(listener, router, Limits::default()));
        Ok(Self {
            address,
            origin,
            url,
            secrets,
            task,
        })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL with the access token, for the operator. It is not for the arguments of a command: other users can
    /// read these in the process list.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns a URL that signs in once, within a minute, for the command that opens the web browser. The next call makes it
    /// invalid.
    pub fn single_use_url(&self) -> String {
        format!("{}/?token={}", self.origin, self.secrets.single_use())
    }

    /// Waits until the server ends.
    pub async fn ended(&mut self) {
        let _ = (&mut self.task).await;
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        self.task.abort();
    }
}
