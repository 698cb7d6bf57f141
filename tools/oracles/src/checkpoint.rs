//! Checkpoints and their notes, compared with the crates `signed_note` and `tlog_tiles`.

use std::sync::LazyLock;

use ring::signature::{Ed25519KeyPair, KeyPair as _};
use seal::log::{
    checkpoint::{Checkpoint, CheckpointError},
    note::{NoteError, VerifierKey},
};
use signed_note::{Note, StandardVerifier, VerifierList};
use tlog_tiles::Checkpoint as OtherCheckpoint;

/// Name of the log of `tools/seal/example`.
pub(crate) const ORIGIN: &str = "example.com/log";

static PAIR: LazyLock<Ed25519KeyPair> = LazyLock::new(|| {
    // The key of `tools/seal/example`.
    Ed25519KeyPair::from_seed_unchecked(&[3; 32]).unwrap_or_else(|error| panic!("{error}"))
});

/// Verifier key of the log.
pub static KEY: LazyLock<VerifierKey> = LazyLock::new(|| {
    let key: Result<[u8; 32], _> = PAIR.public_key().as_ref().try_into();
    VerifierKey::new(ORIGIN, key.unwrap_or_default()).unwrap_or_else(|error| panic!("{error}"))
});

/// Returns a note of the log.
pub fn sign(text: &str) -> String {
    KEY.note(text, PAIR.sign(text.as_bytes()).as_ref())
}

/// Parses the input as a verifier key and as a note. Then it is the text of a signed note, and its last paragraph the signatures of
/// others. `signed_note` and `tlog_tiles` must read the same, or reject the same.
pub fn checkpoint(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    check_key(text);
    check_note(text);
    check_note(&sign(text));
    if let Some((text, lines)) = text.rsplit_once("\n\n") {
        check_note(&(sign(&format!("{text}\n")) + lines));
    }
}

fn check_key(text: &str) {
    let text = text.trim_end_matches('\n');
    match (VerifierKey::parse(text), StandardVerifier::new(text)) {
        (Ok(key), _) => assert!(key.to_string() == text, "another text of the same key"),
        (Err(_), Ok(_)) => {
            let is_lenient = text.split('+').nth(1).is_some_and(|id| id != id.to_lowercase());
            assert!(is_lenient || text.contains(char::is_control), "a key is rejected");
        }
        (Err(_), Err(_)) => {}
    }
}

fn check_note(note: &str) {
    let key = StandardVerifier::new(&KEY.to_string()).unwrap_or_else(|error| panic!("{error}"));
    let keys = VerifierList::new(vec![Box::new(key)]);
    let other = Note::from_bytes(note.as_bytes())
        .ok()
        .filter(|note| note.verify(&keys).is_ok());
    match (KEY.open(note), other) {
        (Ok(text), Some(other)) => {
            assert!(other.text() == text.as_bytes(), "another text");
            check_checkpoint(note, text);
        }
        // It verifies only the first signature of a key.
        (Err(NoteError::Signature), _) | (Err(_), None) => {}
        // In the name of another signer, which it does not show.
        (Err(NoteError::Form), Some(_)) if note.contains(|c: char| c.is_control() && c != '\n') => {}
        (own, other) => panic!("a note is valid: {} here, {} there", own.is_ok(), other.is_some()),
    }
}

fn check_checkpoint(note: &str, text: &str) {
    match (
        Checkpoint::open(note, &KEY),
        OtherCheckpoint::from_bytes(text.as_bytes()),
    ) {
        (Ok(own), Ok(other)) => {
            let Checkpoint { origin, size, root } = &own;
            assert!((other.origin(), other.size(), other.hash().0) == (origin.as_str(), *size, *root));
            assert!(own.text() + other.extension() == text, "the text is another one");
            assert!(Checkpoint::open(&sign(&own.text()), &KEY) == Ok(own));
        }
        (Err(CheckpointError::Origin), Ok(other)) => assert_ne!(other.origin(), ORIGIN),
        (Err(CheckpointError::Form), Err(_)) => {}
        (own, other) => panic!("a checkpoint: {own:?} here, valid there: {}", other.is_ok()),
    }
}
