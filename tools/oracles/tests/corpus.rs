//! Runs every file of the corpus and every sample event through the oracle of its target.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

use std::{
    fs,
    panic::catch_unwind,
    path::{Path, PathBuf},
};

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Runs each file as it is, and mutated with pieces of the corpus, as the fuzzer does, with fixed seeds.
#[test]
fn every_corpus_file_passes_as_it_is_and_mutated() {
    const MUTATIONS: u64 = 100;
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("fuzz");
    for (name, oracle) in oracles::TARGETS {
        let target = fuzz.join(format!("fuzz_targets/{name}.rs"));
        assert!(target.is_file(), "{name} has no fuzz target");
        let files = files(&fuzz.join("corpus").join(name));
        assert!(files.len() >= 10, "{name} has a corpus of {} files", files.len());
        let inputs: Vec<_> = files.iter().map(|file| fs::read(file).unwrap()).collect();
        for (file, input) in files.iter().zip(&inputs) {
            assert!(catch_unwind(|| oracle(input)).is_ok(), "{} fails", file.display());
            for seed in 0..MUTATIONS {
                let mutated = mutate(input, &inputs, &mut fastrand::Rng::with_seed(seed));
                let (file, text) = (file.display(), String::from_utf8_lossy(&mutated));
                let result = catch_unwind(|| oracle(&mutated));
                assert!(result.is_ok(), "{name}: {file} mutated with seed {seed} fails: {text}");
            }
        }
    }
    let folders = files(&fuzz.join("corpus"));
    assert_eq!(
        folders.len(),
        oracles::TARGETS.len(),
        "a corpus without a target: {folders:?}"
    );
}

fn mutate(input: &[u8], others: &[Vec<u8>], random: &mut fastrand::Rng) -> Vec<u8> {
    let mut mutated = input.to_vec();
    for _ in 0..random.usize(1..4) {
        let at = random.usize(..=mutated.len());
        match random.u8(..4) {
            0 if at < mutated.len() => mutated[at] = random.u8(..),
            1 if at < mutated.len() => {
                mutated.drain(at..random.usize(at..mutated.len().min(at + 8)));
            }
            2 => mutated.insert(at, *random.choice(b"{}[]\",:0159eE-+.$ \\".as_slice()).unwrap()),
            _ => {
                let other = random.choice(others).unwrap();
                let from = random.usize(..=other.len());
                let to = random.usize(from..=other.len().min(from + 40));
                mutated.splice(at..at, other[from..to].iter().copied());
            }
        }
    }
    mutated
}

#[test]
fn every_sample_event_passes() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    for event in files(&root.join("events")) {
        let is_stream = event.file_stem().unwrap().to_string_lossy().starts_with("stream");
        let oracle = if is_stream {
            oracles::records
        } else {
            oracles::envelopes
        };
        oracle(&fs::read(&event).unwrap());
    }
}
