//! Records in quarantine: `vzero admin quarantine`, and the commands that find and release them.

use testkit::{script_tests, table::Table};

script_tests! {
    Table;
    fn records_are_listed_with_their_reason_and_image();
    fn an_audit_reports_records_in_quarantine_and_a_purge_deletes_them();
    fn a_redrive_releases_a_record_whose_version_can_be_stored();
    fn a_repair_releases_a_record_whose_version_is_missing();
    fn versions_are_released_before_a_latest_item_gets_its_number();
    fn a_repair_does_not_choose_between_records_and_names_commands_for_any_key();
}
