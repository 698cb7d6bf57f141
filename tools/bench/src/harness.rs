//! The frame of every comparison.
//!
//! A comparison receives a [`Bench`], serves a stub or starts a DynamoDB Local, hosts functions behind a Runtime API with [`Bench::host`], and
//! returns figures. [`in_turn`] alternates between the subjects, so that other load on the machine affects all of them.

use std::{future::Future, path::PathBuf, time::Duration};

use tempfile::TempDir;

use crate::{
    args::Args,
    certificate::Certificate,
    error::BenchError,
    figure::{Figure, Target, percentile},
    hosted::Hosted,
    limits::{Controllers, Limits},
    print_error,
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
    pub(crate) logs: PathBuf,
    /// Holds the certificate's files.
    _folder: TempDir,
}

impl Bench {
    pub(crate) async fn new(args: &Args) -> Result<Self, BenchError> {
        let folder = TempDir::with_prefix("bench-")?;
        Ok(Self {
            quick: args.quick,
            subjects: Subjects::find(args.functions.as_deref()).await?,
            certificate: Certificate::create(folder.path())?,
            logs: args.output.join("logs"),
            _folder: folder,
        })
    }

    /// Returns `full`, or `quick` in a quick run.
    pub(crate) fn size<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }

    /// Hosts a function in one process, within limits if there are any.
    pub(crate) fn host(
        &self,
        subject: &Subject,
        role: Role,
        stub: &Stub,
        limits: Option<Limits>,
    ) -> Result<Hosted, BenchError> {
        Hosted::new(subject, role, stub, &self.logs, limits)
    }
}

/// Returns where control groups can be created, or notes why `measurement` is skipped.
pub(crate) fn controllers(measurement: &str) -> Option<Controllers> {
    Controllers::find()
        .inspect_err(|error| print_error(&format!("note: {measurement} is skipped: {error}")))
        .ok()
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
    /// Returns a percentile of the subject with this index, of which ours is the first, or NaN without any.
    pub(crate) fn percentile(&self, subject: usize, share: f64, value: impl Fn(&T) -> f64) -> f64 {
        let measured = self.0.get(subject).map_or(&[][..], |(_, measured)| measured);
        percentile(measured.iter().map(value), share)
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
        let ours = Figure::new(unit, self.percentile(0, share, &value));
        if self.0.len() == 1 {
            return vec![ours];
        }
        let peers = self.0.iter().enumerate().skip(1).map(|(index, (peer, _))| {
            let figure = ours
                .clone()
                .compared_with(peer.name, self.percentile(index, share, &value));
            match targets.iter().find(|(name, _)| *name == peer.name) {
                Some((_, target)) => figure.with_target(*target),
                None => figure,
            }
        });
        peers.collect()
    }
}
