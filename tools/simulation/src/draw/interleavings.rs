//! Interleavings of writers on one entity: is a request ever applied twice?
//!
//! Few writers with different clocks, windows and write modes deliver few requests several times, while others fill the map of recent
//! requests, and requests and responses are lost. Meanwhile the map is removed, another program increments `Latest`, markers of the
//! ledger add no entry, and an operator raises `Latest`. History is written at once, or late.

use fastrand::Rng;
use serde_json::json;

use crate::{
    draw::script::{MAX_OFFSET, SECOND, e0, pick},
    schedule::{Command, Edit, Jump, Origin, Schedule, Scope, Settings, StepKind},
};

/// Number of versions before the losses: a map with a window of 1 is almost full.
const BEFORE: usize = 8;
/// Time from which requests are lost.
const START: u64 = 10 * SECOND;

impl Schedule {
    pub(crate) fn draw_interleaving(seed: u64) -> Self {
        // Close seeds have similar first numbers.
        let mut rng = Rng::with_seed(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let mut schedule = Self {
            seed,
            settings: settings(&mut rng),
            ..Self::default()
        };
        for _ in 0..BEFORE {
            schedule.direct(0, 0, "e0", Origin::TimedClient, json!({}));
        }
        let span = pick(&mut rng, &[300, 3000, 15_000]);
        let percent = pick(&mut rng, &[0, 10, 25, 50]);
        let entity = e0();
        let lossy = Scope::Lossy { entity, percent };
        schedule.window(START, 0, lossy, 4 * span + 10 * SECOND);
        // Each has a source of its own, so that none waits for another.
        let mut sources = 1..=u8::MAX;
        let mut add = |schedule: &mut Self, at: u64, kind: StepKind| {
            schedule.step(START + at, sources.next().unwrap_or_default(), kind);
        };
        for _ in 0..rng.u8(1..=3) {
            let update = schedule.update("e0", Origin::TimedClient, json!({}));
            let first = rng.u64(..span);
            for at in [first, first + rng.u64(..span), first + rng.u64(..=2 * span)] {
                if at == first || rng.bool() {
                    add(&mut schedule, at, StepKind::Direct(update));
                }
            }
        }
        for _ in 0..rng.u8(8..=20) {
            let origin = match rng.u8(..8) {
                // A marker of the ledger is not known to the other writers.
                0 => Origin::LedgerClient,
                1..=3 => Origin::TimedClient,
                _ => Origin::Client,
            };
            let update = schedule.update("e0", origin, json!({}));
            let first = rng.u64(..=2 * span);
            add(&mut schedule, first, StepKind::Direct(update));
            if origin == Origin::TimedClient && rng.bool() {
                add(&mut schedule, first + rng.u64(..=2 * span), StepKind::Direct(update));
            }
        }
        for value in 0..rng.usize(0..=3) {
            let kind = match rng.u8(..4) {
                0 => StepKind::Edit(e0(), Edit::RemoveRequests),
                1 => StepKind::Edit(e0(), Edit::Increment(value)),
                2 => StepKind::Command(Command::Raise(e0())),
                _ => StepKind::StopMapping(rng.u64(..2 * span)),
            };
            add(&mut schedule, rng.u64(..2 * span), kind);
        }
        schedule.steps.sort_by_key(|step| step.at);
        schedule
    }
}

/// Draws two to four writers, and one with a ledger.
fn settings(rng: &mut Rng) -> Settings {
    let writers = rng.usize(2..=4);
    let windows = (0..writers).map(|_| Some(pick(rng, &[1, 1, 2, 3, 5, 10, 20])));
    let windows: Vec<_> = windows.chain([None]).collect();
    let mut settings = Settings {
        write_mode: "stream".to_owned(),
        window: windows.iter().copied().flatten().min(),
        digits: 1,
        batch_size: 100,
        parallelization_factor: 1,
        bisect: true,
        shards: 1,
        queue_batch_size: 1,
        ..Settings::default()
    };
    settings.write_modes = windows
        .iter()
        .map(|_| pick(rng, &["stream", "stream", "transaction"]).to_owned())
        .collect();
    settings.clock_offsets = windows.iter().map(|_| rng.i64(-MAX_OFFSET..=MAX_OFFSET)).collect();
    for process in (0..writers).filter(|_| rng.bool()).collect::<Vec<_>>() {
        settings.clock_jumps.push(Jump {
            process,
            at: rng.u64(START..30 * SECOND),
            offset: rng.i64(-MAX_OFFSET..=MAX_OFFSET),
        });
    }
    settings.windows = windows;
    settings
}
