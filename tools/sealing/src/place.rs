//! Where the log of a table is.

pub use operations::sealed::Place;
use seal::log::note::VerifierKey;

use crate::error::SealError;

/// Returns the key that verifies checkpoints, as the table says.
///
/// # Errors
///
/// The item has another text.
pub fn verifier(place: &Place) -> Result<VerifierKey, SealError> {
    let key = VerifierKey::parse(&place.verifier);
    key.map_err(|_| SealError::Unreadable("the verifier key of the item #vzero/sealed".to_owned()))
}
