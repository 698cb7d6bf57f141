//! Situations of guards of the functions, of the counter that a repair continues, and of layouts: a deployment with another one, and a
//! copy of the table.

use fastrand::Rng;
use serde_json::json;
use shared::domain::version::Version;

use crate::{
    draw::script::{SECOND, e0, pick},
    schedule::{
        Command, Content, Edit, FaultKind, Origin, Point, Schedule, Scope,
        StepKind::{self, Direct, Sqs, StopMapping},
    },
};

/// Time after which an audit reads what it found again.
const LAG: u64 = 60 * SECOND;

/// The clocks of all writers are behind that of a client, who sends an update again after others have replaced it in the recent
/// requests.
pub(super) fn clocks_behind(rng: &mut Rng, schedule: &mut Schedule) {
    schedule.settings.write_by_update(rng, &[1, 1, 2]);
    (schedule.settings.by_time, schedule.settings.skip_unchanged) = (false, false);
    schedule.settings.clock_offsets.fill(rng.i64(-5000..=-4000));
    let update = schedule.direct(0, 0, "e0", Origin::TimedClient, json!({"A": 0}));
    for number in 1..=11 {
        schedule.client(200 * number, 0, number);
    }
    schedule.step(4 * SECOND + rng.u64(..10 * SECOND), 0, Direct(update));
}

/// Latest items that are as deep or almost as large as DynamoDB allows. Their versions are compressed, or continue in further items.
pub(super) fn items_at_the_limits(rng: &mut Rng, schedule: &mut Schedule) {
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
                schedule.edit(at, 0, Edit::Replace(pick(rng, &contents)));
            }
        }
    }
    if rng.bool() {
        schedule.fault(Point::Invoke, rng.u32(..3), 1, FaultKind::Redelivered);
    }
}

/// An entity has almost the greatest version, and more updates follow than there are versions.
pub(super) fn greatest_version(rng: &mut Rng, schedule: &mut Schedule) {
    schedule.settings.write_by_update(rng, &[1, 10]);
    schedule.settings.skip_unchanged = false;
    // The first update creates the recent requests: only later ones are sent without a look at the number.
    schedule.edit(0, 0, Edit::WriteLatest(Version::MAX - rng.u64(1..=2)));
    for number in 1..=3 {
        schedule.client(number * SECOND, 0, number);
    }
}

