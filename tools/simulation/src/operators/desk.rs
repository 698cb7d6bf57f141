//! The operators of a run, with the queues of the table.

use shared::domain::keys::VersionDigits;

use super::{Operators, queues::MemoryQueues, services::ExternalServices};
use crate::{clock::Clock, connector::Connector, schedule::Settings};

pub(crate) const DEAD_LETTERS: &str = "http://sqs.simulated/000000000000/dead-letters";
pub(crate) const UPDATES: &str = "http://sqs.simulated/000000000000/updates";

/// The operators of a run, and what they were told.
pub(crate) struct Desk {
    pub(crate) operators: Operators,
    pub(crate) queues: MemoryQueues,
}

impl Desk {
    pub(crate) fn new(connector: &Connector, clock: Clock, digits: VersionDigits, settings: &Settings) -> Self {
        let queues = MemoryQueues::new(clock, [(DEAD_LETTERS.to_owned(), vec![UPDATES.to_owned()])]);
        let services = ExternalServices::new(queues.clone());
        let operators = Operators::new(connector, clock.shifted(0), digits, services).with_history(settings.history());
        Self { operators, queues }
    }
}
