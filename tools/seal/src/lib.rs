//! Provable history.
//!
//! ```text
//! item of a version ─> members ─> commitments ─> content root ─> leaf ─> entry of the log ─> tiles, checkpoint
//!      format          path, value    salt                               log: RFC 6962, C2SP tlog-tiles, signed note
//! ```
//!
//! [`mod@format`] has the bytes that are hashed; `docs/log-format.md` specifies them. [`log`] has the public formats around them. [`proof`] is what an
//! auditor receives, and verifies without AWS. None has a client, a clock or randomness.

pub mod format;
pub mod log;
pub mod proof;

/// A SHA-256 hash.
pub type Hash = [u8; 32];

/// Returns lowercase hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        for half in [byte >> 4, byte & 15] {
            text.push(char::from_digit(half.into(), 16).unwrap_or_default());
        }
        text
    })
}

/// Returns the bytes of lowercase hexadecimal digits, `None` for another text.
fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    if digits.len() != 2 * N {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}
