//! The console in a real browser: `tools/cli/tests/with-browser`. Arguments select the scenarios whose names contain one of them.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

mod browser;
mod checks;
#[path = "../support/console.rs"]
mod console;
mod data;
mod keyboard;
mod pages;

use std::{io::Write as _, panic::AssertUnwindSafe, process::ExitCode};

use futures::{FutureExt as _, future::LocalBoxFuture};
use testkit::table::Table;

use crate::browser::Browser;

const TOKEN: &str = "the-token-of-the-tests_0123456789";

/// A table, and its consoles.
struct World {
    /// `http://127.0.0.1:12345` of a read-only console.
    reading: String,
    writing: String,
    table: Table,
}

/// A user's path through some pages.
type Scenario = for<'a> fn(&'a World, &'a Browser) -> LocalBoxFuture<'a, ()>;

macro_rules! scenarios {
    ($($room:ident::$name:ident),* $(,)?) => {
        [$((concat!(stringify!($room), "::", stringify!($name)), |world, browser| Box::pin($room::$name(world, browser)))),*]
    };
}

/// All scenarios, in one browser. The one without a cookie comes first, and the one that writes comes last.
const SCENARIOS: [(&str, Scenario); 9] = scenarios![
    pages::the_token_signs_in,
    pages::each_page_is_accessible,
    pages::each_version_is_one_line,
    pages::times_are_local,
    pages::forms_lead_to_their_pages,
    pages::a_slider_selects_a_version,
    keyboard::pages_are_opened_with_keys,
    pages::an_audit_reports_findings,
    pages::a_version_is_restored,
];

fn main() -> ExitCode {
    let arguments = std::env::args().skip(1);
    let wanted: Vec<_> = arguments.filter(|argument| !argument.starts_with('-')).collect();
    let table = Table::new(env!("CARGO_BIN_EXE_vzero"));
    data::feed(&table);
    let consoles = [false, true].map(|allows_writes| console::serve(&table, Some(TOKEN), allows_writes));
    let [reading, writing] = [0, 1].map(|console: usize| format!("http://{}", consoles[console].address()));
    let world = World {
        reading,
        writing,
        table,
    };
    world.table.runtime.block_on(run(&world, &wanted))
}

/// Runs scenarios until one fails.
async fn run(world: &World, wanted: &[String]) -> ExitCode {
    let browser = Browser::open().await;
    for (name, scenario) in SCENARIOS {
        if !wanted.is_empty() && !wanted.iter().any(|wanted| name.contains(wanted.as_str())) {
            continue;
        }
        let steps = async {
            scenario(world, &browser).await;
            browser.has_no_errors().await;
        };
        if AssertUnwindSafe(steps).catch_unwind().await.is_err() {
            browser.report_failure(name).await;
            say(&format!("{name} ... FAILED"));
            browser.close().await;
            return ExitCode::FAILURE;
        }
        say(&format!("{name} ... ok"));
    }
    browser.close().await;
    ExitCode::SUCCESS
}

fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
