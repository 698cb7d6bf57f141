//! What the operator's command reads that others wrote: pure parsers, apart from the command so that they can be tested
//! and fuzzed.

pub mod failures;
