//! Situations of guards of the functions, and of the counter that a repair continues.

use shared::domain::version::Version;

use super::*;

/// Time after which an audit reads what it found again.
const LAG: u64 = 60 * SECOND;

pub(super) const SITUATIONS: &[Situation] = &[
    clocks_behind,
    greatest_version,
    unchanged,
    unresponsive_table,
    late_history,
    raised_during_updates,
    items_at_the_limits,
];

/// The clocks of all writers are behind that of a client, who sends an update again after others have replaced it in the recent
/// requests.
fn clocks_behind(rng: &mut Rng, schedule: &mut Schedule) {
    schedule.settings.write_by_update(rng, &[1, 1, 2]);
    (schedule.settings.by_time, schedule.settings.skip_unchanged) = (false, false);
    schedule.settings.clock_offsets.fill(rng.i64(-5000..=-4000));
    let update = schedule.direct(0, 0, "e0", Origin::TimedClient, json!({"A": 0}));
    for number in 1..=11 {
        schedule.client(200 * number, 0, number);
    }
    schedule.step(4 * SECOND + rng.u64(..10 * SECOND), 0, Direct { update });
}

/// Latest items that are as deep or almost as large as DynamoDB allows. Their versions are compressed, or continue in further items.
fn items_at_the_limits(rng: &mut Rng, schedule: &mut Schedule) {
    schedule.settings.own_history = rng.bool();
    schedule.settings.skip_unchanged = false;
    for number in 0..rng.u64(2..6) {
        let at = SECOND * number;
        match rng.u8(..5) {
            // 31 or 32 levels. A map around them is one more.
            0 => schedule.client(
                at,
                0,
                (0..rng.u8(30..32)).fold(json!(number), |value, _| json!([value])),
            ),
            1 => schedule.client(at, 0, "x".repeat(400_000)),
            _ => {
                let contents = [
                    Content::Small,
                    Content::Attributes,
                    Content::Bytes,
                    Content::ImageDeflate,
                ];
                let (entity, content) = (e0(), pick(rng, &contents));
                schedule.step(at, 0, PutLatest { entity, content });
            }
        }
    }
    if rng.bool() {
        schedule.fault(Point::Invoke, rng.u32(..3), 1, FaultKind::Redelivered);
    }
}

/// An entity has almost the greatest version, and more updates follow than there are versions.
fn greatest_version(rng: &mut Rng, schedule: &mut Schedule) {
    schedule.settings.write_by_update(rng, &[1, 10]);
    schedule.settings.skip_unchanged = false;
    // The first update creates the recent requests: only later ones are sent without a look at the number.
    let (entity, version) = (e0(), Version::MAX - rng.u64(1..=2));
    schedule.step(0, 0, WriteLatest { entity, version });
    for number in 1..=3 {
        schedule.client(number * SECOND, 0, number);
    }
}

/// An update changes nothing.
fn unchanged(rng: &mut Rng, schedule: &mut Schedule) {
    schedule.settings.skip_unchanged = true;
    let mut members = json!({"A": rng.u8(..4)});
    if schedule.settings.by_time {
        members["Timestamp"] = json!(1);
    }
    for at in [0, SECOND] {
        schedule.direct(at, 0, "e0", Origin::Client, members.clone());
    }
}

/// The table does not respond while a writer has a batch of messages of one entity. With an order by time, it tries each of them.
fn unresponsive_table(rng: &mut Rng, schedule: &mut Schedule) {
    schedule.settings.by_time = true;
    schedule.settings.queue_batch_size = 10;
    schedule.window(0, 0, Scope::Unresponsive, LAG);
    let update = |number: u64| schedule.update("e0", Origin::Message, json!({"A": number}));
    let updates = (0..8).map(update).collect();
    schedule.step(1 + rng.u64(..SECOND), 0, Sqs { updates });
}

/// A latest item is replaced while history is behind, and a repair gives it a number.
fn late_history(rng: &mut Rng, schedule: &mut Schedule) {
    "stream".clone_into(&mut schedule.settings.write_mode);
    schedule.settings.startup = 0;
    schedule.settings.maximum_record_age = None;
    let stop = SECOND + rng.u64(..SECOND);
    schedule.client(0, 0, 0);
    schedule.step(stop, 1, StopMapping { millis: 40 * SECOND });
    for number in 1..=3 {
        schedule.client(stop + 16 * SECOND + number, 0, number);
    }
    let (entity, create) = (e0(), true);
    schedule.step(stop + 18 * SECOND, 0, DeleteLatest { entity, create });
    schedule.step(stop + 19 * SECOND + rng.u64(..10 * SECOND), 2, Command::Repair);
}

/// A version item is ahead of the latest item, and updates pass its number while a repair raises the latest item above it.
fn raised_during_updates(rng: &mut Rng, schedule: &mut Schedule) {
    schedule.settings.write_by_update(rng, &[1, 10]);
    schedule.client(0, 0, 0);
    let (entity, ahead) = (e0(), rng.u64(1..=2));
    schedule.step(2 * SECOND, 0, WriteVersion { entity, ahead });
    let repair = 3 * SECOND;
    schedule.step(repair, 2, Command::Repair);
    for number in 1..=10 {
        schedule.client(repair + LAG + 200 * number, 0, number);
    }
    // Between the plan, which reads the number, and the raise.
    schedule.hang(rng.u32(15..19));
}
