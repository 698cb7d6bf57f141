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
    response::{HttpResponse, Response},
};

impl Writer {
    /// Processes one attempt of an invocation. `event` is `None` if it is not JSON.
    pub async fn handle(
        &self,
        invocation: &Carrier,
        event: Option<&str>,
        deadline: Deadline,
    ) -> Result<Response, Error> {
        let tally = Tally::default();
        let response = async {
            let (updates, is_http) = match event.ok_or(InvalidEvent::NotJson).and_then(request::parse) {
                Ok(Request::Batch(messages)) => {
                    self.check_layout(deadline).await?;
                    return Ok(Response::Batch(batch::write(self, messages, deadline, &tally).await?));
                }
                Ok(Request::Update(envelope)) => (envelope.open(invocation, self.ordering()), false),
                Ok(Request::Http(request)) => {
                    let update = request.open(&invocation.id, self.ordering());
                    (update.map(|update| vec![update]), true)
                }
                Err(error) => (Err(error), false),
            };
            let response = async {
                let updates = updates
                    .map_err(Error::from)
                    .inspect_err(|error| writer::reject(None, error, &tally))?;
                self.check_layout(deadline).await?;
                self.write(&updates, None, deadline, &tally).await
            };
            match is_http {
                true => Ok(Response::Http(HttpResponse::new(response.await))),
                false => response.await.map(Response::Update),
            }
        };
        let response = response.await;
        tally.emit(&invocation.id);
        response
    }
}
