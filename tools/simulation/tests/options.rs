//! Options of the simulation's command line.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

use std::process::{Command, Output};

fn simulation(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_simulation"));
    command.args(arguments).output().unwrap()
}

#[test]
fn the_list_contains_one_name_per_line_and_nothing_else() {
    let output = simulation(&["--list-mutations"]);
    assert!(output.status.success());
    assert!(output.stderr.is_empty());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.lines().any(|listed| listed == "retry-guard"), "{text}");
    let is_name = |name: &str| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
    assert!(text.lines().all(is_name), "{text}");
}

#[test]
fn a_random_seed_is_printed_and_repeats_the_run() {
    let result = |output: &Output| -> serde_json::Value {
        let text = String::from_utf8(output.stdout.clone()).unwrap();
        serde_json::from_str(text.lines().last().unwrap()).unwrap()
    };
    let run = |seed: &str| simulation(&["--schedules", "1", "--no-minimize", "--seed", seed]);
    let drawn = run("random");
    let seed = result(&drawn)["seed"].as_u64().unwrap();
    let progress = String::from_utf8(drawn.stderr.clone()).unwrap();
    assert!(progress.contains(&format!("seeds from {seed}\n")), "{progress}");
    assert_eq!(result(&run(&seed.to_string())), result(&drawn));
    assert_ne!(result(&run("random"))["seed"], result(&drawn)["seed"]);
    assert_eq!(run("x").status.code(), Some(2));
    let interleavings = simulation(&["--interleavings", "1", "--seed", "random"]);
    let seed = &result(&interleavings)["seed"];
    let progress = String::from_utf8(interleavings.stderr.clone()).unwrap();
    assert!(progress.contains(&format!("seeds from {seed}\n")), "{progress}");
}

/// No backfill runs in a single schedule without updates of other programs.
#[test]
fn a_mutation_that_changes_nothing_is_an_error() {
    let output = simulation(&["--schedules", "1", "--seed", "1", "--mutate", "adopt"]);
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(
        message.contains("the mutation adopt changed nothing in 1 schedules"),
        "{message}"
    );
}
