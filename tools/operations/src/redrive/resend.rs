//! Updates of a dead-letter queue, sent to their queue again.
//!
//! The message gets a new id, so the update is sent with the original one, see [`crate::failures::update`]. It is sent first
//! and deleted from the dead-letter queue afterwards: after an interruption in between, writer-fn receives the same request
//! twice and applies it once.

use jiff::Timestamp;
use shared::logging::chain;
use tokio::sync::OnceCell;

use super::{
    queue::{Queue, Received, Sent},
    tally::{Count, Tally},
};
use crate::{
    error::OperationError,
    failures::update::{self, Origin, UpdateMessage},
};

#[derive(Debug, Clone, Default)]
pub struct Resend {
    /// URL of the queue that the updates are sent to, if not the only source queue of the dead-letter queue.
    pub to: Option<String>,
    /// `true` if nothing is sent.
    pub is_dry: bool,
}

/// Sends the updates of one dead-letter queue.
pub(super) struct Resender<'a> {
    letters: &'a Queue,
    /// `None` if updates stay in the queue.
    resend: Option<&'a Resend>,
    destination: OnceCell<Queue>,
}

impl<'a> Resender<'a> {
    pub(super) fn new(letters: &'a Queue, resend: Option<&'a Resend>) -> Self {
        Self {
            letters,
            resend,
            destination: OnceCell::new(),
        }
    }

    /// Returns the counts of the message, and `true` if it may be deleted.
    pub(super) async fn resend(
        &self,
        message: &Received,
        update: UpdateMessage,
    ) -> Result<(Tally, bool), OperationError> {
        let stays = |reason: &str| Ok((Tally::open(Count::NotResent, &message.name(), reason), false));
        let Some(resend) = self.resend else {
            return stays("it is an update, which only `vzero admin redrive` sends again");
        };
        let sent_at = message.sent_millis.and_then(iso);
        let origin = Origin {
            message_id: &message.id,
            sent_at: sent_at.as_deref(),
        };
        let body = update.identified(origin).unwrap_or_else(|| message.body.clone());
        if let Err(error) = update::check(&body, &message.id) {
            return stays(&chain(&error));
        }
        let destination = self
            .destination
            .get_or_try_init(|| self.find_destination(resend))
            .await?;
        if !resend.is_dry
            && let Sent::Rejected(error) = destination.send(message, body).await?
        {
            return stays(&error.to_string());
        }
        Ok((Tally::resent(&destination.url), !resend.is_dry))
    }

    async fn find_destination(&self, resend: &Resend) -> Result<Queue, OperationError> {
        let letters = &self.letters.url;
        let to = match &resend.to {
            Some(to) => to.clone(),
            None => only(self.letters.sources().await?).map_err(|sources| OperationError::SourceQueues {
                queue: letters.clone(),
                sources,
            })?,
        };
        if path(&to) == path(letters) {
            return Err(OperationError::SameQueue(to));
        }
        Ok(self.letters.with_url(&to))
    }
}

/// Returns the only element, or the number of elements.
fn only(urls: Vec<String>) -> Result<String, usize> {
    <[String; 1]>::try_from(urls)
        .map(|[only]| only)
        .map_err(|urls| urls.len())
}

/// Returns account and name of a queue: SQS has several host names in a Region.
fn path(url: &str) -> &str {
    let host = url.find("://").map_or(0, |scheme| scheme + "://".len());
    url[host..].find('/').map_or(url, |path| &url[host + path..])
}

fn iso(millis: i64) -> Option<String> {
    let time = Timestamp::from_millisecond(millis).ok()?;
    Some(format!("{time:.3}"))
}

#[cfg(test)]
mod tests;
