//! The DynamoDB of a test: an embedded one of its own, or the endpoint that `VZERO_TEST_ENDPOINT` names.
//!
//! With `VZERO_TEST_HISTORY=own`, each versioned table has a history table.
//!
//! Tests share the tables of a named endpoint's account. So each test gives its tables unique names, and deletes them at its end.

use std::{
    collections::BTreeMap,
    io::{Read as _, Write as _},
    net::TcpListener,
    sync::{Mutex, OnceLock},
    time::Duration,
};

use aws_config::{Region, SdkConfig};
use aws_sdk_dynamodb::{Client, client::Waiters as _};
pub use local::dynamodb::sdk_config;
use local::dynamodb::{
    Embedded,
    endpoint::{self, Dynamodb},
};

use shared::dynamodb::client::sdk_defaults;

use crate::{http, pages};

const TABLE_TIMEOUT: Duration = Duration::from_secs(120);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    Embedded,
    DynamodbLocal,
    MiniStack,
    Aws,
    /// Any other; the tests expect AWS's behaviour.
    Other,
}

/// A DynamoDB, and the tables of a test, which are deleted when this value is dropped.
pub struct Endpoint {
    pub engine: Engine,
    pub config: SdkConfig,
    /// `None` on AWS.
    url: Option<String>,
    /// Part of the table names, different for each test.
    id: String,
    tables: Mutex<Vec<String>>,
    _embedded: Option<Embedded>,
}

impl Endpoint {
    /// Starts an embedded DynamoDB, unless `VZERO_TEST_ENDPOINT` names another one.
    pub async fn open() -> Self {
        let (named, mut embedded) = (named(), None);
        let (engine, url) = match named.as_deref() {
            None => {
                let serving = Embedded::serve(TcpListener::bind("127.0.0.1:0").unwrap(), None).unwrap();
                // The public port is not needed: it only adds a check of each request.
                let url = serving.direct_endpoint().to_owned();
                embedded = Some(serving);
                (Engine::Embedded, Some(url))
            }
            Some(name) if is_aws(name) => (Engine::Aws, None),
            Some(url) => (detect(url), Some(url.to_owned())),
        };
        let config = match &url {
            Some(url) => sdk_config(url).await,
            None => aws(named.as_deref().unwrap_or_default()).await,
        };
        Self {
            engine,
            config,
            url,
            id: uuid::Uuid::new_v4().simple().to_string(),
            tables: Mutex::default(),
            _embedded: embedded,
        }
    }

    /// Returns the unique name of a table, and deletes that table at the end of the test.
    pub fn table(&self, name: &str) -> String {
        let name = self.table_name(name);
        self.tables.lock().unwrap().push(name.clone());
        name
    }

    pub fn table_name(&self, name: &str) -> String {
        format!("vzero-test-{}-{name}", self.id)
    }

    /// Waits until a table is active. Only on AWS does that take time.
    pub async fn wait_until_active(&self, table: &str) {
        let waiter = Client::new(&self.config).wait_until_table_exists().table_name(table);
        waiter.wait(TABLE_TIMEOUT).await.unwrap();
    }

    pub fn url(&self) -> String {
        let region = self.config.region().map(Region::as_ref).unwrap_or_default();
        let aws = || format!("https://dynamodb.{region}.amazonaws.com");
        self.url.clone().unwrap_or_else(aws)
    }

    /// Returns `true`, and prints it, if this engine differs from AWS in one of these rows of `docs/conformance.md`, so that the test skips something.
    /// On the embedded engine, no test is skipped.
    pub fn differs(&self, rows: &[&str]) -> bool {
        if self.engine == Engine::Embedded {
            return false;
        }
        let (here, aws) = (documented(self.engine), documented(Engine::Aws));
        let row = rows.iter().find(|row| here[**row] != aws[**row]);
        skipped(row.map(|row| format!("docs/conformance.md, {row}")))
    }

    pub fn dynamodb(&self) -> Dynamodb {
        match &self.url {
            Some(url) => Dynamodb::At(url.clone()),
            None => Dynamodb::Aws(Box::new(self.config.clone())),
        }
    }

