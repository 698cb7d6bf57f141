//! The frame of every comparison.
//!
//! A comparison receives a [`Bench`], serves a stub or starts a DynamoDB Local, hosts functions behind a Runtime API with [`Bench::host`], and
//! returns [`Measured`]. [`in_turn`] alternates between the subjects, so that other load on the machine affects all of them.

use std::{future::Future, path::PathBuf, time::Duration};

use tempfile::TempDir;

use crate::{
    args::Args,
    certificate::Certificate,
    error::BenchError,
    figure::{Figure, Plot, Target, percentile},
    hosted::Hosted,
    limits::{Controllers, Limits},
    progress::Progress,
    stub::Stub,
    subject::{Role, Subject, Subjects},
};

/// Latency of the stub in comparisons of throughput.
pub(crate) const LATENCY: Duration = Duration::from_millis(5);

pub(crate) struct Bench {
    /// `true` for few and small measurements.
    pub(crate) quick: bool,
    pub(crate) subjects: Subjects,
    pub(crate) certificate: Certificate,
    pub(crate) progress: Progress,
    pub(crate) logs: PathBuf,
    /// Holds the certificate's files.
    _folder: TempDir,
}

impl Bench {
    pub(crate) async fn new(args: &Args, comparisons: usize) -> Result<Self, BenchError> {
        let progress = Progress::new(comparisons);
        let folder = TempDir::with_prefix("bench-")?;
        Ok(Self {
            quick: args.quick,
            subjects: Subjects::find(args.functions.as_deref(), &progress).await?,
            certificate: Certificate::create(folder.path())?,
            logs: args.output.join("logs"),
            progress,
            _folder: folder,
        })
    }

    /// Returns `full`, or `quick` in a quick run.
    pub(crate) fn size<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }

    pub(crate) fn host(&self, subject: &Subject, role: Role, stub: &Stub) -> Result<Hosted, BenchError> {
        Hosted::new(subject, role, stub, &self.logs, None)
    }

    /// Returns where control groups can be created, or notes why `measurement` is skipped.
    pub(crate) fn controllers(&self, measurement: &str) -> Option<Controllers> {
        Controllers::find()
            .inspect_err(|error| self.progress.note(&format!("{measurement} is skipped: {error}")))
            .ok()
    }

    /// Hosts a function in one process with the CPU share and memory of a Lambda function.
    pub(crate) fn host_limited(
        &self,
        subject: &Subject,
        role: Role,
        stub: &Stub,
        limits: Limits,
    ) -> Result<Hosted, BenchError> {
        Hosted::new(subject, role, stub, &self.logs, Some(limits))
    }
}

#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) figures: Vec<Figure>,
    pub(crate) plot: Plot,
}

impl From<Vec<Figure>> for Measured {
    fn from(figures: Vec<Figure>) -> Self {
        Self {
            figures,
            plot: Plot::Bars,
        }
    }
}

/// The measurements of each subject, ours first.
pub(crate) struct Measurements<'a, T>(Vec<(&'a Subject, Vec<T>)>);

/// Measures each subject `rounds` times, alternating between them.
pub(crate) async fn in_turn<'a, T, M, F>(
    subjects: impl Iterator<Item = &'a Subject>,
    rounds: usize,
    mut measure: M,
) -> Result<Measurements<'a, T>, BenchError>
where
    M: FnMut(&'a Subject) -> F,
    F: Future<Output = Result<T, BenchError>>,
{
    let mut all: Vec<_> = subjects.map(|subject| (subject, Vec::with_capacity(rounds))).collect();
    for _ in 0..rounds {
        for (subject, measured) in &mut all {
            measured.push(measure(subject).await?);
        }
    }
    Ok(Measurements(all))
}

impl<T> Measurements<'_, T> {
    pub(crate) fn first(&self) -> Option<&T> {
        self.0.first().and_then(|(_, measured)| measured.first())
    }

    /// Returns this percentile of our measurements, or NaN without any.
    pub(crate) fn percentile_of_ours(&self, share: f64, value: impl Fn(&T) -> f64) -> f64 {
        let ours = self.0.first().map_or(&[][..], |(_, measured)| measured);
        percentile(&ours.iter().map(value).collect::<Vec<_>>(), share)
    }

    /// Returns a figure for each peer, from the medians of `value`.
    pub(crate) fn medians(&self, unit: &str, value: impl Fn(&T) -> f64, targets: &[(&str, Target)]) -> Vec<Figure> {
        self.percentiles(0.5, unit, value, targets)
    }

    /// Returns a figure for each peer, or ours alone if there is none. A target applies to the peer that it names.
    pub(crate) fn percentiles(
        &self,
        share: f64,
        unit: &str,
        value: impl Fn(&T) -> f64,
        targets: &[(&str, Target)],
    ) -> Vec<Figure> {
        let of = |measured: &[T]| percentile(&measured.iter().map(&value).collect::<Vec<_>>(), share);
        let Some(((_, ours), peers)) = self.0.split_first() else {
            return Vec::new();
        };
        let figure = Figure::new(unit, of(ours));
        if peers.is_empty() {
            return vec![figure];
        }
        let compared = peers.iter().map(|(peer, measured)| {
            let target = targets.iter().find(|(name, _)| *name == peer.name);
            let figure = figure.clone().compared_with(peer.name, of(measured));
            Figure {
                target: target.map(|(_, target)| *target),
                ..figure
            }
        });
        compared.collect()
    }
}

impl Measurements<'_, f64> {
    /// Returns this percentile of the subject with this index, or NaN without any.
    pub(crate) fn percentile_of(&self, subject: usize, share: f64) -> f64 {
        self.0
            .get(subject)
            .map_or(f64::NAN, |(_, measured)| percentile(measured, share))
    }
}
