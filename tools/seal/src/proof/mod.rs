//! Proofs: the document that an auditor receives, and its verification.

pub mod document;
mod text;
pub mod value;
pub mod verify;
