//! Situations of one entity with many writers: lost requests and responses, clocks that differ and jump, windows of different
//! deployments, messages that are delivered again, and senders whose clocks are wrong.

use fastrand::Rng;
use serde_json::json;

use super::Situation;
use crate::{
    clock::Jump,
    draw::{DAY, HOUR, MAX_OFFSET, MINUTE, SECOND, jumps, pick},
    queue::VISIBILITY_TIMEOUT_MILLIS,
    schedule::{Command, Content, Origin, Schedule, StepKind},
    windows::Scope,
};

const ENTITY: &str = "e0";

pub(super) const SITUATIONS: &[Situation] = &[
    dropped_while_ahead,
    lossy_entity,
    sender_clock_wrong,
    delivered_as_first,
    unchanged_duplicate,
    recorded_far_ahead,
    hot_entity,
];

pub(super) const FURTHER: &[Situation] = &[written_by_another_program, clock_a_year_ahead];

/// The latest item is ahead of all clocks. A message is received again, and its update is applied, without a response. Before the
/// next attempt, other updates remove its request from the recent requests.
fn dropped_while_ahead(rng: &mut Rng, schedule: &mut Schedule) {
    /// Time by which the clocks are ahead until they jump back.
    const AHEAD: u64 = 3500;
    write_by_update(rng, schedule, &[1, 1, 2, 4]);
    let writers = schedule.settings.clock_offsets.len();
    schedule.settings.clock_offsets = vec![3500; writers];
    schedule.settings.startup = 0;
    // IAM denies the first receive.
    schedule.window(0, 3, Scope::WriterDenied, SECOND);
    let late = schedule.update(ENTITY, Origin::Message, json!({"A": 0}));
    schedule.step(10, 3, StepKind::Sqs { updates: vec![late] });
    // These remove requests from the map that were recorded after the first receive.
    updates(rng, schedule, 10 * SECOND, 20 * SECOND, 20);
    let received = VISIBILITY_TIMEOUT_MILLIS + 10;
    let jump = received - 1500;
    updates(rng, schedule, jump - 500, jump - 50, 4);
    schedule.settings.clock_jumps = (0..writers)
        .map(|process| Jump {
            process,
            at: jump,
            offset: 0,
        })
        .collect();
    updates(rng, schedule, jump, received - 300, 30);
    schedule.window(received - 100, 3, Scope::SuccessUnanswered { update: late }, 1500);
    updates(rng, schedule, received + 300, jump + AHEAD - 300, 30);
}

/// Twelve writers with the same clock update an entity, while requests and responses are lost.
fn lossy_entity(rng: &mut Rng, schedule: &mut Schedule) {
    const WRITERS: u8 = 12;
    schedule.settings.clock_offsets = vec![rng.i64(-MAX_OFFSET..=MAX_OFFSET); WRITERS.into()];
    schedule.settings.by_time = false;
    schedule.settings.skip_unchanged = false;
    let (percent, millis) = pick(rng, &[(5, 10 * SECOND), (25, 20 * SECOND)]);
    let scope = Scope::Lossy {
        entity: ENTITY.to_owned(),
        percent,
    };
    schedule.step(0, WRITERS, StepKind::Window { scope, millis });
    for number in 0..pick(rng, &[5, 8, 15]) {
        for source in 0..WRITERS {
            // A search of history for each delivery that is repeated takes long.
            let origin = pick(
                rng,
                &[Origin::Client, Origin::Client, Origin::Client, Origin::TimedClient],
            );
            let update = schedule.update(ENTITY, origin, json!({"A": number}));
            let at = number * millis / 16 + rng.u64(..200);
            schedule.step(at, source, StepKind::Direct { update });
        }
    }
}

/// The sender of an event or of an update has a wrong clock. It is delivered again after others have replaced it in the recent
/// requests.
fn sender_clock_wrong(rng: &mut Rng, schedule: &mut Schedule) {
    write_by_update(rng, schedule, &[1, 1, 2]);
    let longest = pick(rng, &[MINUTE, HOUR, 30 * DAY]);
    let wrong = i64::try_from(rng.u64(10 * SECOND..longest)).unwrap_or_default();
    let origin = pick(rng, &[Origin::Event, Origin::Event, Origin::TimedClient]);
    let first = schedule.update(ENTITY, origin, json!({"A": 0}));
    schedule.updates[first].sent_offset = if rng.u8(..4) == 0 { -wrong } else { wrong };
    let mut deliver = |schedule: &mut Schedule, at: u64| {
        let delivery = match (origin, rng.u8(..3)) {
            (_, 0) => StepKind::Sqs { updates: vec![first] },
            (Origin::Event, _) => StepKind::Asynchronous { update: first },
            _ => StepKind::Direct { update: first },
        };
        schedule.step(at, 0, delivery);
    };
    deliver(schedule, 0);
    deliver(schedule, 30 * SECOND);
    deliver(schedule, 5 * MINUTE);
    updates(rng, schedule, SECOND, 20 * SECOND, 15);
}

