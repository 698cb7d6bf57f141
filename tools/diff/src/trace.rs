//! The path of one value in each version of an item, although elements of its list are added, removed or moved.
//!
//! ```text
//! version  3                  4                  5
//! Lines    [a, b]             [new, a, b]        [new, b]
//! path     Lines[1]  <─ step  Lines[2]  <─ step  Lines[1], as the user names it
//! ```
//!
//! The states are read in either direction. The path is that of the first one that has the value. A state without the attribute is
//! skipped, so that a value continues after a deletion.

use std::collections::HashMap;

use shared::domain::Item;

use crate::{
    blame::before,
    change::{Changes, Kind},
    path::{Path, Step, value_at},
};

/// Path of a value, from state to state.
#[derive(Debug)]
pub struct Trace {
    /// Path in the state that was read last. `None` if the value did not exist there.
    pub path: Option<Path>,
    is_found: bool,
    attribute: String,
    /// State that was read last, only with the attribute.
    state: Option<Item>,
}

impl Trace {
    /// Begins before the first state. `None` for a path without elements of lists, which is the same in all states.
    pub fn new(path: &Path) -> Option<Self> {
        let Some(Step::Name(attribute)) = path.0.first().filter(|_| has_elements(&path.0)) else {
            return None;
        };
        Some(Self {
            path: Some(path.clone()),
            is_found: false,
            attribute: attribute.clone(),
            state: None,
        })
    }

    /// Reads the next state. Returns the paths in it and in the last state.
    pub fn step(&mut self, item: &Item) -> [Option<Path>; 2] {
        let last = self.path.clone();
        if let Some(value) = item.get(&self.attribute) {
            let state = Item::from(HashMap::from([(self.attribute.clone(), value.clone())]));
            let changes = Changes::between(Some(&state), self.state.as_ref()).changes;
            if self.is_found {
                self.path = changes.iter().rev().fold(last.clone(), |at, change| {
                    let at = at?;
                    // A change that sets the value does not change its path, unless it is in another element then.
                    let is_added = matches!(change.kind, Kind::Added(_));
                    let rest = at.0.get(change.path.0.len() - usize::from(is_added)..);
                    let stays = !has_elements(rest.unwrap_or_default());
                    before(change, at.clone()).or(stays.then_some(at))
                });
            }
            self.is_found |= last.as_ref().is_some_and(|path| value_at(&state, path).is_some());
            self.state = Some(state);
        }
        [self.path.clone(), last]
    }
}

fn has_elements(steps: &[Step]) -> bool {
    steps.iter().any(|step| matches!(step, Step::Index(_)))
}
