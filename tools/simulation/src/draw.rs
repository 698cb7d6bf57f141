//! Generates schedules.

mod faults;
mod interleavings;
mod outages;
mod script;
mod sealing;
mod situations;
mod steps;
mod undo;

use fastrand::Rng;
use serde_json::{Value, json};

use self::{
    script::{MAX_OFFSET, Scale, jumps, pick},
    steps::steps,
};
use crate::schedule::{ChangeKind, Fault, FaultKind, Origin, Point, Schedule, Settings, StepKind, Update};

/// Number of writer processes.
const WRITERS: usize = 4;
/// One of these in this number has records without old images, and one has late records.
const NEW_IMAGES: u8 = 4;
const LATE_RECORDS: u8 = 4;
/// One schedule in this number has history in a table of its own.
const OWN_HISTORY: u8 = 3;
/// One schedule in this number has clocks that jump, and one has processes with different windows.
const PROCESSES: u8 = 4;
/// One schedule in this number has updates of a map.
const MAPS: u8 = 8;
const ORIGINS: [Origin; 5] = [
    Origin::Client,
    Origin::TimedClient,
    Origin::Event,
    Origin::Message,
    Origin::Invocation,
];
/// Number of states of an item of an attached table.
const STATES: u8 = 3;
/// One schedule in this number has such items at the size limit.
const LARGE_ITEMS: u8 = 12;
/// Characters of an attribute with which an item is close to the limit of 400 KB, or exceeds it.
const LARGE: [usize; 3] = [395_000, 408_000, 409_600];

/// Class of a schedule. Each seed has one. Random numbers of a class are independent of the others.
enum Class {
    /// Undos and changes at the same time.
    Races,
    ChangeSets,
    /// seal-fn and its log.
    Sealed,
    Undos(Rng),
    /// Changes of an attached table.
    Attached,
    Situation(Rng),
    Random(Rng),
}

impl Class {
    /// Of 48 seeds, 5 have a class of their own. The others are distributed at random.
    fn of(seed: u64, layout: &mut Rng) -> Self {
        match seed % 48 {
            13 => return Self::Races,
            29 | 45 => return Self::ChangeSets,
            5 | 35 => return Self::Sealed,
            _ => {}
        }
        let mut undos = Rng::with_seed(seed.wrapping_mul(0x76BF_0FAA_8121_667B));
        // Close seeds have similar first numbers.
        let mut kind = Rng::with_seed(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        match () {
            () if undos.u8(..10) == 0 => Self::Undos(undos),
            () if layout.u8(..6) == 0 => Self::Attached,
            () if kind.u8(..4) == 0 => Self::Situation(kind),
            () => Self::Random(kind),
        }
    }
}

impl Schedule {
    pub(crate) fn draw(seed: u64) -> Self {
        let (mut rng, mut layout) = (Rng::with_seed(seed), Rng::with_seed(!seed));
        let mut schedule = Self {
            seed,
            settings: Settings::draw(&mut rng),
            ..Self::default()
        };
        let settings = &mut schedule.settings;
        settings.own_history = layout.u8(..OWN_HISTORY) == 0;
        settings.compresses = settings.own_history && seed.count_ones().is_multiple_of(2);
        match Class::of(seed, &mut layout) {
            Class::Races => schedule.draw_races(&mut rng),
            Class::ChangeSets => situations::sets::change_sets(&mut rng, &mut schedule),
            Class::Sealed => schedule.draw_sealed(),
            Class::Undos(mut rng) => schedule.draw_undos(&mut rng),
            Class::Attached => schedule.draw_attached(&mut rng, &mut layout),
            Class::Situation(mut kind) => situations::draw(&mut rng, &mut kind, &mut schedule),
            Class::Random(mut kind) => {
                settings.vary_processes(&mut layout);
                schedule.draw_random(&mut rng, &mut kind);
            }
        }
        schedule
    }

