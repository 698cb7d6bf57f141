//! Reads and an update of an entity with 10, 1,000 and 100,000 versions: number of requests and time.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use aws_sdk_dynamodb::types::{AttributeValue, PutRequest, WriteRequest};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use operations::{
    as_of::as_of,
    read::history::{History, HistoryQuery},
};
use serde_json::json;
use shared::{
    config::WriteOptions,
    domain::{
        entity::EntityId,
        keys::{LATEST_KEY, VersionDigits},
        names,
        recorded_at::RecordedAt,
        version::Version,
    },
    dynamodb::Store,
};

use crate::{
    error::{BenchError, cannot},
    figure::{Figure, Measured, Plot, Target, median, millis},
    harness::Bench,
    print_error,
    tables::{Tables, write},
};

const TABLE: &str = "Growth";
const PAGE_SIZE: usize = 50;
/// Maximum ratio of the time of a request with the longest history to that with a short one.
const MAX_RATIO: f64 = 1.3;
/// Time before the first version, as seconds since the Unix epoch.
const START: u64 = 1_604_260_800;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Latest,
    Version,
    Page,
    AsOf,
    Update,
}

/// The operations by their names. The update is last, because it adds no version item to the histories.
const OPERATIONS: [(&str, Operation); 5] = [
    ("latest", Operation::Latest),
    ("by number", Operation::Version),
    ("page of 50", Operation::Page),
    ("as of a time", Operation::AsOf),
    ("update", Operation::Update),
];

impl Operation {
    /// Runs the operation once, on version `at` of `versions`. An update uses `at` for its request ID. Returns `true` if it finds the version.
    async fn run(self, store: &Store, versions: u64, at: u64) -> Result<bool, BenchError> {
        let entity = entity(versions)?;
        let failed = cannot("read a version");
        let number = Version::new(at).unwrap_or(Version::FIRST);
        Ok(match self {
            Self::Latest => store.latest(&entity, true).await.map_err(failed)?.is_some(),
            Self::Version => store.version(&entity, number, true).await.map_err(failed)?.is_some(),
            Self::Page => {
                let query = HistoryQuery {
                    to: Version::new(versions),
                    limit: Some(PAGE_SIZE),
                    consistent: true,
                    ..HistoryQuery::default()
                };
                match History::read(store, &entity, query).await.map_err(&failed)? {
                    Some(mut history) => history.next_page().await.map_err(failed)?.is_some(),
                    None => false,
                }
            }
            Self::AsOf => {
                let found = as_of(store, &entity, recorded_at(at), true).await.map_err(failed)?;
                found.is_some_and(|view| view.version == number)
            }
            Self::Update => {
                let update = json!({"ID": entity.as_str(), "State": "WARNING1"});
                write(store, update, &format!("update-{at}"), WriteOptions::default()).await?;
                true
            }
        })
    }

    /// Returns the number of requests: the maximum of a read, or the median of an update: every ninth update takes a second request, with any history.
    fn requests(self, name: &str, versions: u64, runs: &[Run]) -> Figure {
        let requests = runs.iter().map(|run| run.requests);
        let (kind, figure) = match self {
            Self::Update => ("p50", median(requests)),
            _ => ("at most", requests.fold(0.0, f64::max)),
        };
        let max = match self {
            Self::AsOf => ((float(versions).log2() + 2.0) * 100.0).floor() / 100.0,
            _ => 1.0,
        };
        let unit = format!("requests, {name}, {versions} versions, {kind}");
        Figure::new(unit, figure).with_target(Target::AtMost(max))
    }

    /// Returns the median time in milliseconds. A read as of a time takes more requests in a longer history, so its time is that of one request.
    fn time(self, runs: &[Run]) -> f64 {
        let requests = |run: &Run| if self == Self::AsOf { run.requests } else { 1.0 };
        median(runs.iter().map(|run| run.millis / requests(run)))
    }
}

struct Run {
    requests: f64,
    millis: f64,
}

