//! The history browser: the history of a table in the web browser.
//!
//! ```text
//! request ─▶ guard ─▶ query parameters ─▶ library ─▶ view ─▶ HTML, or JSON if the request accepts only that
//! ```
//!
//! `vzero console` starts it for one table, and the local stack serves it. The other tables of the endpoint with a history are in its
//! menu; a parameter of each address names the table. It reads through `shared` and `operations`; without write
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
mod blame;
mod changes;
mod compare;
mod connections;
mod current;
mod diff;
mod entities;
mod entity;
mod error;
mod guard;
mod health;
pub mod hosts;
mod job;
mod lock;
mod menu;
mod options;
mod page;
mod quarantine;
mod query;
mod record;
mod report;
mod restore;
mod seal;
mod secrets;
mod server;
mod summary;
mod tables;
mod time;
mod timeline;
mod value;
mod version;

use std::{
    net::{SocketAddr, TcpListener},
    sync::Arc,
};

use operations::connection::Connection;

pub use self::options::Options;
use self::{app::App, current::Current, guard::Guard, menu::Menu, secrets::Secrets, tables::Tables};

/// A console that serves until it is dropped.
#[allow(missing_debug_implementations, reason = "it has secrets")]
pub struct Console {
    address: SocketAddr,
    /// `http://` and the host.
    origin: String,
    url: String,
    secrets: Arc<Secrets>,
    task: tokio::task::JoinHandle<()>,
}

impl Console {
    pub fn serve(listener: TcpListener, connection: Connection, mut options: Options) -> std::io::Result<Self> {
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let address = listener.local_addr()?;
        let secrets = Arc::new(Secrets::new(options.token.take()));
        let origin = format!("http://{}", options.hosts.authority(address));
        let url = format!("{origin}/?token={}", secrets.token.as_str());
        let guard = Guard::new(Arc::clone(&secrets), options.hosts.clone(), address.port());
        let app = App {
            menu: Arc::new(Menu::new(&connection)),
            current: Arc::new(Current::of(&connection.store, None)),
            connection,
            secrets: Arc::clone(&secrets),
            options: Arc::new(options),
            audit: health::audit::Audit::default(),
            changes: changes::plan::Changes::default(),
        };
        let router = server::router(Tables::new(app), guard);
        let task = tokio::spawn(connections::serve(listener, router));
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
