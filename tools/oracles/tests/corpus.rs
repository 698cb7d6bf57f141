//! Every file of the corpus, through the oracle of its target.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

use std::{
    fs,
    path::{Path, PathBuf},
};

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files
}

#[test]
fn every_file_of_the_corpus_holds() {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let corpus = tools.join("fuzz/corpus");
    for (name, oracle) in oracles::TARGETS {
        let files = files(&corpus.join(name));
        assert!(files.len() >= 10, "{name} has a corpus of {} files", files.len());
        for file in files {
            let input = fs::read(&file).unwrap();
            let held = std::panic::catch_unwind(|| oracle(&input));
            assert!(held.is_ok(), "{} does not hold", file.display());
        }
        assert!(
            tools.join(format!("fuzz/fuzz_targets/{name}.rs")).is_file(),
            "{name} has no fuzz target"
        );
    }
    let folders = files(&corpus);
    assert_eq!(
        folders.len(),
        oracles::TARGETS.len(),
        "a corpus without a target: {folders:?}"
    );
}

#[test]
fn every_sample_event_holds() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    for event in files(&root.join("events")) {
        let name = event.file_stem().unwrap().to_string_lossy().into_owned();
        let input = fs::read(&event).unwrap();
        let oracle = if name.starts_with("stream") {
            oracles::records
        } else {
            oracles::envelopes
        };
        oracle(&input);
    }
}
