//! The first page of an entity with 100,000 versions in `vzero console`: number of requests, size and time.

use std::{
    io::{self, Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    time::Instant,
};

use history_console::{Console, Table};
use local::dynamodb::sdk_config;
use shared::domain::{entity::EntityId, keys::VersionDigits};

use crate::{
    error::{BenchError, cannot},
    figure::{Figure, Target, median, millis},
    harness::{Bench, Measured},
    seed,
    tables::Tables,
};

const ID: &str = "Equipment#1";

pub(super) async fn measure(bench: &Bench) -> Result<Measured, BenchError> {
    let mut figures = Vec::new();
    for digits in [1, 10] {
        // A separate DynamoDB Local: with two such histories it is too slow.
        let Some(tables) = Tables::start(&bench.progress).await? else {
            break;
        };
        figures.extend(page(bench, &tables, digits, bench.size(100_000, 1_000)).await?);
    }
    Ok(figures.into())
}

/// Measures the page with version keys of this width.
async fn page(bench: &Bench, tables: &Tables, digits: u8, versions: u64) -> Result<Vec<Figure>, BenchError> {
    let name = format!("Console{digits}");
    let digits = VersionDigits::new(digits).unwrap_or_default();
    let store = tables.create(&name, digits).await?;
    bench.progress.show(&format!("console: writing {versions} versions"));
    let entity = EntityId::new(ID).map_err(cannot("use the ID of the entity"))?;
    seed::history(&tables.client, &name, &store, &entity, versions).await?;
    let console = Console::of_table(
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?,
        Table {
            client: &tables.client,
            sdk: sdk_config(tables.endpoint()).await,
            endpoint_url: tables.endpoint(),
            name: &name,
            digits,
            history: None,
            failures: "none",
            s3_endpoint_url: None,
        },
    )?;
    let token = console.url().rsplit_once('=').map_or("", |(_, token)| token);
    bench.progress.show("console: the first page");
    let (mut requests, mut bytes, mut times) = (0.0_f64, 0.0_f64, Vec::new());
    for _ in 0..bench.size(100, 10) {
        tables.requests.take();
        let (address, token) = (console.address(), token.to_owned());
        let began = Instant::now();
        let page = tokio::task::spawn_blocking(move || get(address, "/entity?id=Equipment%231", &token));
        let page = page.await.map_err(cannot("join the request"))??;
        times.push(millis(began.elapsed()));
        requests = requests.max(f64::from(tables.requests.take().0));
        #[allow(clippy::cast_precision_loss, reason = "a page")]
        let size = page.len() as f64 / 1000.0;
        bytes = bytes.max(size);
        if !page.starts_with("HTTP/1.1 200") || !page.contains(&format!("of {versions}</h2>")) {
            return Err(BenchError::UnexpectedResult(page.chars().take(200).collect()));
        }
    }
    let figure = |unit: &str, value| Figure::new(format!("{unit}, {versions} versions, width {digits}"), value);
    Ok(vec![
        figure("requests, first page of an entity, at most", requests).with_target(Target::AtMost(4.0)),
        figure("kB, first page of an entity, at most", bytes).with_target(Target::AtMost(100.0)),
        figure("ms, first page of an entity, p50", median(&times)),
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
