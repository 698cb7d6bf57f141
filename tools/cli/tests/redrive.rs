//! `vzero admin redrive` from files.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

use testkit::{script_tests, table::Table};

script_tests! {
    Table;
    fn a_second_redrive_and_a_dry_run_change_nothing();
    fn a_pruned_version_is_not_stored_again();
    fn failed_records_are_listed_and_all_others_are_stored();
    fn without_payload_records_are_fetched_from_the_stream();
    fn records_before_the_beginning_of_the_stream_are_lost();
    fn a_missing_source();
}
