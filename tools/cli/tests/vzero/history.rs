//! Who recorded a version, when and why: `get`, `history`, `diff` and the commands that write.

use testkit::{script_tests, table::Table};

script_tests! {
    Table;
    fn filters_select_versions();
    fn versions_without_a_time_or_a_previous_version_are_named();
    fn changes_are_shown_in_both_formats();
    fn changes_of_maps_sets_and_long_values();
    fn tables_show_the_record_apart_from_the_attributes();
    fn a_printed_version_can_be_put_again();
    fn an_actor_describes_one_version_only();
    fn at_finds_a_version_by_its_own_time();
    fn effective_at_reads_the_highest_version_that_is_old_enough();
}
