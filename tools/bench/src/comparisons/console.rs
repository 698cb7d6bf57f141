//! Pages of `vzero console`: number of requests, size and time, for an entity with 1,000,000 versions and for a table with 100,000 entities.

use std::{
    io::{self, Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    time::Instant,
};

use history_console::{Console, Table};
use local::dynamodb::sdk_config;
use shared::domain::{entity::EntityId, keys::VersionDigits};

use crate::{
    engine::Engine,
    error::{BenchError, cannot},
    figure::{Figure, Target, median, millis},
    harness::{Bench, Measured},
    seed,
};

const ID: &str = "Equipment#1";
/// Versions of each entity in the table of many entities.
const FEW_VERSIONS: u64 = 1;
/// Maximum number of requests of the first page of all entities, and of a search that finds enough of them, and maximum of its size in kB.
const MAX_LIST: (f64, f64) = (20.0, 100.0);
/// Maximum time of a search that finds nothing, in milliseconds: it ends after 3 seconds, and a request that has started then.
const MAX_SEARCH: f64 = 4_000.0;

/// A page, the text that its body contains, and its targets.
struct Page {
    name: &'static str,
    address: &'static str,
    contains: String,
    max_requests: Option<f64>,
    max_kilobytes: Option<f64>,
    max_millis: Option<f64>,
}

pub(super) async fn measure(bench: &Bench) -> Result<Measured, BenchError> {
    let mut figures = Vec::new();
    let versions = bench.size(1_000_000, 1_000);
    for digits in [1, 10] {
        let digits = VersionDigits::new(digits).unwrap_or_default();
        let page = Page {
            name: "first page of an entity",
            address: "/entity?id=Equipment%231",
            contains: format!("of {versions}</h2>"),
            max_requests: Some(4.0),
            max_kilobytes: Some(100.0),
            max_millis: None,
        };
        let table = format!("{versions} versions, width {digits}");
        bench.progress.show(&format!("console: {table}"));
        let entity = EntityId::new(ID).map_err(cannot("use the ID of the entity"))?;
        let items = seed::items(entity, digits, versions);
        figures.extend(pages(bench, digits, items, &[page], &table).await?);
    }
    let entities = bench.size(100_000, 1_000);
    let table = format!("{entities} entities");
    bench.progress.show(&format!("console: {table}"));
    let digits = VersionDigits::default();
    let all = (0..entities).flat_map(move |index| {
        let entity = EntityId::new(format!("Equipment#{index}")).into_iter();
        entity.flat_map(move |entity| seed::items(entity, digits, FEW_VERSIONS))
    });
    figures.extend(pages(bench, digits, all, &lists(), &table).await?);
    Ok(figures.into())
}

/// Returns the pages of the table with many entities.
fn lists() -> [Page; 4] {
    let list = |name, address, contains: &str| Page {
        name,
        address,
        contains: contains.to_owned(),
        max_requests: Some(MAX_LIST.0),
        max_kilobytes: Some(MAX_LIST.1),
        max_millis: None,
    };
    [
        list("entities", "/", "Equipment#"),
        list("search for a part of many keys", "/?find=ment%23", "Equipment#"),
        Page {
            // The number of requests depends on the speed of the engine.
            max_requests: None,
            max_millis: Some(MAX_SEARCH),
            ..list("search without a result", "/?find=Pump", "Pump")
        },
        list("health", "/health", "<html"),
    ]
}

/// Measures the pages of a table with these items.
async fn pages(
    bench: &Bench,
    digits: VersionDigits,
    items: impl Iterator<Item = seed::SeedItem>,
    pages: &[Page],
    table: &str,
) -> Result<Vec<Figure>, BenchError> {
    let engine = Engine::start().await?;
    let name = "Console";
    engine.create(name, digits).await?;
    engine.import(name, items).await?;
    let console = Console::of_table(
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?,
        Table {
            client: &engine.client,
            sdk: sdk_config(engine.endpoint()).await,
            endpoint_url: engine.endpoint(),
            name,
            digits,
            history: None,
            failures: "none",
        },
    )?;
    let token = console.url().rsplit_once('=').map_or("", |(_, token)| token);
    let mut figures = Vec::new();
    for page in pages {
        bench.progress.show(&format!("console: {}", page.name));
        // A search without a result takes seconds.
        let rounds = match page.max_millis {
            Some(_) => 1,
            None => bench.size(50, 10),
        };
        figures.extend(measured(&engine, console.address(), token, page, (rounds, table)).await?);
    }
    Ok(figures)
}

/// Requests a page some times. Returns its maximum number of requests and size, and the median of its time.
async fn measured(
    engine: &Engine,
    address: SocketAddr,
    token: &str,
    page: &Page,
    (rounds, table): (u32, &str),
) -> Result<Vec<Figure>, BenchError> {
    let (mut requests, mut kilobytes, mut times) = (0.0_f64, 0.0_f64, Vec::new());
    for _ in 0..rounds {
        let (path, token, before) = (page.address, token.to_owned(), engine.requests());
        let began = Instant::now();
        let body = tokio::task::spawn_blocking(move || get(address, path, &token));
        let body = body.await.map_err(cannot("join the request"))??;
        times.push(millis(began.elapsed()));
        #[allow(clippy::cast_precision_loss, reason = "a page")]
        let (sent, size) = ((engine.requests() - before) as f64, body.len() as f64 / 1000.0);
        (requests, kilobytes) = (requests.max(sent), kilobytes.max(size));
        if !body.starts_with("HTTP/1.1 200") || !body.contains(&page.contains) {
            return Err(BenchError::UnexpectedResult(body.chars().take(200).collect()));
        }
    }
    let figure = |unit: &str, value, max: Option<f64>| Figure {
        target: max.map(Target::AtMost),
        ..Figure::new(format!("{unit}, {table}"), value)
    };
    let name = page.name;
    Ok(vec![
        figure(&format!("requests, {name}, at most"), requests, page.max_requests),
        figure(&format!("kB, {name}, at most"), kilobytes, page.max_kilobytes),
        figure(&format!("ms, {name}, p50"), median(&times), page.max_millis),
    ])
}

fn get(address: SocketAddr, path: &str, token: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
    )?;
    let mut page = String::new();
    stream.read_to_string(&mut page)?;
    Ok(page)
}
