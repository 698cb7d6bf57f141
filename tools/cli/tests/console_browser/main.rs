//! The console in a real browser: `tools/cli/tests/with-browser`. Arguments select the scenarios whose names contain one of them.
//!
//! A scenario is a script, whose lines [`steps`] explains. What the pages contain is tested without a browser.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

mod browser;
mod checks;
#[path = "../support/console.rs"]
mod console;
mod proofs;
#[path = "../support/sealed.rs"]
mod sealed;
mod steps;

use std::{
    io::Write as _,
    panic::{AssertUnwindSafe, catch_unwind},
    process::ExitCode,
};

use testkit::script;

use crate::browser::Browser;

macro_rules! scenarios {
    ($($name:ident),* $(,)?) => {
        [$((stringify!($name), include_str!(concat!(stringify!($name), ".txt")))),*]
    };
}

/// All scenarios, in one browser. The data come first, then the scenario without a cookie, and those that write come last.
const SCENARIOS: [(&str, &str); 14] = scenarios![
    data,
    the_token_signs_in,
    each_page_is_accessible,
    each_version_is_one_line,
    differences_are_a_tree,
    times_are_local,
    forms_lead_to_their_pages,
    a_slider_selects_a_version,
    pages_are_opened_with_keys,
    an_audit_reports_findings,
    an_attached_item_is_restored,
    a_version_is_restored,
    changes_are_undone,
    a_seal_is_verified,
];

/// Runs scenarios until one fails.
fn main() -> ExitCode {
    let arguments = std::env::args().skip(1);
    let wanted: Vec<_> = arguments.filter(|argument| !argument.starts_with('-')).collect();
    let is_wanted = |name: &str| name == "data" || wanted.is_empty() || wanted.iter().any(|part| name.contains(part));
    let browser = Browser::new(env!("CARGO_BIN_EXE_vzero"));
    for (name, text) in SCENARIOS.into_iter().filter(|(name, _)| is_wanted(name)) {
        let steps = || {
            script::run(&browser, text);
            browser.has_no_errors();
        };
        let is_ok = catch_unwind(AssertUnwindSafe(steps)).is_ok();
        let _ = writeln!(std::io::stderr(), "{name} ... {}", if is_ok { "ok" } else { "FAILED" });
        if !is_ok {
            browser.report_failure(name);
            browser.close();
            return ExitCode::FAILURE;
        }
    }
    browser.close();
    ExitCode::SUCCESS
}