/// A queue delivers a message again after others have replaced it in the recent requests, and shows the receive count of a first
/// delivery.
fn delivered_as_first(rng: &mut Rng, schedule: &mut Schedule) {
    write_by_update(rng, schedule, &[1, 1, 2, 4]);
    let origin = pick(rng, &[Origin::Message, Origin::Client, Origin::Event]);
    let first = schedule.update(ENTITY, origin, json!({"A": 0}));
    schedule.step(0, 0, StepKind::Sqs { updates: vec![first] });
    updates(rng, schedule, SECOND, 20 * SECOND, 15);
    for _ in 0..rng.u8(1..3) {
        let (update, as_first) = (first, true);
        let at = 21 * SECOND + rng.u64(..2 * MINUTE);
        schedule.step(at, 1, StepKind::Redeliver { update, as_first });
    }
}

/// An update is delivered again after others have changed the entity and changed it back.
fn unchanged_duplicate(rng: &mut Rng, schedule: &mut Schedule) {
    write_by_update(rng, schedule, &[1, 1, 2, 4]);
    schedule.settings.skip_unchanged = true;
    let first = schedule.update(ENTITY, Origin::TimedClient, json!({"A": 0}));
    schedule.step(0, 0, StepKind::Direct { update: first });
    for number in 1..=14 {
        schedule.direct(number * SECOND, 0, ENTITY, Origin::Client, json!({"A": number % 2}));
    }
    schedule.step(30 * SECOND + rng.u64(..MINUTE), 0, StepKind::Direct { update: first });
}

/// Another program writes a latest item with a time that is far ahead, and updates follow.
fn recorded_far_ahead(rng: &mut Rng, schedule: &mut Schedule) {
    write_by_update(rng, schedule, &[1, 4, 10]);
    updates(rng, schedule, 0, 2 * SECOND, 5);
    let millis = pick(rng, &[16 * MINUTE, HOUR, 30 * DAY, 365 * DAY]);
    let entity = ENTITY.to_owned();
    schedule.step(3 * SECOND, 1, StepKind::FarAhead { entity, millis });
    let from = schedule.updates.len();
    updates(rng, schedule, 4 * SECOND, 20 * SECOND, 20);
    for _ in 0..3 {
        let update = rng.usize(from..schedule.updates.len());
        let at = 25 * SECOND + rng.u64(..MINUTE);
        schedule.step(at, 0, StepKind::Direct { update });
    }
    let (command, at) = match rng.u8(..3) {
        0 => (Command::Repair, 2 * MINUTE),
        1 => (Command::Repair, 25 * SECOND),
        _ => {
            let entity = ENTITY.to_owned();
            (Command::Purge { entity }, 2 * MINUTE)
        }
    };
    schedule.command(at, 1, command);
    // New versions after a purge, of which records come late.
    if rng.bool() {
        schedule.step(5 * MINUTE, 1, StepKind::StopMapping { millis: 2 * MINUTE });
    }
    let count = rng.u64(1..30);
    updates(rng, schedule, 5 * MINUTE, 6 * MINUTE, count);
}

/// Another program writes a `RecordedAt` in another form, or replaces the latest item, and updates follow. Some are delivered again.
fn written_by_another_program(rng: &mut Rng, schedule: &mut Schedule) {
    write_by_update(rng, schedule, &[1, 4, 10]);
    // A time that cannot be read says nothing about the clocks of earlier writers.
    schedule.settings.clock_offsets.fill(0);
    let first = schedule.update(ENTITY, Origin::TimedClient, json!({"A": "first"}));
    schedule.step(0, 0, StepKind::Direct { update: first });
    updates(rng, schedule, 100, 2 * SECOND, 5);
    for at in [3 * SECOND, 10 * SECOND] {
        let entity = ENTITY.to_owned();
        let times = [
            json!({"S": "2027-01-01T00:00:00Z"}),
            json!({"N": "1795328688"}),
            json!({"S": "tomorrow"}),
        ];
        let kind = match rng.u8(..4) {
            0 => StepKind::PutLatest {
                entity,
                content: Content::Small,
            },
            _ => StepKind::OtherTime {
                entity,
                time: pick(rng, &times),
            },
        };
        schedule.step(at, 1, kind);
        updates(rng, schedule, at + SECOND, at + 6 * SECOND, 6);
    }
    schedule.step(20 * SECOND, 0, StepKind::Direct { update: first });
    if rng.bool() {
        schedule.command(MINUTE, 1, Command::Repair);
        updates(rng, schedule, 5 * MINUTE, 6 * MINUTE, 5);
    }
}

