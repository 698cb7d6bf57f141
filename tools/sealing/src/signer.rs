//! The key that signs checkpoints: in KMS, or in a file.

use aws_sdk_kms::{
    Client,
    primitives::Blob,
    types::{MessageType, SigningAlgorithmSpec},
};
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use seal::log::{checkpoint::Checkpoint, note::VerifierKey};
use shared::dynamodb::client::error::ServiceError;

use crate::error::SealError;

/// First bytes of an Ed25519 key as `SubjectPublicKeyInfo`, see [RFC 8410](https://www.rfc-editor.org/rfc/rfc8410.html).
const PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// Signs the checkpoints of one log.
pub struct Signer {
    key: VerifierKey,
    source: Source,
}

enum Source {
    Seed(Box<Ed25519KeyPair>),
    Kms { client: Client, key: String },
}

impl Signer {
    /// Creates the signer of a key in KMS, of the type `ECC_NIST_EDWARDS25519`.
    ///
    /// # Errors
    ///
    /// The request fails, or the key has another type, or the name of the log cannot be one.
    pub async fn of_kms(client: Client, key: &str, origin: &str) -> Result<Self, SealError> {
        let output = client.get_public_key().key_id(key).send().await;
        let output = output.map_err(|error| ServiceError::new("GetPublicKey", &error))?;
        let info = output.public_key.map(Blob::into_inner).unwrap_or_default();
        let public = info.strip_prefix(&PREFIX).and_then(|key| key.try_into().ok());
        let public =
            public.ok_or_else(|| SealError::Setting("the key of the log is no Ed25519 key in KMS".to_owned()))?;
        let source = Source::Kms {
            client,
            key: key.to_owned(),
        };
        Ok(Self {
            key: verifier(origin, public)?,
            source,
        })
    }

    /// Creates the signer of a seed.
    ///
    /// # Errors
    ///
    /// The name of the log cannot be one.
    pub fn of_seed(seed: &[u8; 32], origin: &str) -> Result<Self, SealError> {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed);
        let pair = pair.map_err(|_| SealError::Setting("the file has no Ed25519 key".to_owned()))?;
        let public = pair.public_key().as_ref().try_into().unwrap_or([0; 32]);
        Ok(Self {
            key: verifier(origin, public)?,
            source: Source::Seed(Box::new(pair)),
        })
    }

    /// Returns the key that verifies.
    pub fn key(&self) -> &VerifierKey {
        &self.key
    }

    /// Returns the signed note of a checkpoint.
    ///
    /// # Errors
    ///
    /// The request fails, or the signature does not verify.
    pub async fn sign(&self, checkpoint: &Checkpoint) -> Result<String, SealError> {
        let text = checkpoint.text();
        let signature = match &self.source {
            Source::Seed(pair) => pair.sign(text.as_bytes()).as_ref().to_vec(),
            Source::Kms { client, key } => {
                let request = client
                    .sign()
                    .key_id(key)
                    .message(Blob::new(text.as_bytes()))
                    .message_type(MessageType::Raw)
                    .signing_algorithm(SigningAlgorithmSpec::Ed25519Sha512);
                let output = request.send().await;
                let output = output.map_err(|error| ServiceError::new("Sign", &error))?;
                output.signature.map(Blob::into_inner).unwrap_or_default()
            }
        };
        let note = self.key.note(&text, &signature);
        // A note that its readers reject is never published.
        Checkpoint::open(&note, &self.key)?;
        Ok(note)
    }
}

fn verifier(origin: &str, public: [u8; 32]) -> Result<VerifierKey, SealError> {
    let key = VerifierKey::new(origin, public);
    key.map_err(|_| {
        SealError::Setting("the name of the log is empty, or has a space, a control character or a +".to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_note_that_its_readers_reject_is_not_returned() {
        let [mut signer, other] = [7, 8].map(|seed| Signer::of_seed(&[seed; 32], "log").unwrap());
        let origin = "log".to_owned();
        let (size, root) = (1, [1; 32]);
        let checkpoint = Checkpoint { origin, size, root };
        assert!(signer.sign(&checkpoint).await.is_ok());
        signer.key = other.key;
        assert!(signer.sign(&checkpoint).await.is_err());
    }
}
