//! Functions that are deployed with another layout than that of the table.

use crate::schedule::FaultKind;

/// A function as it is deployed with another layout than that of the table.
#[derive(Debug)]
pub(crate) struct Misdeployed<T> {
    /// With another width of version keys.
    pub(crate) width: T,
    /// With another table of history.
    pub(crate) history: T,
}

impl<T> Misdeployed<T> {
    /// Returns the function that a fault of an invocation runs, if it runs one of these.
    pub(crate) fn of(&self, fault: Option<FaultKind>) -> Option<&T> {
        match fault {
            Some(FaultKind::WrongLayout) => Some(&self.width),
            Some(FaultKind::WrongHistory) => Some(&self.history),
            _ => None,
        }
    }
}
