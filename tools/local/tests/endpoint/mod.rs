//! Where the tables of the tests are: in an embedded DynamoDB for each test, or on the endpoint that `VZERO_TEST_ENDPOINT`
//! names.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::{
    collections::BTreeMap,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Mutex, OnceLock},
    time::Duration,
};

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_dynamodb::{Client, client::Waiters as _};
use local::dynamodb::{
    Embedded,
    endpoint::{self, Dynamodb},
    sdk_config,
};

/// How long a table may take to be there.
const PATIENCE: Duration = Duration::from_secs(120);

/// What answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Engine {
    Embedded,
    DynamodbLocal,
    MiniStack,
    Aws,
    Other,
}

/// A DynamoDB, and the tables that a test made on it, which go with this.
pub(crate) struct Endpoint {
    pub(crate) engine: Engine,
    pub(crate) config: SdkConfig,
    /// `None` is AWS's own.
    url: Option<String>,
    /// What tells its tables from those of other tests.
    own: String,
    tables: Mutex<Vec<String>>,
    _embedded: Option<Embedded>,
}

impl Endpoint {
    pub(crate) async fn open() -> Self {
        let (named, mut embedded) = (named(), None);
        let (engine, url) = match named.as_deref() {
            None => {
                let serving = Embedded::serve(TcpListener::bind("127.0.0.1:0").unwrap(), None).unwrap();
                let url = serving.endpoint().to_owned();
                embedded = Some(serving);
                (Engine::Embedded, Some(url))
            }
            Some(name) if is_aws(name) => (Engine::Aws, None),
            Some(url) => (asked(url), Some(url.to_owned())),
        };
        let config = match &url {
            Some(url) => sdk_config(url).await,
            None => aws(named.as_deref().unwrap_or_default()).await,
        };
        Self {
            engine,
            config,
            url,
            own: uuid::Uuid::new_v4().simple().to_string(),
            tables: Mutex::default(),
            _embedded: embedded,
        }
    }

    /// The name of a table of this test, which is deleted at its end.
    pub(crate) fn table(&self, name: &str) -> String {
        let name = self.named(name);
        self.tables.lock().unwrap().push(name.clone());
        name
    }

    /// The name of a table of this test.
    pub(crate) fn named(&self, name: &str) -> String {
        format!("vzero-test-{}-{name}", self.own)
    }

    /// Waits until a table can be used, which it can at once everywhere but on AWS.
    pub(crate) async fn is_there(&self, table: &str) {
        let waits = Client::new(&self.config).wait_until_table_exists().table_name(table);
        waits.wait(PATIENCE).await.unwrap();
    }

    /// The address, AWS's own as well.
    pub(crate) fn url(&self) -> String {
        let region = self.config.region().map(Region::as_ref).unwrap_or_default();
        let aws = || format!("https://dynamodb.{region}.amazonaws.com");
        self.url.clone().unwrap_or_else(aws)
    }

    /// Whether a test, or a part of it, rests on what this engine does otherwise than AWS, by these rows of
    /// `docs/conformance.md`. Says so. The embedded one is spared nothing.
    pub(crate) fn differs(&self, what: &str, rows: &[&str]) -> bool {
        if self.engine == Engine::Embedded {
            return false;
        }
        let (here, aws) = (documented(self.engine), documented(Engine::Aws));
        let row = rows.iter().find(|row| here[**row] != aws[**row]);
        if let Some(row) = row {
            say(&format!("left out: {what}: docs/conformance.md, {row}"));
        }
        row.is_some()
    }

    /// What a stack is started on.
    pub(crate) fn dynamodb(&self) -> Dynamodb {
        match &self.url {
            Some(url) => Dynamodb::At(url.clone()),
            None => Dynamodb::Aws(Box::new(self.config.clone())),
        }
    }

    /// What a command needs in its environment, and in front of its arguments, to reach it.
    pub(crate) async fn reached(&self) -> (Vec<(String, String)>, Vec<String>) {
        let Some(url) = &self.url else {
            return (endpoint::environment(&self.config).await.unwrap(), Vec::new());
        };
        (Vec::new(), vec!["--endpoint-url".to_owned(), url.clone()])
    }
}

