//! Access token, single-use token and CSRF token of a console.
//!
//! | secret | valid for | valid until |
//! |---|---|---|
//! | access token | sign-in, `Authorization: Bearer` | the console stops |
//! | single-use token | one sign-in by the address that is passed to the web browser | it is used, or a minute has passed |
//! | CSRF token | forms of a session | the console stops |
//!
//! Other users can read the arguments of the command that opens the web browser. Therefore its address contains the
//! single-use token.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use subtle::ConstantTimeEq as _;
use tokio::time::Instant;
use uuid::Uuid;

/// Form field of the CSRF token.
pub(super) const CSRF: &str = "csrf";
/// Time in which the web browser must use a single-use token.
const SINGLE_USE_TIMEOUT: Duration = Duration::from_secs(60);

pub(super) struct Secrets {
    token: String,
    csrf: String,
    single_use: Mutex<Option<SingleUse>>,
}

struct SingleUse {
    token: String,
    expires: Instant,
}

impl Secrets {
    /// Creates the secrets, with this access token or a random one.
    pub(super) fn new(token: Option<String>) -> Self {
        Self {
            token: token.unwrap_or_else(random),
            csrf: random(),
            single_use: Mutex::default(),
        }
    }

    pub(super) fn token(&self) -> &str {
        &self.token
    }

    pub(super) fn csrf(&self) -> &str {
        &self.csrf
    }

    pub(super) fn is_token(&self, text: &str) -> bool {
        is_same(&self.token, text)
    }

    pub(super) fn is_csrf(&self, text: &str) -> bool {
        is_same(&self.csrf, text)
    }

    /// Returns a new single-use token, which replaces the one before.
    pub(super) fn single_use(&self) -> String {
        let token = random();
        *self.single_use.lock().unwrap_or_else(PoisonError::into_inner) = Some(SingleUse {
            token: token.clone(),
            expires: Instant::now() + SINGLE_USE_TIMEOUT,
        });
        token
    }

    /// Uses the single-use token. Returns `true` for one of several calls with the valid token.
    pub(super) fn redeem(&self, text: &str) -> bool {
        let mut single_use = self.single_use.lock().unwrap_or_else(PoisonError::into_inner);
        let used = single_use.take_if(|known| is_same(&known.token, text));
        used.is_some_and(|used| Instant::now() < used.expires)
    }
}

/// Returns 244 random bits from the operating system.
pub(super) fn random() -> String {
    format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple())
}

/// Compares in constant time. The duration reveals only the length.
pub(super) fn is_same(a: &str, b: &str) -> bool {
    a.as_bytes().ct_eq(b.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn a_single_use_token_is_valid_once() {
        let secrets = Secrets::new(None);
        assert!(!secrets.redeem(""), "there is no token yet");
        let token = secrets.single_use();
        assert!(!secrets.is_token(&token) && token != secrets.csrf());
        for wrong in ["", "x", &token[1..], secrets.token(), secrets.csrf()] {
            assert!(!secrets.redeem(wrong), "{wrong}");
        }
        assert!(secrets.redeem(&token), "wrong tokens do not use it up");
        assert!(!secrets.redeem(&token));
        let (replaced, last) = (secrets.single_use(), secrets.single_use());
        assert!(!secrets.redeem(&replaced) && secrets.redeem(&last));
    }

    #[tokio::test(start_paused = true)]
    async fn a_single_use_token_expires() {
        let secrets = Secrets::new(None);
        let token = secrets.single_use();
        tokio::time::advance(Duration::from_secs(59)).await;
        assert!(secrets.redeem(&token));
        let token = secrets.single_use();
        tokio::time::advance(Duration::from_secs(60)).await;
        assert!(!secrets.redeem(&token));
    }

    #[test]
    fn one_of_several_requests_gets_the_single_use_token() {
        const THREADS: usize = 16;
        let secrets = Secrets::new(None);
        for _ in 0..100 {
            let (token, start) = (secrets.single_use(), Barrier::new(THREADS));
            let redeem = || {
                start.wait();
                secrets.redeem(&token)
            };
            let redeemed = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(redeem)).collect();
                threads
                    .into_iter()
                    .map(|thread| thread.join().unwrap())
                    .filter(|won| *won)
                    .count()
            });
            assert_eq!(redeemed, 1);
        }
    }
}
