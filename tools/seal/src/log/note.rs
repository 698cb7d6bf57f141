//! Signed notes with Ed25519 keys.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use ring::signature::{ED25519, UnparsedPublicKey};
use sha2::{Digest as _, Sha256};
use thiserror::Error;

use crate::hex;

/// Type of an Ed25519 signature.
const TYPE: u8 = 1;
/// Maximum length of a note in bytes, far above that of a checkpoint with signatures of witnesses.
const MAX_NOTE: usize = 1 << 20;
/// Maximum number of signatures of a note.
const MAX_SIGNATURES: usize = 100;

/// A verifier key: `name+id+key`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifierKey {
    name: String,
    key: [u8; 32],
}

/// Text that is no verifier key, or no note that the key signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NoteError {
    /// No verifier key.
    #[error("the text is no verifier key, which is NAME+ID+KEY, with an Ed25519 key")]
    Key,
    /// No note.
    #[error("the text is no signed note")]
    Form,
    /// No signature of the key.
    #[error("the note has no signature of the verifier key")]
    Unsigned,
    /// A signature that does not verify.
    #[error("a signature of the note is wrong")]
    Signature,
}

impl VerifierKey {
    /// Creates the key of a name.
    ///
    /// # Errors
    ///
    /// The name is empty, or contains a space, a control character or a `+`.
    pub fn new(name: &str, key: [u8; 32]) -> Result<Self, NoteError> {
        match is_name(name) {
            true => Ok(Self {
                name: name.to_owned(),
                key,
            }),
            false => Err(NoteError::Key),
        }
    }

    /// Parses the text of a key.
    ///
    /// # Errors
    ///
    /// The text is no key, or its id is not the one of its name and key.
    pub fn parse(text: &str) -> Result<Self, NoteError> {
        let (name, rest) = text.trim_ascii().split_once('+').ok_or(NoteError::Key)?;
        let (id, key) = rest.split_once('+').ok_or(NoteError::Key)?;
        let key = BASE64.decode(key).map_err(|_| NoteError::Key)?;
        let Some((&TYPE, key)) = key.split_first() else {
            return Err(NoteError::Key);
        };
        let key = Self::new(name, key.try_into().map_err(|_| NoteError::Key)?)?;
        match hex(&key.id()) == id {
            true => Ok(key),
            false => Err(NoteError::Key),
        }
    }

    /// Returns the name, which is the origin of the log.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn id(&self) -> [u8; 4] {
        let hash = Sha256::new()
            .chain_update(&self.name)
            .chain_update([b'\n', TYPE])
            .chain_update(self.key)
            .finalize();
        [hash[0], hash[1], hash[2], hash[3]]
    }

    /// Returns the note of a text, which ends with a line break, and its signature.
    pub fn note(&self, text: &str, signature: &[u8]) -> String {
        let signature = BASE64.encode([&self.id(), signature].concat());
        format!("{text}\n— {} {signature}\n", self.name)
    }

    /// Returns the text of a note that this key signed. Signatures of other keys are ignored.
    ///
    /// # Errors
    ///
    /// The text is no note, or no signature of this key verifies, or one does not.
    pub fn open<'a>(&self, note: &'a str) -> Result<&'a str, NoteError> {
        if note.len() > MAX_NOTE || note.contains(|c: char| c < ' ' && c != '\n') {
            return Err(NoteError::Form);
        }
        let end = note.rfind("\n\n").ok_or(NoteError::Form)? + 1;
        let (text, signatures) = (&note[..end], &note[end + 1..]);
        let signatures = signatures.strip_suffix('\n').ok_or(NoteError::Form)?;
        let mut is_signed = false;
        if signatures.split('\n').count() > MAX_SIGNATURES {
            return Err(NoteError::Form);
        }
        for line in signatures.split('\n') {
            let (name, signature) = line
                .strip_prefix("— ")
                .and_then(|line| line.split_once(' '))
                .ok_or(NoteError::Form)?;
            let signature = BASE64.decode(signature).map_err(|_| NoteError::Form)?;
            let (id, signature) = signature.split_first_chunk().ok_or(NoteError::Form)?;
            if !is_name(name) || signature.is_empty() {
                return Err(NoteError::Form);
            }
            if name == self.name && *id == self.id() {
                UnparsedPublicKey::new(&ED25519, self.key)
                    .verify(text.as_bytes(), signature)
                    .map_err(|_| NoteError::Signature)?;
                is_signed = true;
            }
        }
        is_signed.then_some(text).ok_or(NoteError::Unsigned)
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || c.is_control() || c == '+')
}