    fn draw_random(&mut self, rng: &mut Rng, kind: &mut Rng) {
        let scale = Scale::draw(rng);
        let settings = &self.settings;
        let updates = (0..scale.updates).map(|number| Update::draw(rng, number, &scale, settings));
        let mut updates: Vec<_> = updates.collect();
        if rng.u8(..40) == 0 {
            updates.extend(large(rng, updates.len(), settings));
        }
        if kind.u8(..MAPS) == 0 {
            let first = updates.len();
            updates.extend((first..first + 4).map(|number| map(kind, number, settings)));
        }
        steps(rng, self, &updates, &scale);
        self.updates = updates;
        self.faults = (0..rng.usize(0..=6)).map(|_| Fault::draw(rng, &scale)).collect();
        if scale.is_hot {
            // Other updates follow while the writer waits for a response.
            let (nth, times) = (rng.u32(..40), rng.u32(1..=3));
            let kind = pick(rng, &[FaultKind::TimeOut, FaultKind::Delayed]);
            self.fault(Point::Bump, nth, times, kind);
        }
    }

    /// Draws changes of clients to an attached table, and the faults of stream-fn beside them.
    fn draw_attached(&mut self, rng: &mut Rng, layout: &mut Rng) {
        let items = rng.u8(1..=4);
        // Most changes come close together, so that an invocation has several of an item.
        let pause = pick(rng, &[50, 400, 3000]);
        let mut at = 0;
        for _ in 0..rng.usize(4..50) {
            at += rng.u64(0..pause);
            let state = rng.u8(..STATES);
            let (kind, splits) = match rng.u8(..12) {
                0..=2 => (ChangeKind::Put(state), false),
                3..=6 => (ChangeKind::Update(state), false),
                7 | 8 => (ChangeKind::Touch(state), false),
                9 | 10 => (ChangeKind::Delete, false),
                _ => (ChangeKind::Put(state), rng.u8(..4) == 0),
            };
            let item = rng.u8(..items);
            let change = StepKind::Change { item, kind };
            self.step(at, 0, if splits { StepKind::SplitShard } else { change });
        }
        self.faults = (0..rng.usize(0..=5)).map(|_| Fault::draw_of_attached(rng)).collect();
        if rng.u8(..LARGE_ITEMS) == 0 {
            let kinds = self.steps.iter_mut().filter_map(|step| match &mut step.kind {
                StepKind::Change { kind, .. } => Some(kind),
                _ => None,
            });
            let puts = kinds.filter(|kind| matches!(kind, ChangeKind::Put(_)));
            for kind in puts.take(3) {
                *kind = ChangeKind::Large(rng.u8(..STATES));
            }
        }
        let settings = &mut self.settings;
        settings.attached = true;
        settings.stale_reads = layout.bool();
        settings.new_images = layout.u8(..NEW_IMAGES) == 0;
        if layout.u8(..LATE_RECORDS) == 0 {
            settings.maximum_retry_attempts = Some(layout.u32(..2));
            self.faults.extend(Fault::draw_late_records(layout));
        }
    }
}

impl Settings {
    fn draw(rng: &mut Rng) -> Self {
        let window = pick(
            rng,
            &[Some(1), Some(2), Some(3), Some(4), Some(10), Some(16), None, None],
        );
        let max_offset = pick(rng, &[0, MAX_OFFSET, MAX_OFFSET]);
        Self {
            clock_offsets: (0..WRITERS).map(|_| rng.i64(-max_offset..=max_offset)).collect(),
            write_mode: pick(rng, &["stream", "stream", "inline", "transaction"]).to_owned(),
            window,
            by_time: rng.u8(..4) == 0,
            skip_unchanged: rng.u8(..6) == 0,
            digits: pick(rng, &[1, 1, 2]),
            batch_size: pick(rng, &[1, 2, 5, 100]),
            batching_window: pick(rng, &[0, 0, 1]),
            parallelization_factor: pick(rng, &[1, 2, 3]),
            bisect: rng.u8(..3) > 0,
            maximum_retry_attempts: pick(rng, &[None, Some(0), Some(1), Some(2), Some(4)]),
            maximum_record_age: pick(rng, &[None, None, Some(60)]),
            startup: pick(rng, &[0, 0, 0, 51, 72]),
            shards: pick(rng, &[1, 1, 2, 3]),
            queue_batch_size: pick(rng, &[1, 3, 10]),
            ..Self::default()
        }
    }

