//! Access token, session cookie and CSRF token of a console.

use subtle::ConstantTimeEq as _;
use uuid::Uuid;

/// Form field of the CSRF token.
pub(super) const CSRF: &str = "csrf";

pub(super) struct Secrets {
    token: String,
    session: String,
    csrf: String,
}

impl Secrets {
    /// Creates the secrets, with this access token or a random one.
    pub(super) fn new(token: Option<String>) -> Self {
        Self {
            token: token.unwrap_or_else(random),
            session: random(),
            csrf: random(),
        }
    }

    pub(super) fn token(&self) -> &str {
        &self.token
    }

    pub(super) fn session(&self) -> &str {
        &self.session
    }

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

/// Returns 244 random bits from the operating system.
fn random() -> String {
    format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple())
}

/// Compares in constant time. The duration reveals only the length.
fn is_same(a: &str, b: &str) -> bool {
    a.as_bytes().ct_eq(b.as_bytes()).into()
}
