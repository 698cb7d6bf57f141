//! `vzero admin repair`.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

use testkit::{script_tests, table::Table};

script_tests! {
    Table;
    fn gaps_are_filled_from_the_latest_item_from_documents_and_from_the_stream();
    fn versions_of_other_programs_from_the_stream_are_those_that_stream_fn_stores();
    fn a_counter_that_was_reset_continues_after_the_highest_version();
    fn a_missing_latest_item_is_restored_only_with_revive();
    fn versions_that_differ_between_sources_are_not_used();
    fn a_latest_item_without_a_counter_is_adopted();
    fn a_padded_latest_item_with_a_counter_is_adopted();
    fn a_counter_never_continues_below_the_floor();
}
