//! The frame of every comparison.
//!
//! A comparison receives a [`Bench`], serves a stub, hosts functions behind a Runtime API with [`Bench::host`], and returns figures. [`in_turn`] alternates between the subjects, so that other load on the machine affects all of them.

use std::{fs, future::Future, path::PathBuf, time::Duration};

use tempfile::TempDir;

use crate::{
    args::Args,
    certificate::Certificate,
    error::BenchError,
    figure::{Figure, Target, percentile},
    print_error,
    subject::{self, Kind, Subject},
};

/// Latency of the stub in comparisons of throughput.
pub(crate) const LATENCY: Duration = Duration::from_millis(5);

/// Share of the CPU time that other programs may use before a run.
const MAX_BUSY: f64 = 0.1;

/// Returns the share of the CPU time that this machine uses, measured for a second while this program waits.
async fn busy() -> f64 {
    let used = || -> Option<[f64; 2]> {
        let text = fs::read_to_string("/proc/stat").ok()?;
        let numbers = text.lines().next()?.split_whitespace().skip(1);
        let ticks: Vec<f64> = numbers.filter_map(|number| number.parse().ok()).collect();
        // Idle, and waiting for a device.
        Some([ticks.iter().sum(), ticks.get(3..5)?.iter().sum()])
    };
    let before = used();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let Some(([all, idle], [all_after, idle_after])) = before.zip(used()) else {
        return 0.0;
    };
    1.0 - (idle_after - idle) / (all_after - all)
}

pub(crate) struct Bench {
    /// `true` for few and small measurements.
    pub(crate) quick: bool,
    /// Our functions, and the peers.
    pub(crate) subjects: Vec<Subject>,
    pub(crate) certificate: Certificate,
    pub(crate) logs: PathBuf,
    /// The program `vzero`, `None` to build it.
    pub(crate) vzero: Option<PathBuf>,
    /// Number of entities of a whole table, `None` for the default.
    pub(crate) entities: Option<u64>,
    /// Holds the certificate's files.
    _folder: TempDir,
}

impl Bench {
    pub(crate) async fn new(args: &Args) -> Result<Self, BenchError> {
        let folder = TempDir::with_prefix("bench-")?;
        if !args.quick && busy().await > MAX_BUSY {
            print_error("warning: other programs use this machine; the figures vary more than usual");
        }
        Ok(Self {
            quick: args.quick,
            subjects: subject::find(args.functions.as_deref()).await?,
            certificate: Certificate::create(folder.path())?,
            logs: args.output.join("logs"),
            vzero: args.vzero.clone(),
            entities: args.entities,
            _folder: folder,
        })
    }

    /// Returns our functions, and the straightforward peers.
    pub(crate) fn simple(&self) -> impl Iterator<Item = &Subject> {
        let is_simple = |kind| matches!(kind, Kind::Ours | Kind::Sequential);
        self.subjects.iter().filter(move |subject| is_simple(subject.kind))
    }

    /// Returns `full`, or `quick` in a quick run.
    pub(crate) fn size<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }
}

/// The measurements of each subject, ours first. Each has `N` values.
pub(crate) struct Measurements<'a, const N: usize>(Vec<(&'a Subject, Vec<[f64; N]>)>);

/// Measures each subject `rounds` times, alternating between them.
pub(crate) async fn in_turn<'a, const N: usize, M, F>(
    subjects: impl Iterator<Item = &'a Subject>,
    rounds: usize,
    mut measure: M,
) -> Result<Measurements<'a, N>, BenchError>
where
    M: FnMut(&'a Subject) -> F,
    F: Future<Output = Result<[f64; N], BenchError>>,
{
    let mut all: Vec<_> = subjects.map(|subject| (subject, Vec::with_capacity(rounds))).collect();
    for _ in 0..rounds {
        for (subject, measured) in &mut all {
            measured.push(measure(subject).await?);
        }
    }
    Ok(Measurements(all))
}

impl<const N: usize> Measurements<'_, N> {
    /// Returns a percentile of a value of the subject with this index, of which ours is the first, or NaN without any.
    pub(crate) fn percentile(&self, subject: usize, share: f64, value: usize) -> f64 {
        let measured = self.0.get(subject).map_or(&[][..], |(_, measured)| measured);
        percentile(measured.iter().map(|values| values[value]), share)
    }

    /// Returns minimum and maximum of a value, if a percentile is the median of several measurements.
    fn range(&self, subject: usize, share: f64, value: usize) -> Option<[f64; 2]> {
        let is_median =
            (share - 0.5).abs() < f64::EPSILON && self.0.get(subject).is_some_and(|(_, measured)| measured.len() > 1);
        is_median.then(|| [0.0, 1.0].map(|share| self.percentile(subject, share, value)))
    }

    /// Returns our figure alone.
    pub(crate) fn ours(&self, unit: impl Into<String>, share: f64, value: usize) -> Figure {
        Figure {
            range: self.range(0, share, value),
            ..Figure::new(unit, self.percentile(0, share, value))
        }
    }

    /// Returns a figure for each peer, or ours alone if there is none. A target applies to the peer that it names.
    pub(crate) fn figures(&self, unit: &str, share: f64, value: usize, targets: &[(&str, Target)]) -> Vec<Figure> {
        let ours = self.ours(unit, share, value);
        if self.0.len() == 1 {
            return vec![ours];
        }
        let peers = self.0.iter().enumerate().skip(1).map(|(index, (peer, _))| {
            let figure = ours
                .clone()
                .compared_with(peer.name, self.percentile(index, share, value));
            let peer_range = self.range(index, share, value);
            let figure = Figure { peer_range, ..figure };
            match targets.iter().find(|(name, _)| *name == peer.name) {
                Some((_, target)) => figure.with_target(*target),
                None => figure,
            }
        });
        peers.collect()
    }
}
