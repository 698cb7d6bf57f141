//! Situations of one entity with many writers: lost requests and responses, clocks that differ and jump, windows of different
//! deployments, messages that are delivered again, and senders whose clocks are wrong.

use fastrand::Rng;
use serde_json::json;

use crate::{
    draw::script::{DAY, HOUR, MAX_OFFSET, MINUTE, SECOND, e0, jumps, pick},
    queue::VISIBILITY_TIMEOUT_MILLIS,
    schedule::{
        Command, Content, Edit, Jump, Origin, Schedule, Scope,
        StepKind::{Asynchronous, Direct, Redeliver, Sqs, StopMapping},
    },
};

/// The latest item is ahead of all clocks. A message is received again, and its update is applied, without a response. Before the
/// next attempt, other updates remove its request from the recent requests.
pub(super) fn dropped_while_ahead(rng: &mut Rng, schedule: &mut Schedule) {
    /// Time by which the clocks are ahead until they jump back.
    const AHEAD: u64 = 3500;
    write_by_update(rng, schedule, &[1, 1, 2, 4]);
    let received = VISIBILITY_TIMEOUT_MILLIS + 10;
    let at = received - 1500;
    let writers = 0..schedule.settings.clock_offsets.len();
    schedule.settings.clock_offsets = vec![3500; writers.len()];
    schedule.settings.startup = 0;
    // IAM denies the first receive.
    schedule.window(0, 3, Scope::WriterDenied, SECOND);
    let update = schedule.update("e0", Origin::Message, json!({"A": 0}));
    schedule.step(10, 3, Sqs(vec![update]));
    // These remove requests from the map that were recorded after the first receive.
    schedule.clients(rng, 10 * SECOND..20 * SECOND, 20);
    schedule.clients(rng, at - 500..at - 50, 4);
    let jump = |process| Jump { process, at, offset: 0 };
    schedule.settings.clock_jumps = writers.map(jump).collect();
    schedule.clients(rng, at..received - 300, 30);
    schedule.window(received - 100, 3, Scope::SuccessUnanswered { update }, 1500);
    schedule.clients(rng, received + 300..at + AHEAD - 300, 30);
}

/// Twelve writers with the same clock update an entity, while requests and responses are lost.
pub(super) fn lossy_entity(rng: &mut Rng, schedule: &mut Schedule) {
    const WRITERS: u8 = 12;
    schedule.settings.clock_offsets = vec![rng.i64(-MAX_OFFSET..=MAX_OFFSET); WRITERS.into()];
    (schedule.settings.by_time, schedule.settings.skip_unchanged) = (false, false);
    let (percent, millis) = pick(rng, &[(5, 10 * SECOND), (25, 20 * SECOND)]);
    let entity = e0();
    schedule.window(0, WRITERS, Scope::Lossy { entity, percent }, millis);
    for number in 0..pick(rng, &[5, 8, 15]) {
        for source in 0..WRITERS {
            // A search of history for each delivery that is repeated takes long.
            let origin = [Origin::Client, Origin::Client, Origin::Client, Origin::TimedClient];
            let origin = pick(rng, &origin);
            let at = number * millis / 16 + rng.u64(..200);
            schedule.direct(at, source, "e0", origin, json!({"A": number}));
        }
    }
}

/// The sender of an event or of an update has a wrong clock. It is delivered again after others have replaced it in the recent
/// requests.
pub(super) fn sender_clock_wrong(rng: &mut Rng, schedule: &mut Schedule) {
    write_by_update(rng, schedule, &[1, 1, 2]);
    let longest = pick(rng, &[MINUTE, HOUR, 30 * DAY]);
    let wrong = i64::try_from(rng.u64(10 * SECOND..longest)).unwrap_or_default();
    let origin = pick(rng, &[Origin::Event, Origin::Event, Origin::TimedClient]);
    let update = schedule.update("e0", origin, json!({"A": 0}));
    schedule.updates[update].sent_offset = if rng.u8(..4) == 0 { -wrong } else { wrong };
    for at in [0, 30 * SECOND, 5 * MINUTE] {
        let delivery = match (origin, rng.u8(..3)) {
            (_, 0) => Sqs(vec![update]),
            (Origin::Event, _) => Asynchronous(update),
            _ => Direct(update),
        };
        schedule.step(at, 0, delivery);
    }
    schedule.clients(rng, SECOND..20 * SECOND, 15);
}

