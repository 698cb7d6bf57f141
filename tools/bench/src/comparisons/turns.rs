//! Subjects measured in turn, so that whatever else goes on on the machine meets all of them.

use std::future::Future;

use crate::{
    error::BenchError,
    figure::{Figure, Target, beside_each},
    subject::Subject,
};

/// What was measured, subject by subject, ours first.
pub(super) struct Turns<'a, T>(Vec<(&'a Subject, Vec<T>)>);

impl<'a, T> Turns<'a, T> {
    /// Measures each subject so many times.
    pub(super) async fn take<M, F>(
        subjects: impl Iterator<Item = &'a Subject>,
        rounds: usize,
        mut measure: M,
    ) -> Result<Self, BenchError>
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
        Ok(Self(all))
    }

    /// The first measurement of ours.
    pub(super) fn first(&self) -> Option<&T> {
        self.0.first().and_then(|(_, measured)| measured.first())
    }

    /// A figure for each peer, from what each one's measurements come to.
    pub(super) fn figures(&self, unit: &str, fold: impl Fn(&[T]) -> f64, targets: &[(&str, Target)]) -> Vec<Figure> {
        let mut folded = self.0.iter().map(|(subject, measured)| (subject.name, fold(measured)));
        let Some((_, ours)) = folded.next() else {
            return Vec::new();
        };
        beside_each(unit, ours, &folded.collect::<Vec<_>>(), targets)
    }
}
