//! Secrets of a console.
//!
//! | secret | valid for | valid until |
//! |---|---|---|
//! | access token | sign-in, `Authorization: Bearer` | the console stops |
//! | single-use token | one sign-in by the address that is passed to the web browser | it is used, or a minute has passed |
//! | cookie | requests of a browser after its sign-in | the console stops |
//! | CSRF token | forms | the console stops |
//!
//! Other users can read the arguments of the command that opens the web browser. Therefore its address contains the
//! single-use token.

use std::{sync::Mutex, time::Duration};

use subtle::ConstantTimeEq as _;
use tokio::time::Instant;
use uuid::Uuid;

use crate::lock::lock;

/// Form field of the CSRF token.
pub(super) const CSRF: &str = "csrf";
/// Time in which the web browser must use a single-use token.
const SINGLE_USE_TIMEOUT: Duration = Duration::from_secs(60);

pub(super) struct Secret(String);

impl Secret {
    /// Returns 244 random bits from the operating system.
    fn random() -> Self {
        Self(format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple()))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// Compares in constant time. The duration reveals only the length.
    pub(super) fn is(&self, text: &str) -> bool {
        self.0.as_bytes().ct_eq(text.as_bytes()).into()
    }
}

pub(super) struct Secrets {
    pub(super) token: Secret,
    pub(super) cookie: Secret,
    pub(super) csrf: Secret,
    /// With the time at which it expires.
    single_use: Mutex<Option<(Secret, Instant)>>,
}

impl Secrets {
    /// Creates the secrets, with this access token or a random one.
    pub(super) fn new(token: Option<String>) -> Self {
        Self {
            token: token.map_or_else(Secret::random, Secret),
            cookie: Secret::random(),
            csrf: Secret::random(),
            single_use: Mutex::default(),
        }
    }

    /// Returns a new single-use token, which replaces the one before.
    pub(super) fn single_use(&self) -> String {
        let token = Secret::random();
        let text = token.0.clone();
        *lock(&self.single_use) = Some((token, Instant::now() + SINGLE_USE_TIMEOUT));
        text
    }

    /// Uses the single-use token. Returns `true` for one of several calls with the valid token.
    pub(super) fn redeem(&self, text: &str) -> bool {
        let used = lock(&self.single_use).take_if(|(token, _)| token.is(text));
        used.is_some_and(|(_, expires)| Instant::now() < expires)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_single_use_token_is_valid_once_within_a_minute() {
        let secrets = Secrets::new(None);
        assert!(!secrets.redeem(""), "there is no token yet");
        let token = secrets.single_use();
        for wrong in ["", "x", &token[1..], secrets.token.as_str(), secrets.csrf.as_str()] {
            assert!(!secrets.redeem(wrong), "{wrong}");
        }
        assert!(!secrets.token.is(&token) && !secrets.cookie.is(&token));
        tokio::time::advance(Duration::from_secs(59)).await;
        // Wrong tokens do not use it up. Of several requests, one gets it.
        let redeemed = std::thread::scope(|scope| {
            let redeem = || secrets.redeem(&token);
            let threads: Vec<_> = (0..16).map(|_| scope.spawn(redeem)).collect();
            let results = threads.into_iter().map(|thread| thread.join().unwrap());
            results.filter(|redeemed| *redeemed).count()
        });
        assert_eq!(redeemed, 1);
        let (replaced, last) = (secrets.single_use(), secrets.single_use());
        assert!(!secrets.redeem(&replaced) && secrets.redeem(&last));
        let late = secrets.single_use();
        tokio::time::advance(SINGLE_USE_TIMEOUT).await;
        assert!(!secrets.redeem(&late));
    }
}
