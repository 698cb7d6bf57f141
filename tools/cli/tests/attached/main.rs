//! `vzero` on a table that other programs write, with stream-fn's own code.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

mod found;
mod undo;

use testkit::{
    attached::{Orders, state},
    command::Run,
    script_tests,
};

const VZERO: &str = env!("CARGO_BIN_EXE_vzero");

script_tests! {
    Orders;
    fn commands_that_are_not_for_an_attached_table_are_refused();
    fn a_check_compares_items_with_their_newest_version();
    // Audit.
    fn histories_without_faults_have_no_findings();
    fn an_item_that_differs_from_its_history_is_found();
    fn late_and_missed_versions_are_information();
    fn gaps_wrong_order_and_quarantine_are_errors();
    fn items_that_the_filter_excludes_are_not_compared();
    fn an_attached_table_is_audited_in_segments_with_a_state();
    // Backfill, and the records of changes before, during and after it.
    fn items_without_history_get_a_baseline();
    fn changes_that_the_baseline_contains_make_no_version();
    fn a_record_that_comes_first_is_not_overwritten();
    fn items_that_the_filter_excludes_get_no_baseline();
    fn an_item_that_does_not_fit_into_a_version_is_refused();
    // Prune, pin and purge.
    fn old_versions_are_pruned_and_pinned_ones_are_kept();
    fn an_item_on_hold_is_neither_pruned_nor_purged();
    fn the_newest_version_that_is_not_late_is_never_pruned();
    fn a_purge_deletes_the_history_and_keeps_the_item();
    // Snapshot.
    fn an_attached_table_is_shown_as_it_was();
    // Redrive.
    fn a_record_that_is_redriven_after_later_ones_is_late();
    fn a_deletion_is_no_attribute_of_the_item();
    fn records_of_an_attached_table_without_a_payload_are_read_from_the_stream();
    fn documents_are_redriven_in_the_order_of_their_names();
    fn a_quarantined_record_of_an_attached_table_is_listed_by_its_key();
    // Restore.
    fn an_old_state_is_put_back_with_a_greater_version_attribute();
    fn tombstones_are_restored_in_both_directions();
    fn an_item_that_history_does_not_have_is_not_overwritten();
    fn an_item_with_too_many_attributes_is_refused();
    fn an_item_of_other_programs_is_changed_after_asking();
    fn an_author_is_written_with_a_change();
    fn the_write_of_a_stale_mapper_fails_after_each_change();
    fn a_printed_version_of_other_programs_can_be_put_again();
    fn the_author_of_a_change_is_named();
}

#[test]
fn an_outcome_has_the_number_of_the_new_version() {
    let orders = Orders::new(VZERO);
    orders.put(1, &state("a"));
    orders.deliver_all();
    let key = Orders::key(1);
    for (command, version) in [("put KEY --set state=b --yes", 2), ("restore KEY 1 --yes", 3)] {
        let words: Vec<_> = command
            .split(' ')
            .map(|word| if word == "KEY" { &key } else { word })
            .collect();
        let mut child = orders.start_with(&[("VZERO_NO_WAIT", "0")], &words);
        while child.try_wait().unwrap().is_none() {
            orders.deliver_all();
        }
        assert_eq!(Run::wait(child).json()["Version"], version);
    }
}
