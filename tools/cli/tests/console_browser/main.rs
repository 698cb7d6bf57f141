//! `vzero console` in a real browser, as a person uses it, on what the local stack made:
//! `tools/cli/tests/with-browser`. With arguments, the paths whose names have one of them.

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

/// A person's path through some pages.
struct Path {
    name: &'static str,
    walk: for<'a> fn(&'a World, &'a Browser) -> LocalBoxFuture<'a, ()>,
}

macro_rules! paths {
    ($($room:ident::$name:ident),* $(,)?) => {
        [$(Path {
            name: concat!(stringify!($room), "::", stringify!($name)),
            walk: |world, browser| Box::pin($room::$name(world, browser)),
        }),*]
    };
}

/// The order is that of the table: what writes comes last.
const PATHS: [Path; 15] = paths![
    signing_in::the_token_lets_in,
    reading::an_entity_is_found,
    reading::history_is_paged_through,
    reading::a_version_and_its_neighbours,
    reading::two_versions_are_compared,
    reading::as_of_a_time,
    reading::what_is_not_there,
    keyboard::pages_are_reached_by_keys,
    failing::documents_are_looked_into,
    failing::an_audit_finds_what_is_wrong,
    writing::without_permission_nothing_is_written,
    writing::a_version_is_restored,
    writing::a_deletion_is_undone,
    writing::documents_are_redriven,
    writing::a_gap_is_repaired,
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

/// Walks the paths, and returns how many end too soon.
async fn run(wanted: &[String]) -> usize {
    let began = Instant::now();
    if wanted.is_empty() {
        let _ = std::fs::remove_dir_all(browser::screenshots());
    }
    let world = World::make().await;
    say(&format!(
        "the stack and its data: {:.1} s",
        began.elapsed().as_secs_f64()
    ));
    let mut failed = Vec::new();
    for path in PATHS {
        if !wanted.is_empty() && !wanted.iter().any(|wanted| path.name.contains(wanted.as_str())) {
            continue;
        }
        let began = Instant::now();
        let browser = Browser::open(&world).await;
        let walked = async {
            (path.walk)(&world, &browser).await;
            browser.had_nothing_to_complain_about().await;
        };
        let ended = AssertUnwindSafe(walked).catch_unwind().await;
        if ended.is_err() {
            browser.keep_what_it_showed(path.name).await;
            failed.push(path.name);
        }
        browser.close().await;
        let how = if ended.is_ok() { "ok" } else { "FAILED" };
        say(&format!(
            "{} ... {how} ({:.1} s)",
            path.name,
            began.elapsed().as_secs_f64()
        ));
    }
    for name in &failed {
        say(&format!("failed: {name}"));
    }
    say(&format!(
        "{} failed, after {:.1} s",
        failed.len(),
        began.elapsed().as_secs_f64()
    ));
    failed.len()
}

fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
