//! HTML and JSON forms of each page, invalid requests, and forms: they need permission, and each is executed once.

use serde_json::json;
use testkit::{database::at_second, script_tests, table};

use crate::{new_table, served::Console};

script_tests! {
    crate::Subject;
    fn each_page_has_a_json_form();
    fn an_entity_without_a_latest_item_shows_its_history_and_no_way_to_change_it();
    fn invalid_requests_are_rejected();
    fn the_highest_version_numbers_are_shown();
    fn a_read_only_console_changes_nothing();
    fn a_form_that_is_sent_twice_is_executed_once();
}

/// Of more entities than a page has, each is on one page, and the order continues.
#[test]
fn each_entity_is_on_one_page() {
    let table = new_table();
    // With the others, the first 25 items of the segments have less than a page of results, so that they are one chunk.
    let others = [("Order#1", 30), ("Order#2", 50), ("Reorder#3", 40), ("Other", 60)];
    let others = others.map(|(id, second)| (id.to_owned(), second)).into_iter();
    for (id, second) in others.chain((0..70).map(|number| (format!("Many#{number}"), 1000 + number))) {
        let store = at_second(&table.store, second);
        table.runtime.block_on(table::write(&store, json!({"ID": id, "N": 1})));
    }
    let console = Console::of(&table);
    let (mut seen, mut next) = (Vec::new(), Some("/?find=Many".to_owned()));
    while let Some(path) = next {
        let entities = console.json(&path)["Entities"].clone();
        seen.extend(entities.as_array().unwrap().iter().map(|entity| entity["ID"].clone()));
        next = console.page(&path).link_to("next").map(str::to_owned);
    }
    let expected: Vec<_> = (0..70).rev().map(|number| json!(format!("Many#{number}"))).collect();
    assert_eq!(seen, expected);
}
