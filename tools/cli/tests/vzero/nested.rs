//! Updates of members of maps, in each write mode and with each way to detect duplicates.

use crate::script::script_tests;

script_tests! {
    fn members_of_a_map_change_and_others_stay();
    fn members_of_a_map_are_in_history();
    fn a_missing_map_is_an_error_that_names_it();
    fn rules_hold_for_members_of_a_map();
}