/// The clock of a writer is a year ahead for some seconds, and a repair begins a new sequence of times. Older updates stay stale.
fn clock_a_year_ahead(rng: &mut Rng, schedule: &mut Schedule) {
    write_by_update(rng, schedule, &[1, 4, 10]);
    schedule.settings.by_time = true;
    schedule.settings.clock_offsets.fill(0);
    let year = i64::try_from(365 * DAY).unwrap_or_default();
    let jump = |at, offset| Jump { process: 0, at, offset };
    schedule.settings.clock_jumps = vec![jump(2 * SECOND, year), jump(6 * SECOND, 0)];
    updates(rng, schedule, 0, 10 * SECOND, 20);
    let at = rng.u64(11 * SECOND..20 * SECOND);
    schedule.command(at, 3, Command::Repair);
    for at in [at + rng.u64(..5 * SECOND), 3 * MINUTE] {
        let timestamp = rng.u64(..18_000);
        let stale = schedule.update(ENTITY, Origin::Client, json!({"B": 1, "Timestamp": timestamp}));
        schedule.step(at, rng.u8(..3), StepKind::Direct { update: stale });
    }
    updates(rng, schedule, 4 * MINUTE, 5 * MINUTE, 3);
}

/// An entity gets up to several hundred updates: by writers whose clocks jump, and whose windows differ, while requests and responses
/// are lost and another program updates it. Some updates are delivered again.
fn hot_entity(rng: &mut Rng, schedule: &mut Schedule) {
    const SOURCES: u8 = 4;
    schedule.settings.by_time = false;
    schedule.settings.skip_unchanged = false;
    schedule.settings.forgets_receives = true;
    schedule.settings.mix_windows(rng);
    let count = pick(rng, &[40, 40, 40, 40, 60, 60, 100, 300]);
    let duration = count * rng.u64(30..150);
    schedule.settings.clock_jumps = jumps(rng, schedule.settings.clock_offsets.len(), duration);
    for _ in 0..rng.u8(0..3) {
        let scope = Scope::Lossy {
            entity: ENTITY.to_owned(),
            percent: pick(rng, &[5, 25]),
        };
        let (at, millis) = (rng.u64(..duration), rng.u64(SECOND..5 * SECOND));
        schedule.step(at, SOURCES, StepKind::Window { scope, millis });
    }
    for number in 0..count {
        let origin = pick(
            rng,
            &[Origin::TimedClient, Origin::TimedClient, Origin::Message, Origin::Event],
        );
        let update = schedule.update(ENTITY, origin, json!({"A": number}));
        let at = number * duration / count;
        for at in [Some(at), (rng.u8(..4) == 0).then(|| at + rng.u64(..duration))]
            .into_iter()
            .flatten()
        {
            let delivery = match origin {
                Origin::TimedClient => StepKind::Direct { update },
                _ => StepKind::Sqs { updates: vec![update] },
            };
            schedule.step(at, rng.u8(..SOURCES), delivery);
        }
        if origin == Origin::Message && rng.u8(..4) == 0 {
            let (at, as_first) = (at + rng.u64(..2 * duration), rng.bool());
            schedule.step(at, SOURCES, StepKind::Redeliver { update, as_first });
        }
        if rng.u8(..10) == 0 {
            let (entity, value) = (ENTITY.to_owned(), usize::from(rng.u8(..)));
            schedule.step(at, SOURCES, StepKind::OtherProgram { entity, value });
        }
    }
}

/// Chooses settings in which the condition of an `UpdateItem` alone decides.
fn write_by_update(rng: &mut Rng, schedule: &mut Schedule, windows: &[u8]) {
    pick(rng, &["stream", "inline"]).clone_into(&mut schedule.settings.write_mode);
    schedule.settings.window = Some(pick(rng, windows));
    schedule.settings.by_time = false;
    schedule.settings.skip_unchanged = false;
}

/// Adds updates by three clients in a period.
fn updates(rng: &mut Rng, schedule: &mut Schedule, from: u64, to: u64, count: u64) {
    for number in 0..count {
        let update = schedule.update(ENTITY, Origin::Client, json!({"A": number}));
        let at = from + number * (to - from) / count;
        schedule.step(at, rng.u8(..3), StepKind::Direct { update });
    }
}
