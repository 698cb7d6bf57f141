//! Reads and an update of an entity with 10, 1,000 and 100,000 versions: how many requests, and how long.

use std::time::{Duration, Instant};

use serde_json::json;
use shared::{
    domain::{
        entity::EntityId,
        keys::VersionDigits,
        time::EpochMillis,
        update::{Ordering, Update},
        version::Version,
    },
    dynamodb::{Store, read::history::HistoryQuery, write::WriteOptions},
};

use super::{Bench, seed};
use crate::{
    error::BenchError,
    figure::{Comparison, Figure, Plot, Target, median, millis},
    table::{Tables, failed},
};

const PAGE: usize = 50;
/// How much longer a request may take of the longest history than of a short one.
const AT_MOST: f64 = 1.3;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ask {
    Latest,
    Version,
    Page,
    AsOf,
    Update,
}

impl Ask {
    const READS: [Self; 4] = [Self::Latest, Self::Version, Self::Page, Self::AsOf];

    fn name(self) -> &'static str {
        match self {
            Self::Latest => "latest",
            Self::Version => "by number",
            Self::Page => "page of 50",
            Self::AsOf => "as of a time",
            Self::Update => "update",
        }
    }

    /// The most requests it may take.
    fn requests(self, versions: u64) -> f64 {
        #[allow(clippy::cast_precision_loss, reason = "up to 100,000")]
        match self {
            Self::AsOf => (versions as f64).log2() + 2.0,
            _ => 1.0,
        }
    }

    /// Asks once: about the version `at`, of `versions`.
    async fn once(self, store: &Store, versions: u64, at: u64) -> Result<(), BenchError> {
        let entity = entity(versions)?;
        let found = match self {
            Self::Latest => store.latest(&entity, true).await.map_err(failed)?.is_some(),
            Self::Version => match Version::new(at) {
                Some(number) => store.version(&entity, number, true).await.map_err(failed)?.is_some(),
                None => false,
            },
            Self::Page => {
                let query = HistoryQuery {
                    to: Version::new(versions),
                    limit: Some(PAGE),
                    consistent: true,
                    ..HistoryQuery::default()
                };
                match store.history(&entity, query).await.map_err(failed)? {
                    Some(mut history) => history.next_page().await.map_err(failed)?.is_some(),
                    None => false,
                }
            }
            Self::AsOf => {
                let time = EpochMillis::new(seed::epoch_millis(at));
                let found = store.as_of(&entity, time, true).await.map_err(failed)?;
                found.is_some_and(|view| view.version.get() == at)
            }
            Self::Update => {
                let update = json!({"ID": entity.as_str(), "State": "WARNING1"});
                let update = Update::parse(update, &format!("update-{at}"), Ordering::Arrival).map_err(failed)?;
                store.write(&update, WriteOptions::default()).await.map_err(failed)?;
                true
            }
        };
        found
            .then_some(())
            .ok_or_else(|| BenchError::Table(format!("{}: not found among {versions}", self.name())))
    }
}

/// What one ask took: requests, and milliseconds.
#[derive(Debug, Clone, Copy)]
struct Took {
    requests: u32,
    time: Duration,
}

pub(super) async fn measure(bench: &Bench) -> Result<Comparison, BenchError> {
    let Some(tables) = Tables::start(&bench.progress).await? else {
        return Ok(comparison(Vec::new(), Plot::Bars));
    };
    let sizes: [u64; 3] = bench.size([10, 1_000, 100_000], [10, 100, 1_000]);
    let store = tables
        .make("Growth", VersionDigits::new(10).unwrap_or_default())
        .await?;
    for versions in sizes {
        bench.progress.doing(&format!("growth: writing {versions} versions"));
        seed::history(&tables.client, "Growth", &store, &entity(versions)?, versions).await?;
    }
    let rounds: u64 = bench.size(300, 20);
    let (mut figures, mut series) = (Vec::new(), Vec::new());
    // Updates come last: their versions are not written down here.
    for ask in Ask::READS.into_iter().chain([Ask::Update]) {
        bench.progress.doing(&format!("growth: {}", ask.name()));
        let mut took = sizes.map(|_| Vec::new());
        for round in 0..rounds {
            for (versions, took) in sizes.iter().zip(&mut took) {
                // Here and there in the history. Its newest version would be answered by the latest item.
                let at = if ask == Ask::Update {
                    round
                } else {
                    1 + round * 7_919 % (versions - 1)
                };
                tables.requests.take();
                let began = Instant::now();
                ask.once(&store, *versions, at).await?;
                let time = began.elapsed();
                let (requests, _) = tables.requests.take();
                took.push(Took { requests, time });
            }
        }
        let times = took.each_ref().map(|took| time(ask, took));
        figures.extend(
            sizes
                .iter()
                .zip(&took)
                .map(|(versions, took)| requests(ask, *versions, took)),
        );
        // The shortest history has no full page.
        let base = usize::from(ask == Ask::Page);
        let unit = if ask == Ask::AsOf { "ms a request" } else { "ms" };
        let longest = Figure::new(format!("{unit}, {}, {} versions, p50", ask.name(), sizes[2]), times[2]);
        let beside = longest.beside(format!("{} versions", sizes[base]), times[base]);
        figures.push(beside.aiming_at(Target::RatioAtMost(AT_MOST)));
        #[allow(clippy::cast_precision_loss, reason = "up to 100,000")]
        let points = sizes.iter().zip(times).map(|(versions, time)| (*versions as f64, time));
        series.push((ask.name().to_owned(), points.collect()));
    }
    let plot = Plot::Lines {
        x: "versions",
        y: "ms, of a time: a request",
        series,
    };
    Ok(comparison(figures, plot))
}

fn comparison(figures: Vec<Figure>, plot: Plot) -> Comparison {
    Comparison {
        name: "growth",
        figures,
        plot,
    }
}

fn entity(versions: u64) -> Result<EntityId, BenchError> {
    EntityId::new(format!("Equipment#{versions}")).map_err(failed)
}

/// The most requests of a read. Of an update the median: every eighth one also forgets requests, whatever the history.
fn requests(ask: Ask, versions: u64, took: &[Took]) -> Figure {
    let all: Vec<_> = took.iter().map(|took| f64::from(took.requests)).collect();
    let (which, figure) = if ask == Ask::Update {
        ("p50", median(&all))
    } else {
        ("at most", all.iter().copied().fold(0.0, f64::max))
    };
    let most = (ask.requests(versions) * 100.0).floor() / 100.0;
    Figure::new(
        format!("requests, {}, {versions} versions, {which}", ask.name()),
        figure,
    )
    .aiming_at(Target::AtMost(most))
}

/// Milliseconds, of the version of a time for each of its requests, whose number grows.
fn time(ask: Ask, took: &[Took]) -> f64 {
    let each = took.iter().map(|took| match ask {
        Ask::AsOf => millis(took.time) / f64::from(took.requests),
        _ => millis(took.time),
    });
    median(&each.collect::<Vec<_>>())
}
