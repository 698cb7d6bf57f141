//! What lets in, and what a write must bring along.

use std::fmt;

use subtle::ConstantTimeEq as _;
use uuid::Uuid;

/// Form field of the CSRF token.
pub(super) const CSRF: &str = "csrf";

/// The secrets of one console. They end with it.
pub(super) struct Secrets {
    token: String,
    session: String,
    csrf: String,
}

impl Secrets {
    /// Secrets that nobody knows yet.
    pub(super) fn fresh() -> Self {
        Self::with_token(random())
    }

    /// The token is one that was agreed upon.
    pub(super) fn with_token(token: String) -> Self {
        Self {
            token,
            session: random(),
            csrf: random(),
        }
    }

    /// What lets in once: it is in the address that is opened.
    pub(super) fn token(&self) -> &str {
        &self.token
    }

    /// What the cookie holds of who was let in.
    pub(super) fn session(&self) -> &str {
        &self.session
    }

    /// What is in each form.
    pub(super) fn csrf(&self) -> &str {
        &self.csrf
    }

    pub(super) fn is_token(&self, text: &str) -> bool {
        is_same(&self.token, text)
    }

    pub(super) fn is_session(&self, text: &str) -> bool {
        is_same(&self.session, text)
    }

    pub(super) fn is_csrf(&self, text: &str) -> bool {
        is_same(&self.csrf, text)
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets")
    }
}

/// 244 bits of the operating system's.
fn random() -> String {
    format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple())
}

/// How long it takes tells nothing but the length.
fn is_same(a: &str, b: &str) -> bool {
    a.as_bytes().ct_eq(b.as_bytes()).into()
}
