//! The command `vzero`: its arguments, output and errors, and the commands that read and write entities.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

mod all_versions;
mod erase;
mod escaping;
mod history;
mod plan;
mod policies;
mod prove;
mod sealed;
mod settings;
mod states;
mod table_arn;
mod terminal;
mod time_index;
mod undo;
mod unreachable;
mod verify;

use serde_json::{Value, json};
use testkit::{Rng, attached::Orders, script_tests, table::Table};

const VZERO: &str = env!("CARGO_BIN_EXE_vzero");

fn new_table() -> Table {
    Table::new(VZERO)
}

/// Creates a table with history in its own table or, unless the endpoint has only that layout, beside the latest items.
fn table_with_history(is_own: bool) -> Table {
    let table = new_table();
    if is_own { table.with_own_history() } else { table }
}

/// Puts or deletes an order of the table `Orders` at random, and returns its number.
fn change_order(orders: &Orders, random: &mut Rng, number: u64) -> u64 {
    let no = random.u64(1..=25);
    let by = random.choice(["amy", "zoe"]).unwrap();
    let mut n = |bound| json!({"N": random.u64(..bound).to_string()});
    let elements: Vec<_> = (0..3).map(|_| json!({"M": {"Id": n(5), "V": n(2)}})).collect();
    let order = json!({"A": n(3), "B": {"N": number.to_string()}, "by": {"S": by}, "L": {"L": elements}});
    match random.u64(..6) {
        0 => orders.delete(no),
        _ => orders.put(no, &order),
    }
    no
}

/// Returns a random update of an entity, or a deletion.
fn random_update(random: &mut Rng, id: &str, number: u64) -> Value {
    let elements: Vec<_> = (0..random.u64(..4))
        .map(|_| json!({"Id": random.u64(..5), "V": random.u64(..2)}))
        .collect();
    let mut json = json!({"ID": id, "A": random.u64(..3), "B": {"C": number}, "L": elements});
    if random.bool() {
        json["Actor"] = random.choice(["amy", "zoe"]).unwrap().into();
    }
    match random.u64(..10) {
        0 => json!({"ID": id, "Deleted": true}),
        _ => json,
    }
}

script_tests! {
    Table;
    fn the_life_of_an_entity();
    fn without_stream_fn_versions_are_not_in_history();
    fn each_failure_has_its_exit_code_and_one_line();
    fn the_width_of_version_keys_is_that_of_the_table();
    fn metadata_and_states();
    fn every_type_is_shown_and_restored_without_loss();
    fn usage_errors_are_one_line();
    fn commands_that_write_many_items_ask();
    fn null_removes_an_attribute_and_null_can_be_stored();
    fn tables_completions_and_costs();
    fn only_commands_that_write_accept_write_options();
    // Items whose sort keys extend the key of a version, such as `v3#note`, are neither versions nor errors.
    fn an_item_beside_a_version_is_not_a_version();
    // Updates of members of maps, in each write mode and with each way to detect duplicates.
    fn members_of_a_map_change_and_others_stay();
    fn members_of_a_map_are_in_history();
    fn a_missing_map_is_an_error_that_names_it();
    fn rules_hold_for_members_of_a_map();
    // The table: `vzero admin table create`.
    fn a_missing_table_is_created_with_all_settings_and_an_existing_one_is_only_shown();
    fn a_width_is_stored_with_the_table();
    fn a_new_table_has_the_index_by_time_before_its_layout();
    fn a_table_that_does_not_fit_is_an_error_that_names_the_difference();
}
