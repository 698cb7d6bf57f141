//! `vzero audit`, `backfill`, `prune`, `purge` and `repair` on a table.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

mod killed;
mod large;

use testkit::{script_tests, table::Table};

fn new_table() -> Table {
    Table::new(env!("CARGO_BIN_EXE_vzero"))
}

script_tests! {
    Table;
    // Audit. The unit tests of `operations::audit` have more findings.
    fn every_fault_is_found_and_nothing_else();
    fn a_table_without_faults();
    fn a_state_that_belongs_to_another_run_is_not_overwritten();
    // Backfill: conflicts, their end, and the dry run, which decides as the run does.
    fn items_of_another_table_become_version_1();
    fn tables_with_a_sort_key_need_a_name_template();
    fn of_two_items_with_the_same_name_one_is_written();
    fn items_of_the_same_table();
    fn a_latest_item_without_a_counter_continues_its_versions();
    fn updates_that_wait_for_the_backfill_lose_no_attribute();
    fn an_entity_that_an_update_created_is_a_conflict();
    fn a_pruned_entity_is_a_conflict_after_its_request_is_forgotten();
    fn a_dry_run_has_the_counts_of_the_run();
    // Copies of a table, whose layout names the history table of the original, and layouts that name a missing history table.
    fn a_copy_leaves_the_history_of_the_original_alone();
    fn a_history_table_has_one_writer();
    fn a_layout_without_its_table_is_adopted_by_the_command_that_the_error_names();
    fn versions_of_a_rolled_back_deployment_are_copied_into_the_next_history_table();
    fn a_copy_with_history_beside_the_latest_items_is_adopted_without_a_name();
    fn a_layout_that_names_a_missing_history_table_is_replaced();
    fn a_layout_that_names_a_missing_history_table_can_be_that_of_before();
    fn history_beside_the_latest_items_is_moved();
    // Tables with versions of another program.
    fn versions_of_another_program_go_on_after_the_commands_that_the_errors_name();
    fn versions_of_two_widths_are_found();
    // Failure documents and items that were made to damage a table, or the command that reads them.
    fn a_version_that_the_latest_item_does_not_count_is_not_written();
    fn a_repair_puts_counted_versions_before_it_continues_the_counter();
    fn a_redrive_of_recorded_versions_can_be_repeated_after_the_latest_item_is_gone();
    fn a_floor_that_no_entity_reaches_is_not_followed();
    fn a_repair_does_not_follow_a_version_that_is_out_of_reach();
    fn reads_end_beside_the_greatest_latest();
    // Prune and pin. The unit tests of the plan have more rules.
    fn pruned_versions_disappear_at_once_and_are_no_gap();
    fn pruning_by_age_keeps_the_version_of_every_time_since();
    fn arguments_of_prune_are_checked();
    fn a_whole_table_is_pruned();
    fn one_entity_that_fails_does_not_stop_the_others();
    fn gaps_grace_periods_and_pins();
    fn a_redelivered_pruned_version_is_already_recorded();
    // Snapshots. The tests of the local stack have a model.
    fn a_table_is_shown_as_it_was();
    fn a_snapshot_is_written_into_an_empty_table();
    // Hold. Other tests set it while a prune or a purge runs.
    fn an_entity_on_hold_is_neither_pruned_nor_purged();
    // Purge, and what redrive, repair and audit do with purged versions.
    fn a_purge_deletes_everything_after_asking();
    fn a_repair_does_not_revive_a_purged_entity();
    fn other_commands_ignore_the_marker_of_a_purge();
    fn purged_versions_are_neither_redriven_nor_used_by_a_repair();
}