/// An update changes nothing.
pub(super) fn unchanged(rng: &mut Rng, schedule: &mut Schedule) {
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
pub(super) fn unresponsive_table(rng: &mut Rng, schedule: &mut Schedule) {
    schedule.settings.by_time = true;
    schedule.settings.queue_batch_size = 10;
    // Each writer checks the layout.
    schedule.some(rng, "e1", 0, 12..13);
    schedule.window(20 * SECOND, 0, Scope::Unresponsive, LAG);
    let update = |number: u64| schedule.update("e0", Origin::Message, json!({"A": number}));
    let updates = (0..8).map(update).collect();
    schedule.step(20 * SECOND + 1 + rng.u64(..SECOND), 0, Sqs(updates));
}

/// A latest item is replaced while history is behind, and a repair gives it a number.
pub(super) fn late_history(rng: &mut Rng, schedule: &mut Schedule) {
    "stream".clone_into(&mut schedule.settings.write_mode);
    schedule.settings.startup = 0;
    schedule.settings.maximum_record_age = None;
    let stop = SECOND + rng.u64(..SECOND);
    schedule.client(0, 0, 0);
    schedule.step(stop, 1, StopMapping(40 * SECOND));
    for number in 1..=3 {
        schedule.client(stop + 16 * SECOND + number, 0, number);
    }
    schedule.edit(stop + 18 * SECOND, 0, Edit::Recreate);
    schedule.step(stop + 19 * SECOND + rng.u64(..10 * SECOND), 2, Command::Repair);
}

/// A version item is ahead of the latest item, and updates pass its number while a repair raises the latest item above it.
pub(super) fn raised_during_updates(rng: &mut Rng, schedule: &mut Schedule) {
    schedule.settings.write_by_update(rng, &[1, 10]);
    schedule.client(0, 0, 0);
    schedule.edit(2 * SECOND, 0, Edit::WriteVersion(rng.u64(1..=2)));
    let repair = 3 * SECOND;
    schedule.step(repair, 2, Command::Repair);
    for number in 1..=10 {
        schedule.client(repair + LAG + 200 * number, 0, number);
    }
    // Between the plan, which reads the number, and the raise.
    schedule.hang(rng.u32(15..19));
}

/// Another program writes an entity without a look at the layout.
fn replacement() -> StepKind {
    StepKind::Edit("e1".to_owned(), Edit::Replace(Content::Small))
}

/// Adds updates of an entity, one a second.
fn updates(rng: &mut Rng, schedule: &mut Schedule) {
    for number in 0..rng.u64(3..8) {
        schedule.client(SECOND * number, 0, number);
    }
}

/// Lets some invocations run a function with one of these layouts.
fn misdeploy(rng: &mut Rng, schedule: &mut Schedule, on: Point, kinds: &[FaultKind]) {
    updates(rng, schedule);
    let (nth, times) = (rng.u32(..3), rng.u32(1..=6));
    schedule.fault(on, nth, times, pick(rng, kinds));
}

/// For some invocations, stream-fn is deployed with another width of version keys, or with the other table of history.
pub(super) fn wrong_layout(rng: &mut Rng, schedule: &mut Schedule) {
    schedule.settings.lose_nothing();
    misdeploy(
        rng,
        schedule,
        Point::Invoke,
        &[FaultKind::WrongLayout, FaultKind::WrongHistory],
    );
}

/// For some invocations, writer-fn is deployed with another width of version keys, or without the table of history.
pub(super) fn wrong_writer(rng: &mut Rng, schedule: &mut Schedule) {
    (schedule.settings.own_history, schedule.settings.skip_unchanged) = (true, false);
    let kinds = [FaultKind::WrongLayout, FaultKind::WrongHistory];
    misdeploy(rng, schedule, Point::InvokeWriter, &kinds);
}

/// stream-fn is deployed without the table of history, and starts before writer-fn stores the layout. A table without a layout is one of
/// the default, so the check succeeds then.
pub(super) fn early_stream_function(rng: &mut Rng, schedule: &mut Schedule) {
    let settings = &mut schedule.settings;
    settings.lose_nothing();
    (settings.own_history, settings.digits, settings.starts_early) = (true, 1, true);
    updates(rng, schedule);
    schedule.fault(Point::Invoke, rng.u32(..3), rng.u32(1..=6), FaultKind::WrongHistory);
}

/// The functions start while the requests of their check of the layout are throttled or denied.
pub(super) fn unchecked_layout(rng: &mut Rng, schedule: &mut Schedule) {
    schedule.settings.lose_nothing();
    let scope = pick(rng, &[Scope::LayoutThrottled, Scope::LayoutDenied]);
    let millis = rng.u64(SECOND..20 * SECOND);
    schedule.window(0, 0, scope, millis);
    // Its record is there before the functions have checked the layout.
    for at in [10, SECOND, millis + SECOND] {
        schedule.step(at, 1, replacement());
    }
    for number in 0..8 {
        schedule.client(10 + 3 * SECOND * number, 0, number);
    }
}

/// The first deployment was rolled back, the functions are deployed with another history table, and an operator adopts it after some
/// updates.
pub(super) fn rolled_back_deployment(rng: &mut Rng, schedule: &mut Schedule) {
    schedule.settings.lose_nothing();
    (schedule.settings.own_history, schedule.settings.rolled_back) = (true, true);
    if rng.bool() {
        schedule.step(0, 1, replacement());
    }
    updates(rng, schedule);
    schedule.step(rng.u64(..8 * SECOND), 2, Command::AdoptTable);
}

/// An operator restores a backup to another table, runs the functions on it, and prunes and purges an entity of the copy.
pub(super) fn copied_table(rng: &mut Rng, schedule: &mut Schedule) {
    (schedule.settings.own_history, schedule.settings.skip_unchanged) = (true, false);
    updates(rng, schedule);
    schedule.step(rng.u64(..12 * SECOND), 1, Command::UseCopy(e0()));
}