    /// Lets the processes differ, and the queue forget receives, in some schedules.
    fn vary_processes(&mut self, rng: &mut Rng) {
        self.forgets_receives = rng.u8(..PROCESSES) == 0;
        if rng.u8(..PROCESSES) == 0 {
            self.clock_jumps = jumps(rng, self.clock_offsets.len(), 5000);
        }
        if rng.u8(..PROCESSES) == 0 {
            self.mix_windows(rng);
        }
    }

    /// Gives each process a window of its own, unless there is a ledger.
    fn mix_windows(&mut self, rng: &mut Rng) {
        if self.window.is_some() {
            self.windows = self.clock_offsets.iter().map(|_| Some(rng.u8(1..=20))).collect();
            self.window = self.windows.iter().copied().flatten().min();
        }
    }
}

impl Update {
    fn draw(rng: &mut Rng, number: usize, scale: &Scale, settings: &Settings) -> Self {
        let mut members = json!({});
        for name in ["A", "B", "C"] {
            match rng.u8(..6) {
                0 => members[name] = Value::Null,
                1 | 2 => members[name] = json!(rng.u8(..4)),
                3 => members[name] = json!(format!("text-{}", rng.u8(..4))),
                _ => {}
            }
        }
        if rng.u8(..8) == 0 {
            members["Deleted"] = json!(true);
        }
        if rng.u8(..16) == 0 {
            members["ExpectedVersion"] = json!(rng.u8(..4));
        }
        if settings.by_time {
            let earliest = if scale.is_hot { 100 * number } else { 0 };
            members["Timestamp"] = json!(earliest + rng.usize(1..1000));
        } else if rng.u8(..4) == 0 {
            members["Time"] = json!(format!("2026-01-01T00:00:0{}Z", rng.u8(..4)));
        }
        if !settings.skip_unchanged {
            // It shows which update created a version, whatever the writer says.
            members["Mark"] = json!(format!("r{number}"));
        }
        for name in ["Actor", "Reason", "ChangeSet"] {
            if rng.u8(..3) == 0 {
                members[name] = json!(format!("text-{}", rng.u8(..4)));
            }
        }
        let entity = scale.entity(rng);
        Self::new(number, &entity, members, pick(rng, &ORIGINS))
    }
}

/// Returns an update of an entity of its own that sets or removes a map, or changes its members.
fn map(rng: &mut Rng, number: usize, settings: &Settings) -> Update {
    let value = match rng.u8(..6) {
        0 | 1 => json!({"X": rng.u8(..4), "Y": {"Z": rng.u8(..4)}}),
        2 => Value::Null,
        3 => json!({"$update": {"X": null, "Y": rng.u8(..4)}}),
        _ => json!({"$update": {"X": rng.u8(..4), "Y": {"$update": {"Z": rng.u8(..4)}}}}),
    };
    apart(number, "map", json!({"Map": value}), settings)
}

/// Returns an update of an entity of its own that is about as large as an item can be, and one that makes it small again.
fn large(rng: &mut Rng, number: usize, settings: &Settings) -> [Update; 2] {
    let text = "x".repeat(pick(rng, &LARGE));
    let large = apart(number, "large", json!({"Large": text}), settings);
    [large, apart(number + 1, "large", json!({"Large": null}), settings)]
}

/// Returns an update of an entity of its own.
fn apart(number: usize, entity: &str, mut members: Value, settings: &Settings) -> Update {
    if settings.by_time {
        members["Timestamp"] = json!(1000 * number);
    }
    Update::new(number, entity, members, Origin::TimedClient)
}
