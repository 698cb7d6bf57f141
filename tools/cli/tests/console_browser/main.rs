//! `vzero console` in a real browser, on a table of the local stack: `tools/cli/tests/with-browser`. Arguments select the
//! scenarios whose names contain one of them.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

mod browser;
mod checks;
mod data;
mod failing;
mod keyboard;
mod reading;
mod signing_in;
mod world;
mod writing;

use std::{io::Write as _, panic::AssertUnwindSafe, process::ExitCode, time::Instant};

use futures::{FutureExt as _, future::LocalBoxFuture};

use crate::{browser::Browser, world::World};

/// A user's path through some pages.
struct Scenario {
    name: &'static str,
    run: for<'a> fn(&'a World, &'a Browser) -> LocalBoxFuture<'a, ()>,
}

macro_rules! scenarios {
    ($($room:ident::$name:ident),* $(,)?) => {
        [$(Scenario {
            name: concat!(stringify!($room), "::", stringify!($name)),
            run: |world, browser| Box::pin($room::$name(world, browser)),
        }),*]
    };
}

/// All scenarios. Those that write come last.
const SCENARIOS: [Scenario; 16] = scenarios![
    signing_in::the_token_signs_in,
    reading::an_entity_is_found,
    reading::each_version_is_one_line,
    reading::times_are_local,
    reading::history_is_filtered,
    reading::history_is_paged_through,
    reading::a_version_and_its_neighbours,
    reading::two_versions_are_compared,
    reading::as_of_a_time,
    reading::missing_items_are_reported,
    keyboard::pages_are_opened_with_keys,
    failing::quarantine_is_shown,
    failing::an_audit_reports_findings,
    writing::without_permission_nothing_is_written,
    writing::a_version_is_restored,
    writing::a_deletion_is_undone,
];

fn main() -> ExitCode {
    if let Some(code) = testkit::stack::run_function() {
        return code;
    }
    let wanted: Vec<_> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    match runtime.block_on(run(&wanted)) {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

async fn run(wanted: &[String]) -> usize {
    let started = Instant::now();
    if wanted.is_empty() {
        let _ = std::fs::remove_dir_all(browser::screenshots());
    }
    let world = World::make().await;
    say(&format!(
        "the stack and its data: {:.1} s",
        started.elapsed().as_secs_f64()
    ));
    let mut failed = Vec::new();
    for scenario in SCENARIOS {
        if !wanted.is_empty() && !wanted.iter().any(|wanted| scenario.name.contains(wanted.as_str())) {
            continue;
        }
        let started = Instant::now();
        let browser = Browser::open(&world).await;
        let steps = async {
            (scenario.run)(&world, &browser).await;
            browser.has_no_errors().await;
        };
        let result = AssertUnwindSafe(steps).catch_unwind().await;
        if result.is_err() {
            browser.report_failure(scenario.name).await;
            failed.push(scenario.name);
        }
        browser.close().await;
        let outcome = if result.is_ok() { "ok" } else { "FAILED" };
        say(&format!(
            "{} ... {outcome} ({:.1} s)",
            scenario.name,
            started.elapsed().as_secs_f64()
        ));
    }
    for name in &failed {
        say(&format!("failed: {name}"));
    }
    say(&format!(
        "{} failed, after {:.1} s",
        failed.len(),
        started.elapsed().as_secs_f64()
    ));
    failed.len()
}

fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
