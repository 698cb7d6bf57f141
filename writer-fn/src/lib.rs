//! Applies upstream events to the latest items of entities: each update creates the next version.
//!
//! Data flows one way: event → [`event::request`] (remove the envelopes) → [`update`] → one request of the [`counter`] → its
//! outcome → [`response`] or [`error`].

pub mod counter;
pub mod error;
pub mod event;
mod metrics;
pub mod response;
#[cfg(feature = "runtime")]
mod runtime;
pub mod update;
mod writer;

use shared::{clock::Deadline, metrics::Tally};

#[cfg(feature = "runtime")]
pub use crate::runtime::run;
pub use crate::writer::Writer;
use crate::{
    error::{Error, InvalidEvent},
    event::{
        batch,
        request::{self, Carrier, Request},
    },
    response::Response,
};

impl Writer {
    /// Processes the first attempt of an invocation. `request_id` is the id that Lambda gave the invocation.
    pub async fn handle(&self, event: &str, request_id: &str, deadline: Deadline) -> Result<Response, Error> {
        self.handle_from(&Carrier::invocation(request_id), Some(event), deadline)
            .await
    }

    /// Processes one attempt of an invocation. `event` is `None` if it is not JSON.
    pub async fn handle_from(
        &self,
        invocation: &Carrier,
        event: Option<&str>,
        deadline: Deadline,
    ) -> Result<Response, Error> {
        let tally = Tally::default();
        let response = self.respond(event, invocation, deadline, &tally).await;
        tally.emit(&invocation.id);
        response
    }

    async fn respond(
        &self,
        event: Option<&str>,
        invocation: &Carrier,
        deadline: Deadline,
        tally: &Tally,
    ) -> Result<Response, Error> {
        let parsed = event.ok_or(InvalidEvent::NotJson).and_then(request::parse);
        let update = match parsed {
            Ok(Request::Batch(messages)) => {
                self.check_layout(deadline).await?;
                return Ok(Response::Batch(batch::write(self, messages, deadline, tally).await?));
            }
            Ok(Request::Update(envelope)) => self.open(envelope, invocation),
            Err(error) => Err(error),
        };
        let update = update
            .map_err(Error::from)
            .inspect_err(|error| writer::reject(None, error, tally))?;
        self.check_layout(deadline).await?;
        Ok(Response::Update(self.write(&update, None, deadline, tally).await?))
    }
}
