//! Checkpoints: the size and the root of a log, signed.

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use thiserror::Error;

use super::note::{NoteError, VerifierKey};
use crate::Hash;

/// The size and the root of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// Name of the log.
    pub origin: String,
    /// Number of entries.
    pub size: u64,
    /// Root of the tree.
    pub root: Hash,
}

/// Text that is no checkpoint of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum CheckpointError {
    /// No note that the key signed.
    #[error(transparent)]
    Note(#[from] NoteError),
    /// A note with another content.
    #[error("the signed note is no checkpoint: origin, size and root")]
    Form,
    /// A checkpoint of another log.
    #[error("the checkpoint is one of another log")]
    Origin,
}

impl Checkpoint {
    /// Returns the text that is signed.
    pub fn text(&self) -> String {
        format!("{}\n{}\n{}\n", self.origin, self.size, BASE64.encode(self.root))
    }

    /// Parses a checkpoint of the key's log, after its signature was verified. Lines after the root are ignored.
    ///
    /// # Errors
    ///
    /// The note is not signed by the key, or is no checkpoint, or one of another log.
    pub fn open(note: &str, key: &VerifierKey) -> Result<Self, CheckpointError> {
        let text = key.open(note)?;
        let mut lines = text.strip_suffix('\n').ok_or(CheckpointError::Form)?.split('\n');
        let mut line = || lines.next().ok_or(CheckpointError::Form);
        let (origin, size, root) = (line()?, line()?, line()?);
        if lines.any(str::is_empty) {
            return Err(CheckpointError::Form);
        }
        let number = size.parse::<u64>().ok().filter(|number| number.to_string() == size);
        let root = BASE64.decode(root).ok().and_then(|root| root.try_into().ok());
        let (Some(size), Some(root)) = (number, root) else {
            return Err(CheckpointError::Form);
        };
        match origin == key.name() {
            true => Ok(Self {
                origin: origin.to_owned(),
                size,
                root,
            }),
            false => Err(CheckpointError::Origin),
        }
    }
}

#[cfg(test)]
mod tests {
    use ring::signature::{Ed25519KeyPair, KeyPair as _};

    use super::*;

    #[test]
    fn a_checkpoint_is_read_as_it_was_signed() {
        let pair = Ed25519KeyPair::from_seed_unchecked(&[3; 32]).unwrap();
        let key = VerifierKey::new("example.com/log", pair.public_key().as_ref().try_into().unwrap()).unwrap();
        let open = |text: &str| Checkpoint::open(&key.note(text, pair.sign(text.as_bytes()).as_ref()), &key);
        let checkpoint = Checkpoint {
            origin: "example.com/log".to_owned(),
            size: 20_852_163,
            root: [7; 32],
        };
        let text = checkpoint.text();
        assert_eq!(open(&text), Ok(checkpoint.clone()));
        assert_eq!(open(&(text.clone() + "more\n")), Ok(checkpoint));
        for changed in [
            text.replace("\n2", "\n02"),
            text.replace("\n2", "\n+2"),
            text.replace("\n2", "\n-2"),
            text.replace("\n2", "\n\n2"),
            text.replace("20852163", "99999999999999999999"),
            text.replace("Bw", "B"),
            text.clone() + "\n",
            text.lines().take(2).flat_map(|line| [line, "\n"]).collect(),
        ] {
            assert_eq!(open(&changed), Err(CheckpointError::Form), "{changed:?}");
        }
        assert_eq!(open(&text.replace("/log", "/lag")), Err(CheckpointError::Origin));
    }
}