pub(super) async fn measure(bench: &Bench) -> Result<Measured, BenchError> {
    let mut figures = Vec::new();
    let Some(tables) = Tables::start().await? else {
        return Ok(figures.into());
    };
    let sizes: [u64; 3] = bench.size([10, 1_000, 100_000], [10, 100, 1_000]);
    let store = tables.create(TABLE, VersionDigits::new(10).unwrap_or_default()).await?;
    for versions in sizes {
        print_error(&format!("growth: writing {versions} versions"));
        put_history(&tables, &store, &entity(versions)?, versions).await?;
    }
    let rounds: u64 = bench.size(300, 20);
    let mut series = Vec::new();
    for (name, operation) in OPERATIONS {
        print_error(&format!("growth: {name}"));
        let mut runs = sizes.map(|_| Vec::new());
        for round in 0..rounds {
            for (versions, runs) in sizes.iter().zip(&mut runs) {
                // Different places in the history, but not its newest version, which is also the latest item.
                let at = match operation {
                    Operation::Update => round,
                    _ => 1 + round * 7_919 % (versions - 1),
                };
                tables.requests.take();
                let began = Instant::now();
                if !operation.run(&store, *versions, at).await? {
                    return Err(BenchError::Failed(format!("{name}: not found in {versions} versions")));
                }
                runs.push(Run {
                    millis: millis(began.elapsed()),
                    requests: tables.requests.take().started.into(),
                });
            }
        }
        let times = runs.each_ref().map(|runs| operation.time(runs));
        let requests = sizes
            .iter()
            .zip(&runs)
            .map(|(versions, runs)| operation.requests(name, *versions, runs));
        figures.extend(requests);
        // The shortest history has no full page.
        let base = usize::from(operation == Operation::Page);
        let unit = if operation == Operation::AsOf {
            "ms a request"
        } else {
            "ms"
        };
        figures.push(
            Figure::new(format!("{unit}, {name}, {} versions, p50", sizes[2]), times[2])
                .compared_with(format!("{} versions", sizes[base]), times[base])
                .with_target(Target::RatioAtMost(MAX_RATIO)),
        );
        let points = sizes.iter().zip(times).map(|(versions, time)| (float(*versions), time));
        series.push((name.to_owned(), points.collect()));
    }
    let plot = Plot::Lines {
        x: "versions",
        y: "ms, of a time: a request",
        series,
    };
    Ok(Measured { figures, plot })
}

fn entity(versions: u64) -> Result<EntityId, BenchError> {
    EntityId::new(format!("Equipment#{versions}")).map_err(cannot("use the ID of the entity"))
}

/// Returns the time of a version: one second after the previous version.
fn recorded_at(version: u64) -> RecordedAt {
    RecordedAt::since_epoch(Duration::from_secs(START + version))
}

#[allow(clippy::cast_precision_loss, reason = "up to 100,000")]
fn float(versions: u64) -> f64 {
    versions as f64
}

/// Puts the latest item of an entity and all its version items in batches, which is faster than writing updates.
async fn put_history(tables: &Tables, store: &Store, entity: &EntityId, versions: u64) -> Result<(), BenchError> {
    let item = |version: u64, sort_key: String| {
        let attributes = [
            (names::PK, entity.as_str().to_owned()),
            (names::SK, sort_key),
            (names::RECORDED_AT, recorded_at(version).to_string()),
            (names::REQUEST_ID, format!("seed-{version}")),
            ("State", "x".repeat(200)),
        ];
        let attributes = attributes.map(|(name, value)| (name.to_owned(), AttributeValue::S(value)));
        HashMap::from(attributes)
    };
    let mut latest = item(versions, LATEST_KEY.to_owned());
    for name in [names::LATEST, names::RECORDED_VERSION] {
        latest.insert(name.to_owned(), AttributeValue::N(versions.to_string()));
    }
    let items = store.digits().version_keys(1..=versions).into_iter().zip(1..);
    let items = std::iter::once(latest).chain(items.map(|(key, version)| item(version, key)));
    let put = async |items: Vec<HashMap<_, _>>| {
        let puts = items
            .into_iter()
            .map(|item| PutRequest::builder().set_item(Some(item)).build());
        let requests = puts.map(|put| put.map(|put| WriteRequest::builder().put_request(put).build()));
        let mut unprocessed: Vec<_> = requests.collect::<Result<_, _>>().map_err(cannot("build a request"))?;
        while !unprocessed.is_empty() {
            let request = tables.client.batch_write_item().request_items(TABLE, unprocessed);
            let output = request.send().await.map_err(cannot("put items"))?;
            unprocessed = output
                .unprocessed_items
                .unwrap_or_default()
                .remove(TABLE)
                .unwrap_or_default();
        }
        Ok(())
    };
    stream::iter(items)
        .chunks(25)
        .map(put)
        .buffer_unordered(4)
        .try_collect()
        .await
}
