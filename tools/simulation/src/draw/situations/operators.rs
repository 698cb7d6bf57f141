//! Situations of guards of operator commands.

use super::Situation;

pub(super) const SITUATIONS: &[Situation] = &[];
