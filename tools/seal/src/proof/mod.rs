//! Proofs: the document that an auditor receives, and its verification.

pub mod document;
pub mod in_log;
mod text;
pub mod value;
pub mod verify;
