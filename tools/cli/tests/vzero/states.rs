//! States of a table: `vzero admin state load`, `vzero admin state list`, and all items of an entity: `vzero admin items`.

use serde_json::json;

use testkit::{script_tests, table::Table};

use crate::new_table;

script_tests! {
    Table;
    fn a_file_of_states_is_loaded_and_a_month_is_listed_newest_first();
    fn a_prefix_that_no_time_has_is_rejected();
    fn a_list_of_states_can_be_loaded();
    fn each_form_of_a_state_is_loaded();
    fn an_invalid_file_of_states_is_rejected_with_its_line_and_nothing_is_stored();
    fn items_of_an_entity_in_the_order_of_their_kinds();
    fn states_are_one_table();
}

#[test]
fn a_long_load_shows_its_progress() {
    let table = new_table();
    let minute = |n: u32| format!("2023-01-{:02}T{:02}:{:02}:00", n / 1440 + 1, n / 60 % 24, n % 60);
    let text: String = (0..2005)
        .map(|n| json!({"ID": "E", "Time": minute(n), "N": n}).to_string() + "\n")
        .collect();
    let run = table.run_with_input("state load - --yes", &text);
    assert_eq!(run.json(), json!({"Loaded": 2005}));
    assert_eq!(run.stderr, "1000 states stored\n2000 states stored\n");
    let newest = table.lines("state list E --newest-first --limit 1200", 0);
    assert_eq!((newest.len(), &newest[0]["Time"]), (1200, &json!(minute(2004))));
    assert_eq!(table.lines("state list E", 0).len(), 2005);
    // All items are one page.
    let run = table.run("items E");
    assert_eq!((run.lines.len(), run.stderr.as_str()), (2005, "2005 items read\n"));
}
