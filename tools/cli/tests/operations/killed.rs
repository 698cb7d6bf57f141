//! Runs that are killed, and resume.

use std::process::Child;

use testkit::command::Run;

/// Runs a command again and again, and kills it whenever `is_due`, until it ends. Returns the output of all runs, in their order.
pub(crate) fn run_killed(start: impl Fn() -> Child, mut is_due: impl FnMut() -> bool) -> Vec<Run> {
    let mut runs = Vec::new();
    loop {
        let mut child = start();
        let is_ended = loop {
            if child.try_wait().unwrap().is_some() {
                break true;
            }
            if is_due() {
                child.kill().unwrap();
                break false;
            }
            std::thread::yield_now();
        };
        runs.push(Run::wait(child));
        assert!(runs.len() < 200, "it gets nowhere");
        if is_ended {
            return runs;
        }
    }
}

/// Returns a function that tells when the content of a file has changed.
pub(crate) fn changes_of(path: &std::path::Path) -> impl FnMut() -> bool + use<'_> {
    let mut before = None;
    move || {
        let now = std::fs::read_to_string(path).ok();
        let is_changed = now.is_some() && now != before;
        if is_changed {
            before = now;
        }
        is_changed
    }
}
