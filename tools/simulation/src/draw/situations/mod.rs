//! Situations for which a guard exists, and which random steps seldom create: few updates at chosen times.

mod deletions;
mod functions;
mod operators;
pub(super) mod sets;
mod writers;

use fastrand::Rng;

use crate::{draw::script::pick, schedule::Schedule};

/// Fills a schedule that has only settings, and can change these.
type Situation = fn(&mut Rng, &mut Schedule);

const SITUATIONS: &[Situation] = &[
    functions::clocks_behind,
    functions::greatest_version,
    functions::unchanged,
    functions::unresponsive_table,
    functions::late_history,
    functions::raised_during_updates,
    functions::items_at_the_limits,
    deletions::many_attributes,
    deletions::deleted_again,
    operators::redrive_after_purge,
    operators::redrive_after_deletion,
    operators::duplicates_after_repair,
    operators::two_prunes,
    operators::pin_while_pruning,
    operators::pin_of_missing_version,
    operators::adoption_while_updating,
    operators::update_while_purging,
    operators::two_purges,
    operators::two_revives,
    functions::wrong_layout,
    functions::copied_table,
    operators::redrive_after_prune,
    writers::dropped_while_ahead,
    writers::lossy_entity,
    writers::sender_clock_wrong,
    writers::delivered_as_first,
    writers::unchanged_duplicate,
    writers::recorded_far_ahead,
    writers::hot_entity,
];
/// Situations of deployments, operators and other programs: one situation in this number.
const FURTHER: &[Situation] = &[
    functions::wrong_writer,
    operators::hold_while_removing,
    operators::update_after_loss,
    functions::unchecked_layout,
    functions::rolled_back_deployment,
    functions::early_stream_function,
    deletions::deleted_and_restored,
    writers::written_by_another_program,
    writers::clock_a_year_ahead,
];
const OF_FURTHER: u8 = 3;

/// Makes the schedule one of a situation, which `kind` chooses.
pub(super) fn draw(rng: &mut Rng, kind: &mut Rng, schedule: &mut Schedule) {
    let situation = pick(kind, SITUATIONS);
    let situation = match kind.u8(..OF_FURTHER) {
        0 => pick(kind, FURTHER),
        _ => situation,
    };
    situation(rng, schedule);
    schedule.steps.sort_by_key(|step| step.at);
}