impl Drop for Endpoint {
    /// Also where the test fails. A table that stays behind says so by its name.
    fn drop(&mut self) {
        let tables = std::mem::take(&mut *self.tables.lock().unwrap());
        if self.engine == Engine::Embedded || tables.is_empty() {
            return;
        }
        let config = self.config.clone();
        // A runtime of its own, with connections of its own: that of the test may be on its way out.
        let deleted = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let client = Client::new(&config);
                for table in tables {
                    if client.delete_table().table_name(&table).send().await.is_err() {
                        say(&format!("the table {table} was not deleted, if it was made"));
                    }
                }
            });
        });
        let _ = deleted.join();
    }
}

/// A column of the tables in `docs/conformance.md`: rows by their name.
pub(crate) fn documented(engine: Engine) -> BTreeMap<String, String> {
    let column = match engine {
        Engine::Embedded => 2,
        Engine::DynamodbLocal => 3,
        Engine::MiniStack => 4,
        Engine::Aws | Engine::Other => 5,
    };
    let page = include_str!("../../../../docs/conformance.md");
    // Not the commands above them, which have two columns.
    let is_row = |line: &&str| line.starts_with("| `") && line.matches('|').count() > 6;
    let rows = page.lines().filter(is_row);
    let cell = |cell: &str| cell.trim().trim_matches('`').to_owned();
    rows.map(|row| {
        let cells: Vec<_> = row.trim_matches('|').split('|').map(cell).collect();
        (cells[0].clone(), cells[column].clone())
    })
    .collect()
}

/// Whether this test is about the embedded DynamoDB, or the machine below it, and another one is asked for. Says so.
pub(crate) fn is_left_out(test: &str, why: &str) -> bool {
    let left_out = named().is_some();
    if left_out {
        say(&format!("left out: {test}: {why}"));
    }
    left_out
}

/// Past the test harness, which keeps what a test prints to itself where it passes.
pub(crate) fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

#[allow(clippy::disallowed_methods, reason = "the endpoint is what the environment hands in")]
fn named() -> Option<String> {
    std::env::var("VZERO_TEST_ENDPOINT")
        .ok()
        .filter(|name| !name.is_empty())
}

fn is_aws(name: &str) -> bool {
    let host = name.trim_end_matches('/');
    name == "aws" || host.ends_with(".amazonaws.com") || host.ends_with(".amazonaws.com.cn")
}

/// Credentials of the usual chain. The Region of the address goes before the usual one.
async fn aws(name: &str) -> SdkConfig {
    let mut loader = aws_config::defaults(BehaviorVersion::v2026_01_12())
        .timeout_config(shared::dynamodb::client::timeouts())
        .retry_config(shared::dynamodb::client::retries());
    let region = name
        .split_once("://dynamodb.")
        .and_then(|(_, rest)| rest.split_once('.'));
    if let Some((region, _)) = region {
        loader = loader.region(Region::new(region.to_owned()));
    }
    let config = loader.load().await;
    let known = endpoint::environment(&config).await.is_ok();
    assert!(known && config.region().is_some(), "AWS needs credentials and a Region");
    config
}

/// Who serves there, as what it answers to a plain GET shows.
fn asked(url: &str) -> Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    *ENGINE.get_or_init(|| {
        let address = url.strip_prefix("http://").unwrap_or_default().trim_end_matches('/');
        let get = |path: &str| -> std::io::Result<String> {
            let mut stream = TcpStream::connect(address)?;
            stream.set_read_timeout(Some(Duration::from_secs(10)))?;
            write!(
                stream,
                "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
            )?;
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer)?;
            Ok(String::from_utf8_lossy(&answer).to_lowercase())
        };
        let health = get("/_ministack/health").unwrap_or_default();
        match (health.starts_with("http/1.1 200"), health.contains("server: jetty")) {
            (true, _) => Engine::MiniStack,
            (_, true) => Engine::DynamodbLocal,
            _ => Engine::Other,
        }
    })
}