    /// Returns the environment variables and the first arguments of a command that uses this endpoint.
    pub async fn command_options(&self) -> (Vec<(String, String)>, Vec<String>) {
        let Some(url) = &self.url else {
            return (endpoint::environment(&self.config).await.unwrap(), Vec::new());
        };
        (Vec::new(), vec!["--endpoint-url".to_owned(), url.clone()])
    }
}

impl Drop for Endpoint {
    /// Deletes the tables, also after a failure of the test.
    fn drop(&mut self) {
        let tables = std::mem::take(&mut *self.tables.lock().unwrap());
        if self.engine == Engine::Embedded || tables.is_empty() {
            return;
        }
        let config = self.config.clone();
        // The runtime of the test may be shutting down, so this needs its own.
        let deleted = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let client = Client::new(&config);
                for table in tables {
                    if client.delete_table().table_name(&table).send().await.is_err() {
                        print(&format!("the table {table} was not deleted"));
                    }
                }
            });
        });
        let _ = deleted.join();
    }
}

/// Returns the behaviour of an engine, by row of `docs/conformance.md`.
pub fn documented(engine: Engine) -> BTreeMap<String, String> {
    pages::conformance(match engine {
        Engine::Embedded => 2,
        Engine::DynamodbLocal => 3,
        Engine::MiniStack => 4,
        Engine::Aws | Engine::Other => 5,
    })
}

/// Returns `true`, and prints the reason, if a test that needs the embedded engine has to be skipped because another one is named.
pub fn is_skipped(reason: &str) -> bool {
    skipped(named().map(|_| reason.to_owned()))
}

/// Returns `true`, and prints it, if tables have their own history, so that the test skips something: it is about items beside versions
/// in one table, or puts such items itself.
pub fn is_about_one_table() -> bool {
    let reason = "history has its own table";
    skipped(has_own_history().then(|| reason.to_owned()))
}

/// Returns `true`, and prints it with the name of the test, which is that of its thread, if there is a reason to skip something.
fn skipped(reason: Option<String>) -> bool {
    if let Some(reason) = &reason {
        let test = std::thread::current().name().unwrap_or_default().to_owned();
        print(&format!("skipped: {test}: {reason}"));
    }
    reason.is_some()
}

/// Prints a line to standard error. The test harness captures only what `eprintln!` prints.
fn print(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Returns `true` if the tests use tables whose history is in a table of its own.
#[allow(clippy::disallowed_methods, reason = "the layout is a parameter of the tests")]
pub fn has_own_history() -> bool {
    std::env::var("VZERO_TEST_HISTORY").is_ok_and(|history| history == "own")
}

#[allow(clippy::disallowed_methods, reason = "the endpoint is a parameter of the tests")]
fn named() -> Option<String> {
    std::env::var("VZERO_TEST_ENDPOINT")
        .ok()
        .filter(|name| !name.is_empty())
}

fn is_aws(name: &str) -> bool {
    let host = name.trim_end_matches('/');
    name == "aws" || host.ends_with(".amazonaws.com") || host.ends_with(".amazonaws.com.cn")
}

/// Configuration from the default credential chain, in the Region of the URL or the default one.
async fn aws(name: &str) -> SdkConfig {
    let mut loader = sdk_defaults();
    let region = name
        .split_once("://dynamodb.")
        .and_then(|(_, rest)| rest.split_once('.'));
    if let Some((region, _)) = region {
        loader = loader.region(Region::new(region.to_owned()));
    }
    let config = loader.load().await;
    let has_credentials = endpoint::environment(&config).await.is_ok();
    assert!(
        has_credentials && config.region().is_some(),
        "AWS needs credentials and a Region"
    );
    config
}

/// Detects the engine by its response to a GET request.
fn detect(url: &str) -> Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    *ENGINE.get_or_init(|| {
        let get = |path: &str| -> std::io::Result<String> {
            let mut stream = http::connect(url)?;
            stream.set_read_timeout(Some(Duration::from_secs(10)))?;
            write!(
                stream,
                "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
            )?;
            let mut response = Vec::new();
            stream.read_to_end(&mut response)?;
            Ok(String::from_utf8_lossy(&response).to_lowercase())
        };
        let health = get("/_ministack/health").unwrap_or_default();
        match (health.starts_with("http/1.1 200"), health.contains("server: jetty")) {
            (true, _) => Engine::MiniStack,
            (_, true) => Engine::DynamodbLocal,
            _ => Engine::Other,
        }
    })
}
