//! The command `vzero` on a table.

use testkit::{script_tests, table::Table};

script_tests! {
    Table;
    fn the_life_of_an_entity();
    fn without_stream_fn_versions_are_not_in_history();
    fn each_failure_has_its_exit_code_and_one_line();
    fn the_width_of_version_keys_is_that_of_the_table();
    fn metadata_and_states();
    fn every_type_is_shown_and_restored_without_loss();
    fn usage_errors_are_one_line();
    fn null_removes_an_attribute_and_null_can_be_stored();
    fn tables_completions_and_costs();
    fn only_commands_that_write_accept_write_options();
}
