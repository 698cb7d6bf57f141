//! Hedged requests: a second, equal request if the first one has no answer after a delay. The first answer wins.
//!
//! ```text
//! first   ├──────── delay ───────┼────────────────── …     dropped when the second is answered
//! second                         ├──── answer ────>
//! ```
//!
//! Hedging lowers the latency of the slowest requests, and costs an additional request for each of them. Choose a delay that
//! most requests do not reach, such as their 95th percentile.
//!
//! Both requests can be applied, and the one that is dropped can arrive after other writes. A read is always safe. A write is
//! safe if its condition makes the later of both change nothing:
//!
//! | write | condition | result of the second request |
//! |---|---|---|
//! | [`Ratchet::put`](crate::ratchet::Ratchet::put), `delete` | the timestamp of the first attempt, which both have | `Applied` again, or `Stale` after a newer write |
//! | an update of an entity | the request id of the update, which both have | `Duplicate`, with the version of the first |
//!
//! Create the timestamp or the update before the call, not inside of the closure. Name `RequestSentAt` in the update: then
//! DynamoDB applies it once, even if many other updates are applied between both requests. Other writes, such as
//! [`TwoTables`](crate::two_tables::TwoTables) and [`Locked`](crate::optimistic_lock::Locked), are not made for hedging: their
//! second request is a conflict with the first.
//!
//! A request that is dropped in the write mode `inline` can stop between the update and the put of its version, as after a
//! crash. The second request or stream-fn stores this version.
//!
//! ```no_run
//! # async fn example(client: aws_sdk_dynamodb::Client) -> Result<(), Box<dyn std::error::Error>> {
//! use std::{collections::HashMap, time::Duration};
//! use patterns::{hedge::hedged, ratchet::{Key, Ratchet}};
//! use shared::{clock, domain::{AttributeValue, Item}};
//!
//! let ratings = Ratchet::new(client, "Ratings");
//! let key = Key::new("User#1", "Movie#A");
//! let rating = Item::from(HashMap::from([("Rating".to_owned(), AttributeValue::N("5".to_owned()))]));
//! let timestamp = i64::try_from(clock::since_epoch().as_millis())?;
//! hedged(Duration::from_millis(20), || ratings.put(&key, timestamp, rating.clone())).await?;
//! # Ok(())
//! # }
//! ```

use std::{pin::pin, time::Duration};

use tokio::{select, time::sleep};

/// Sends a request, and sends it a second time if the first has no answer after `delay`. Returns the first answer.
///
/// `request` makes the future of one request, and is called once or twice. The other future is dropped; its request can still
/// be applied.
///
/// # Errors
///
/// Returns the error of the first request if it fails before the second is sent: hedging does not retry. Afterwards an
/// error of one request waits for the other, and if both fail, the later error is returned.
pub async fn hedged<T, E, F>(delay: Duration, mut request: impl FnMut() -> F) -> Result<T, E>
where
    F: Future<Output = Result<T, E>>,
{
    let mut first = pin!(request());
    select! {
        biased;
        answer = &mut first => return answer,
        () = sleep(delay) => {}
    }
    let mut second = pin!(request());
    select! {
        biased;
        answer = &mut first => match answer {
            Ok(answer) => Ok(answer),
            Err(_) => second.await,
        },
        answer = &mut second => match answer {
            Ok(answer) => Ok(answer),
            Err(_) => first.await,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use tokio::time::Instant;

    use super::*;

    const DELAY: Duration = Duration::from_millis(100);

    /// Sends hedged requests that answer after these milliseconds. Returns the answer, its time, and the number of requests
    /// that were sent and that were answered.
    async fn answered(
        requests: &[(u64, Result<&'static str, &'static str>)],
    ) -> (Result<&'static str, &'static str>, u128, usize, usize) {
        let start = Instant::now();
        let (sent, answers) = (RefCell::new(0), RefCell::new(0));
        let answer = hedged(DELAY, || {
            let (wait, answer) = requests[*sent.borrow()];
            *sent.borrow_mut() += 1;
            let answers = &answers;
            async move {
                sleep(Duration::from_millis(wait)).await;
                *answers.borrow_mut() += 1;
                answer
            }
        })
        .await;
        let elapsed = start.elapsed().as_millis();
        // A request that was not dropped would be answered now.
        sleep(Duration::from_secs(10)).await;
        (answer, elapsed, *sent.borrow(), *answers.borrow())
    }

    #[tokio::test(start_paused = true)]
    async fn the_second_request_answers_for_a_slow_first() {
        let (first, second) = (|at| (at, Ok("first")), |at| (at, Ok("second")));
        let (first_fails, second_fails) = (|at| (at, Err("first")), |at| (at, Err("second")));
        for (requests, expected) in [
            (&[first(5_000), second(20)][..], (Ok("second"), 120, 2, 1)),
            // The first can still win.
            (&[first(110), second(20)], (Ok("first"), 110, 2, 1)),
            // An answer before the delay needs one request.
            (&[first(99)], (Ok("first"), 99, 1, 1)),
            (&[first_fails(99)], (Err("first"), 99, 1, 1)),
            // An error after the delay waits for the other request.
            (&[first_fails(110), second(300)], (Ok("second"), 400, 2, 2)),
            (&[first(300), second_fails(50)], (Ok("first"), 300, 2, 2)),
            (&[first_fails(110), second_fails(300)], (Err("second"), 400, 2, 2)),
            (&[first_fails(300), second_fails(50)], (Err("first"), 300, 2, 2)),
        ] {
            assert_eq!(answered(requests).await, expected, "{requests:?}");
        }
    }

    #[tokio::test]
    async fn hedged_requests_can_run_in_a_spawned_task() {
        let text = "answer".to_owned();
        let answer = tokio::spawn(async move { hedged(DELAY, || async { Ok::<_, ()>(text.clone()) }).await });
        assert_eq!(answer.await.unwrap(), Ok("answer".to_owned()));
    }
}