/// A queue delivers a message again after others have replaced it in the recent requests, and shows the receive count of a first
/// delivery.
pub(super) fn delivered_as_first(rng: &mut Rng, schedule: &mut Schedule) {
    write_by_update(rng, schedule, &[1, 1, 2, 4]);
    let origin = pick(rng, &[Origin::Message, Origin::Client, Origin::Event]);
    let update = schedule.update("e0", origin, json!({"A": 0}));
    let as_first = true;
    schedule.step(0, 0, Sqs(vec![update]));
    schedule.clients(rng, SECOND..20 * SECOND, 15);
    for _ in 0..rng.u8(1..3) {
        let at = 21 * SECOND + rng.u64(..2 * MINUTE);
        schedule.step(at, 1, Redeliver { update, as_first });
    }
}

/// An update is delivered again after others have changed the entity and changed it back.
pub(super) fn unchanged_duplicate(rng: &mut Rng, schedule: &mut Schedule) {
    write_by_update(rng, schedule, &[1, 1, 2, 4]);
    schedule.settings.skip_unchanged = true;
    let update = schedule.direct(0, 0, "e0", Origin::TimedClient, json!({"A": 0}));
    for number in 1..=14 {
        schedule.client(number * SECOND, 0, number % 2);
    }
    schedule.step(30 * SECOND + rng.u64(..MINUTE), 0, Direct(update));
}

/// Another program writes a latest item with a time that is far ahead, and updates follow.
pub(super) fn recorded_far_ahead(rng: &mut Rng, schedule: &mut Schedule) {
    write_by_update(rng, schedule, &[1, 4, 10]);
    schedule.clients(rng, 0..2 * SECOND, 5);
    let millis = pick(rng, &[16 * MINUTE, HOUR, 30 * DAY, 365 * DAY]);
    schedule.edit(3 * SECOND, 1, Edit::FarAhead(millis));
    let from = schedule.updates.len();
    schedule.clients(rng, 4 * SECOND..20 * SECOND, 20);
    for _ in 0..3 {
        let update = rng.usize(from..schedule.updates.len());
        schedule.step(25 * SECOND + rng.u64(..MINUTE), 0, Direct(update));
    }
    let (command, at) = match rng.u8(..3) {
        0 => (Command::Repair, 2 * MINUTE),
        1 => (Command::Repair, 25 * SECOND),
        _ => (Command::Purge(e0()), 2 * MINUTE),
    };
    schedule.step(at, 1, command);
    // New versions after a purge, of which records come late.
    if rng.bool() {
        schedule.step(5 * MINUTE, 1, StopMapping(2 * MINUTE));
    }
    let count = rng.u64(1..30);
    schedule.clients(rng, 5 * MINUTE..6 * MINUTE, count);
}

/// Another program writes a `RecordedAt` in another form, or replaces the latest item, and updates follow. Some are delivered again.
pub(super) fn written_by_another_program(rng: &mut Rng, schedule: &mut Schedule) {
    write_by_update(rng, schedule, &[1, 4, 10]);
    // A time that cannot be read says nothing about the clocks of earlier writers.
    schedule.settings.clock_offsets.fill(0);
    let update = schedule.direct(0, 0, "e0", Origin::TimedClient, json!({"A": "first"}));
    schedule.clients(rng, 100..2 * SECOND, 5);
    for at in [3 * SECOND, 10 * SECOND] {
        let times = [
            json!({"S": "2027-01-01T00:00:00Z"}),
            json!({"N": "1795328688"}),
            json!({"S": "tomorrow"}),
        ];
        let edit = match rng.u8(..4) {
            0 => Edit::Replace(Content::Small),
            _ => Edit::OtherTime(pick(rng, &times)),
        };
        schedule.edit(at, 1, edit);
        schedule.clients(rng, at + SECOND..at + 6 * SECOND, 6);
    }
    schedule.step(20 * SECOND, 0, Direct(update));
    if rng.bool() {
        schedule.step(MINUTE, 1, Command::Repair);
        schedule.clients(rng, 5 * MINUTE..6 * MINUTE, 5);
    }
}

