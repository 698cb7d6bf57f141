//! `vzero console` in a real browser, on a table of the local stack: `tools/cli/tests/with-browser`. Arguments select the
//! scenarios whose names contain one of them.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

mod browser;
mod checks;
mod data;
mod keyboard;
mod pages;
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

/// All scenarios. The one that writes comes last.
const SCENARIOS: [Scenario; 9] = scenarios![
    signing_in::the_token_signs_in,
    pages::each_page_is_accessible,
    pages::each_version_is_one_line,
    pages::times_are_local,
    pages::forms_lead_to_their_pages,
    pages::a_slider_selects_a_version,
    keyboard::pages_are_opened_with_keys,
    pages::an_audit_reports_findings,
    writing::a_version_is_restored,
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
