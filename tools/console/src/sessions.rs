//! Sessions of browsers. Each sign-in starts a session, which ends after 8 hours or at sign-out.
//!
//! Browsers send the session cookie to every port of the host, so that other servers on this machine can receive it.
//! The end of the session limits how long a cookie is of use to them.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use super::secrets::{is_same, random};

/// Maximum duration of a session.
pub(super) const MAX_DURATION: Duration = Duration::from_secs(8 * 60 * 60);
/// Maximum number of sessions. A new session ends the least recently used.
const MAX_SESSIONS: usize = 64;

#[derive(Default)]
pub(super) struct Sessions(Mutex<Vec<Session>>);

struct Session {
    id: String,
    ends: Instant,
}

impl Sessions {
    /// Starts a session, and returns the value of its cookie.
    pub(super) fn start(&self) -> String {
        let id = random();
        let session = Session {
            id: id.clone(),
            ends: Instant::now() + MAX_DURATION,
        };
        let mut sessions = self.current();
        if sessions.len() >= MAX_SESSIONS {
            sessions.remove(0);
        }
        sessions.push(session);
        id
    }

    /// Returns `true` if a session has this cookie, which then is the most recently used.
    pub(super) fn contains(&self, cookie: &str) -> bool {
        let mut sessions = self.current();
        // Compares with each session, so that the duration does not depend on which one it is.
        let matching = |found, (at, session): (usize, &Session)| is_same(&session.id, cookie).then_some(at).or(found);
        let found = sessions.iter().enumerate().fold(None, matching);
        if let Some(at) = found {
            sessions[at..].rotate_left(1);
        }
        found.is_some()
    }

    pub(super) fn end(&self, cookie: &str) {
        self.current().retain(|session| !is_same(&session.id, cookie));
    }

    /// Returns the sessions that have not ended, least recently used first.
    fn current(&self) -> MutexGuard<'_, Vec<Session>> {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        sessions.retain(|session| session.ends > now);
        sessions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_session_ends_after_8_hours() {
        let sessions = Sessions::default();
        let cookie = sessions.start();
        tokio::time::advance(Duration::from_secs(8 * 60 * 60 - 1)).await;
        let later = sessions.start();
        assert!(sessions.contains(&cookie) && sessions.contains(&later));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(!sessions.contains(&cookie) && sessions.contains(&later));
    }

    #[test]
    fn sign_out_ends_one_session() {
        let sessions = Sessions::default();
        let (one, other) = (sessions.start(), sessions.start());
        for unknown in ["", "x", &one[1..]] {
            sessions.end(unknown);
            assert!(!sessions.contains(unknown), "{unknown}");
        }
        assert!(one != other && sessions.contains(&one));
        sessions.end(&one);
        assert!(!sessions.contains(&one) && sessions.contains(&other));
    }

    #[test]
    fn the_number_of_sessions_is_limited() {
        let sessions = Sessions::default();
        let cookies: Vec<_> = (0..=MAX_SESSIONS).map(|_| sessions.start()).collect();
        let is_open: Vec<_> = cookies.iter().map(|cookie| sessions.contains(cookie)).collect();
        assert!(!is_open[0] && is_open[1..].iter().all(|is_open| *is_open));
    }

    #[test]
    fn a_session_in_use_does_not_end_for_others() {
        let sessions = Sessions::default();
        let (used, unused) = (sessions.start(), sessions.start());
        for _ in 0..MAX_SESSIONS * 2 {
            assert!(sessions.contains(&used));
            sessions.start();
        }
        assert!(sessions.contains(&used) && !sessions.contains(&unused));
    }
}