/// The clock of a writer is a year ahead for some seconds, and a repair begins a new sequence of times. Older updates stay stale.
pub(super) fn clock_a_year_ahead(rng: &mut Rng, schedule: &mut Schedule) {
    write_by_update(rng, schedule, &[1, 4, 10]);
    schedule.settings.by_time = true;
    schedule.settings.clock_offsets.fill(0);
    let year = i64::try_from(365 * DAY).unwrap_or_default();
    let jump = |at, offset| Jump { process: 0, at, offset };
    schedule.settings.clock_jumps = vec![jump(2 * SECOND, year), jump(6 * SECOND, 0)];
    schedule.clients(rng, 0..10 * SECOND, 20);
    let at = rng.u64(11 * SECOND..20 * SECOND);
    schedule.step(at, 3, Command::Repair);
    for at in [at + rng.u64(..5 * SECOND), 3 * MINUTE] {
        let stale = json!({"B": 1, "Timestamp": rng.u64(..18_000)});
        schedule.direct(at, rng.u8(..3), "e0", Origin::Client, stale);
    }
    schedule.clients(rng, 4 * MINUTE..5 * MINUTE, 3);
}

/// An entity gets up to several hundred updates: by writers whose clocks jump, and whose windows differ, while requests and responses
/// are lost and another program updates it. Some updates are delivered again.
pub(super) fn hot_entity(rng: &mut Rng, schedule: &mut Schedule) {
    const SOURCES: u8 = 4;
    let settings = &mut schedule.settings;
    (settings.by_time, settings.skip_unchanged, settings.forgets_receives) = (false, false, true);
    settings.mix_windows(rng);
    let count = pick(rng, &[40, 40, 40, 40, 60, 60, 100, 300]);
    let duration = count * rng.u64(30..150);
    settings.clock_jumps = jumps(rng, settings.clock_offsets.len(), duration);
    for _ in 0..rng.u8(0..3) {
        let (entity, percent) = (e0(), pick(rng, &[5, 25]));
        let (at, millis) = (rng.u64(..duration), rng.u64(SECOND..5 * SECOND));
        schedule.window(at, SOURCES, Scope::Lossy { entity, percent }, millis);
    }
    for number in 0..count {
        let origins = [Origin::TimedClient, Origin::TimedClient, Origin::Message, Origin::Event];
        let origin = pick(rng, &origins);
        let update = schedule.update("e0", origin, json!({"A": number}));
        let at = number * duration / count;
        let again = (rng.u8(..4) == 0).then(|| at + rng.u64(..duration));
        for at in [at].into_iter().chain(again) {
            let delivery = match origin {
                Origin::TimedClient => Direct(update),
                _ => Sqs(vec![update]),
            };
            schedule.step(at, rng.u8(..SOURCES), delivery);
        }
        if origin == Origin::Message && rng.u8(..4) == 0 {
            let (at, as_first) = (at + rng.u64(..2 * duration), rng.bool());
            schedule.step(at, SOURCES, Redeliver { update, as_first });
        }
        if rng.u8(..10) == 0 {
            schedule.edit(at, SOURCES, Edit::Increment(rng.u8(..).into()));
        }
    }
}

/// Chooses settings in which the condition of an `UpdateItem` alone decides.
fn write_by_update(rng: &mut Rng, schedule: &mut Schedule, windows: &[u8]) {
    schedule.settings.write_by_update(rng, windows);
    (schedule.settings.by_time, schedule.settings.skip_unchanged) = (false, false);
}
