//! Reads and an update of an entity with 10, 1,000 and 100,000 versions: number of requests and time.

use std::time::Instant;

use operations::as_of::as_of;
use serde_json::json;
use shared::{
    config::{Ordering, WriteOptions},
    domain::{entity::EntityId, keys::VersionDigits, version::Version},
    dynamodb::{Store, read::history::HistoryQuery},
};
use writer_fn::{counter, update::Update};

use crate::{
    error::{BenchError, cannot},
    figure::{Figure, Plot, Target, median, millis},
    harness::{Bench, Measured},
    seed,
    tables::Tables,
};

const PAGE_SIZE: usize = 50;
/// Maximum ratio of the time of a request with the longest history to that with a short one.
const MAX_RATIO: f64 = 1.3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Latest,
    Version,
    Page,
    AsOf,
    Update,
}

impl Operation {
    /// The update is last, because it adds no version item to the histories.
    const ALL: [Self; 5] = [Self::Latest, Self::Version, Self::Page, Self::AsOf, Self::Update];

    fn name(self) -> &'static str {
        match self {
            Self::Latest => "latest",
            Self::Version => "by number",
            Self::Page => "page of 50",
            Self::AsOf => "as of a time",
            Self::Update => "update",
        }
    }

    fn max_requests(self, versions: u64) -> f64 {
        #[allow(clippy::cast_precision_loss, reason = "up to 100,000")]
        match self {
            Self::AsOf => (versions as f64).log2() + 2.0,
            _ => 1.0,
        }
    }

    /// Runs the operation once, on version `at` of `versions`. An update uses `at` for its request ID.
    async fn run(self, store: &Store, versions: u64, at: u64) -> Result<(), BenchError> {
        let entity = entity(versions)?;
        let failed = cannot("read a version");
        let is_found = match self {
            Self::Latest => store.latest(&entity, true).await.map_err(failed)?.is_some(),
            Self::Version => match Version::new(at) {
                Some(number) => store.version(&entity, number, true).await.map_err(failed)?.is_some(),
                None => false,
            },
            Self::Page => {
                let query = HistoryQuery {
                    to: Version::new(versions),
                    limit: Some(PAGE_SIZE),
                    consistent: true,
                    ..HistoryQuery::default()
                };
                match store.history(&entity, query).await.map_err(&failed)? {
                    Some(mut history) => history.next_page().await.map_err(failed)?.is_some(),
                    None => false,
                }
            }
            Self::AsOf => {
                let found = as_of(store, &entity, seed::recorded_at(at), true)
                    .await
                    .map_err(failed)?;
                found.is_some_and(|view| view.version.get() == at)
            }
            Self::Update => {
                let update = json!({"ID": entity.as_str(), "State": "WARNING1"});
                let update = Update::parse(update, &format!("update-{at}"), Ordering::Arrival);
                let update = update.map_err(cannot("parse an update"))?;
                let written = counter::write(store, &update, WriteOptions::default()).await;
                written.map_err(cannot("write an update"))?;
                true
            }
        };
        let missing = || BenchError::UnexpectedResult(format!("{}: not found in {versions} versions", self.name()));
        is_found.then_some(()).ok_or_else(missing)
    }
}

struct Run {
    requests: f64,
    millis: f64,
}

pub(super) async fn measure(bench: &Bench) -> Result<Measured, BenchError> {
    let mut figures = Vec::new();
    let Some(tables) = Tables::start(&bench.progress).await? else {
        return Ok(figures.into());
    };
    let sizes: [u64; 3] = bench.size([10, 1_000, 100_000], [10, 100, 1_000]);
    let digits = VersionDigits::new(10).unwrap_or_default();
    let store = tables.create("Growth", digits).await?;
    for versions in sizes {
        bench.progress.show(&format!("growth: writing {versions} versions"));
        seed::history(&tables.client, "Growth", &store, &entity(versions)?, versions).await?;
    }
    let rounds: u64 = bench.size(300, 20);
    let mut series = Vec::new();
    for operation in Operation::ALL {
        let name = operation.name();
        bench.progress.show(&format!("growth: {name}"));
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
                operation.run(&store, *versions, at).await?;
                runs.push(Run {
                    millis: millis(began.elapsed()),
                    requests: tables.requests.take().0.into(),
                });
            }
        }
        let times = runs.each_ref().map(|runs| time(operation, runs));
        figures.extend(
            sizes
                .iter()
                .zip(&runs)
                .map(|(versions, runs)| requests(operation, *versions, runs)),
        );
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
        #[allow(clippy::cast_precision_loss, reason = "up to 100,000")]
        let points = sizes.iter().zip(times).map(|(versions, time)| (*versions as f64, time));
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

/// Returns the maximum number of requests of a read, or the median of an update: every ninth update takes a second request, with any history.
fn requests(operation: Operation, versions: u64, runs: &[Run]) -> Figure {
    let all: Vec<_> = runs.iter().map(|run| run.requests).collect();
    let (kind, figure) = match operation {
        Operation::Update => ("p50", median(&all)),
        _ => ("at most", all.iter().copied().fold(0.0, f64::max)),
    };
    let max = (operation.max_requests(versions) * 100.0).floor() / 100.0;
    Figure::new(
        format!("requests, {}, {versions} versions, {kind}", operation.name()),
        figure,
    )
    .with_target(Target::AtMost(max))
}

/// Returns the median time in milliseconds. A read as of a time takes more requests in a longer history, so its time is that of one request.
fn time(operation: Operation, runs: &[Run]) -> f64 {
    let each = runs.iter().map(|run| match operation {
        Operation::AsOf => run.millis / run.requests,
        _ => run.millis,
    });
    median(&each.collect::<Vec<_>>())
}
