//! `Sign` and `GetPublicKey` of KMS, with Ed25519 keys.

use std::collections::BTreeMap;

use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};

use super::request::{Request, response};

/// DER of a `SubjectPublicKeyInfo` before the 32 bytes of an Ed25519 key.
const DER_PREFIX: [u8; 12] = *b"\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00";

/// [Maximum size](https://docs.aws.amazon.com/kms/latest/APIReference/API_Sign.html) of a message of type `RAW`.
const MAX_MESSAGE: usize = 4096;

pub(super) fn respond(keys: &BTreeMap<String, Ed25519KeyPair>, request: &Request, body: &[u8]) -> HttpResponse {
    let body: Value = serde_json::from_slice(body).unwrap();
    let text = |name| body[name].as_str().unwrap_or_default();
    let (id, message) = (text("KeyId"), STANDARD.decode(text("Message")).unwrap());
    let Some(key) = keys.get(id) else {
        return request.error(400, "NotFoundException");
    };
    let is_raw = text("MessageType") == "RAW" && text("SigningAlgorithm") == "ED25519_SHA_512";
    let (name, value) = match request.operation.as_str() {
        "GetPublicKey" => ("PublicKey", [&DER_PREFIX, key.public_key().as_ref()].concat()),
        "Sign" if is_raw && (1..=MAX_MESSAGE).contains(&message.len()) => {
            ("Signature", key.sign(&message).as_ref().to_vec())
        }
        _ => return request.error(400, "ValidationException"),
    };
    response(200, json!({"KeyId": id, name: STANDARD.encode(value)}).to_string())
}
