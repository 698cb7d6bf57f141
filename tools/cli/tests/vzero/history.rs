//! Who recorded a version, when and why: `log`, `show`, `diff`, `blame`, `get` and the commands that write.

use std::io::{BufRead as _, BufReader};

use serde_json::json;
use testkit::{script_tests, table::Table};

script_tests! {
    Table;
    fn filters_select_versions();
    fn versions_without_a_time_or_a_previous_version_are_named();
    fn changes_are_shown_in_both_formats();
    fn changes_of_maps_sets_and_long_values();
    fn tables_show_the_record_apart_from_the_attributes();
    fn a_printed_version_can_be_put_again();
    fn changes_are_shown_before_they_are_made();
    fn an_actor_describes_one_version_only();
    fn at_finds_a_version_by_its_own_time();
    fn effective_at_reads_the_highest_version_that_is_old_enough();
    fn each_value_has_the_version_that_set_it();
    fn times_are_those_of_the_local_time_zone();
}

#[test]
fn new_versions_are_followed() {
    // The second value gets another path when an element is added before it.
    for (old, new) in [("N", "N"), ("L[0].N", "L[1].N")] {
        let table = crate::new_table();
        let put = |number: u64| {
            let mut elements = vec![json!({"id": "y"}), json!({"id": "x", "N": number})];
            elements.drain(..usize::from(number < 4));
            table.write(json!({"ID": "E", "N": number, "L": elements}))
        };
        (1..=3).for_each(|number| assert_eq!(put(number), number));
        let mut child = table.start(&format!("log E --follow -n 2 --path {old}"));
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut check = |path: &str, number: u64| {
            let line = lines.next().unwrap().unwrap();
            assert!(
                line.ends_with(&format!("  {path}: {} → {number}", number - 1)),
                "{line}"
            );
        };
        (2..=3).for_each(|number| check(old, number));
        for number in 4..=5 {
            put(number);
            check(new, number);
        }
        // As `head` does.
        drop(lines);
        put(6);
        assert!(child.wait().unwrap().success());
    }
}
