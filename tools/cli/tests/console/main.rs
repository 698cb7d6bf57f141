//! The console over HTTP: access control, forms, records of versions, escaping, and large data.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

mod changes;
mod compressed;
#[path = "../support/console.rs"]
mod console;
mod escaping;
mod guard;
mod html;
mod http;
mod large;
#[cfg(target_os = "linux")]
mod opener;
mod pages;
mod seal;
#[path = "../support/sealed.rs"]
mod sealed;
mod served;
mod started;
mod tables;

use serde_json::Value;
use testkit::{command::Run, script, script_tests, table::Table};

fn new_table() -> Table {
    Table::new(env!("CARGO_BIN_EXE_vzero"))
}

/// A table, a console that allows changes, and a read-only one for lines that begin with `reading`. Lines that begin with a method are
/// [`served::Console::requests`].
struct Subject {
    table: Table,
    console: served::Console,
    reading: served::Console,
}

impl Subject {
    fn console<'a>(&self, line: &'a str) -> (&served::Console, &'a str) {
        let reading = line.strip_prefix("reading ").map(|line| (&self.reading, line));
        reading.unwrap_or((&self.console, line))
    }
}

impl script::Subject for Subject {
    fn create(vzero: &'static str, digits: Option<u8>, definition: &Value) -> Self {
        let table = <Table as script::Subject>::create(vzero, digits, definition);
        let [reading, console] = [false, true].map(|writes| served::Console::serving(&table, &table.store, writes));
        Self {
            table,
            console,
            reading,
        }
    }

    fn table(&self) -> &Table {
        &self.table
    }

    fn run(&self, line: &str) -> Run {
        let (console, line) = self.console(line);
        console.run(line)
    }

    fn has_checked(&self, line: &str) -> bool {
        let (console, line) = self.console(line);
        let is_request = line.starts_with(|c: char| c.is_ascii_uppercase());
        if is_request {
            console.requests(line);
        }
        is_request
    }
}

// Time, author, reason and request of each version: apart from its attributes, and never those of another version.
script_tests! {
    Subject;
    fn each_page_shows_the_record_apart_from_the_attributes();
    fn a_restored_version_names_its_origin_and_inherits_no_author();
    fn the_exact_time_of_a_version_selects_it();
    fn a_time_of_the_client_selects_the_version_in_effect();
    fn a_version_of_another_program_has_the_time_of_the_stream();
    fn a_version_of_an_older_release_has_no_known_time();
}

// Finding entities, versions and changes: search, order, filters, and what is read for it.
script_tests! {
    Subject;
    fn each_version_shows_what_it_changed();
    fn changes_are_a_tree_of_paths();
    fn versions_are_filtered();
    fn a_filter_reads_more_pages();
    fn entities_are_found_by_part_of_the_key_and_the_last_change_comes_first();
    fn the_page_of_an_entity_shows_its_records_in_quarantine();
}
