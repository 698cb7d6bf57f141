//! `vzero console`: history in the web browser.
//!
//! Data runs one way: a request → the guard → a view's query → the library → a view → HTML, or JSON where that is asked for.

mod app;
mod args;
mod as_of;
mod aside;
mod assets;
mod compare;
mod entities;
mod entity;
mod failures;
mod guard;
mod health;
mod hosts;
mod operations;
mod page;
mod query;
mod redrive;
mod repair;
mod restore;
mod secrets;
mod server;
mod time;
mod timeline;
mod value;
mod version;

use std::net::SocketAddr;

use shared::domain::keys::VersionDigits;

pub(crate) use self::args::{Console as Args, run};
use self::{app::App, hosts::Hosts, secrets::Secrets};
use crate::connection::Connection;

/// A console that serves until it is dropped.
#[derive(Debug)]
pub struct Console {
    address: SocketAddr,
    url: String,
    task: tokio::task::JoinHandle<()>,
}

/// A table, and where its failure documents are.
#[derive(Debug)]
pub struct Table<'a> {
    /// What reads it.
    pub client: &'a aws_sdk_dynamodb::Client,
    /// Credentials and Region of clients of other services.
    pub sdk: aws_config::SdkConfig,
    /// Where DynamoDB is.
    pub endpoint_url: &'a str,
    /// The name of the table.
    pub name: &'a str,
    /// The width of its version keys.
    pub digits: VersionDigits,
    /// A folder, or `s3://bucket`.
    pub failures: &'a str,
    /// Where S3 is, if not at AWS.
    pub s3_endpoint_url: Option<&'a str>,
}

impl Console {
    /// Serves what there is to be seen of a table, to this machine alone. It changes nothing.
    pub fn of_table(listener: std::net::TcpListener, table: Table<'_>) -> std::io::Result<Self> {
        let connection = Connection::of(table.client, table.sdk, table.endpoint_url, table.name, table.digits);
        let Ok(failures) = table.failures.parse();
        let mut app = App::new(connection, vec![failures]);
        app.services.s3_endpoint_url = table.s3_endpoint_url.map(str::to_owned);
        Self::serve(listener, app, Hosts::default())
    }

    fn serve(listener: std::net::TcpListener, app: App, hosts: Hosts) -> std::io::Result<Self> {
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let address = listener.local_addr()?;
        let url = format!("http://{}/?token={}", hosts.shown(address), app.secrets.token());
        let guard = guard::Guard::new(app.secrets.clone(), hosts, address.port());
        let router = server::router(app, guard);
        let task = tokio::spawn(async move {
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self { address, url, task })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What opens it: the address, and the token that lets in.
    pub fn url(&self) -> &str {
        &self.url
    }

    async fn ended(&mut self) {
        let _ = (&mut self.task).await;
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        self.task.abort();
    }
}
