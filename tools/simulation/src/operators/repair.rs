//! `vzero admin repair --yes`.

use std::time::Duration;

use operations::{
    failures::source::Source,
    redrive::Feed,
    repair::{Options, Repair, Scope},
};
use serde_json::Value;

use super::{
    Operators,
    result::OperatorResult,
    services::{DOCUMENTS, ExternalServices},
};

/// Options of a repair. The failure documents are those of [`Operators::repair`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RepairOptions {
    pub(crate) stream: bool,
    pub(crate) revive: bool,
    pub(crate) lag: Duration,
}

impl Default for RepairOptions {
    fn default() -> Self {
        Self {
            stream: false,
            revive: false,
            lag: Duration::from_secs(60),
        }
    }
}

impl Operators {
    /// Repairs entities, or the table, with the versions that these failure documents contain. Prints the plan first.
    pub(crate) async fn repair(&self, scope: Scope<'_>, documents: &[Value], options: RepairOptions) -> OperatorResult {
        self.services.set_documents(documents);
        self.run(async |printed| {
            let services = ExternalServices::of_library();
            let feed = Feed::new(self.connection(), &services, printed);
            let documents = (!documents.is_empty()).then(|| DOCUMENTS.source());
            let sources: Vec<_> = (documents.into_iter())
                .chain(options.stream.then_some(Source::Stream))
                .collect();
            let options = Options {
                lag: options.lag,
                sources: &sources,
                revive: options.revive,
            };
            let mut repair = Repair::plan(self.connection(), scope, &options, printed, &feed).await?;
            repair.plan.to_json().into_iter().for_each(|line| printed.line(line));
            repair.execute(self.connection(), printed).await;
            printed.summary(repair.tally.summary(false));
            repair.verdict()
        })
        .await
    }
}