impl fmt::Display for VerifierKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = BASE64.encode([&[TYPE], &self.key[..]].concat());
        write!(f, "{}+{}+{key}", self.name, hex(&self.id()))
    }
}

#[cfg(test)]
mod tests {
    use ring::signature::{Ed25519KeyPair, KeyPair as _};

    use super::*;

    /// The example of the specification.
    const KEY: &str = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k";
    const NOTE: &str = "This is an example message.\n\n— example.com/foo \
        Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=\n";

    #[test]
    fn the_example_of_the_specification_is_verified() {
        let key = VerifierKey::parse(KEY).unwrap();
        assert_eq!(key.to_string(), KEY);
        assert_eq!(VerifierKey::parse(&format!(" {KEY}\r\n")), Ok(key.clone()));
        assert_eq!(key.open(NOTE), Ok("This is an example message.\n"));
    }

    #[test]
    fn notes_are_refused_if_they_are_not_signed_as_they_are() {
        let pair = Ed25519KeyPair::from_seed_unchecked(&[3; 32]).unwrap();
        let key = |name| VerifierKey::new(name, pair.public_key().as_ref().try_into().unwrap()).unwrap();
        let (own, other) = (key("log"), key("other"));
        let text = "a\n\nb\n";
        let note = own.note(text, pair.sign(text.as_bytes()).as_ref());
        assert_eq!(own.open(&note), Ok(text));
        assert_eq!(other.open(&note), Err(NoteError::Unsigned));
        let both = note.clone() + NOTE.rsplit_once("\n\n").unwrap().1;
        assert_eq!(own.open(&both), Ok(text));
        assert_eq!(own.open(&(note.clone() + &"— other Uw2QOkk=\n".repeat(99))), Ok(text));
        for (changed, error) in [
            (note.replace('b', "c"), NoteError::Signature),
            (note.replace("— log", "- log"), NoteError::Form),
            (note.replace("— log", "— lag"), NoteError::Unsigned),
            (note.trim_end().to_owned(), NoteError::Form),
            (note.replace("a\n", "a\r\n"), NoteError::Form),
            (note.replace("\n— log ", "\n— log  "), NoteError::Form),
            (note.clone() + "\n", NoteError::Form),
            (note.clone() + "\nx\n", NoteError::Form),
            (text.to_owned(), NoteError::Form),
            (String::new(), NoteError::Form),
            (note.clone() + &own.note("", &[0; 64])[1..], NoteError::Signature),
            (note.clone() + "— other Uw2QOg==\n", NoteError::Form),
            (note.clone() + "—  Uw2QOkk=\n", NoteError::Form),
            (note.clone() + "— a+b Uw2QOkk=\n", NoteError::Form),
            (note.clone() + "— a\u{a0}b Uw2QOkk=\n", NoteError::Form),
            (note.clone() + &"— other Uw2QOkk=\n".repeat(100), NoteError::Form),
            (own.note(&("a".repeat(1 << 20) + "\n"), &[0; 64]), NoteError::Form),
        ] {
            assert_eq!(own.open(&changed), Err(error), "{changed:?}");
        }
    }

    #[test]
    fn keys_are_refused_if_a_part_is_changed() {
        for changed in [
            "example.com/foo",
            "example.com/foo+530d903a",
            "example.com/fop+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k",
            "example.com/foo+530d903b+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k",
            "example.com/foo+530d903a+AukyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k",
            "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3Q==",
            "",
        ] {
            assert_eq!(VerifierKey::parse(changed), Err(NoteError::Key), "{changed}");
        }
        for name in ["", "a b", "a+b", "a\n", "a\u{7f}"] {
            assert_eq!(VerifierKey::new(name, [0; 32]), Err(NoteError::Key), "{name:?}");
        }
    }
}
