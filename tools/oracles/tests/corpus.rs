//! Runs every file of the corpus through the oracle of its target.

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
fn every_corpus_file_passes() {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let corpus = tools.join("fuzz/corpus");
    for (name, oracle) in oracles::TARGETS {
        let files = files(&corpus.join(name));
        assert!(files.len() >= 10, "{name} has a corpus of {} files", files.len());
        for file in files {
            let input = fs::read(&file).unwrap();
            let result = std::panic::catch_unwind(|| oracle(&input));
            assert!(result.is_ok(), "{} fails", file.display());
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
fn every_sample_event_passes() {
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

/// Mutates each file with pieces of the corpus, as the fuzzer does, with fixed seeds.
#[test]
fn every_mutated_corpus_file_passes() {
    const MUTATIONS: u64 = 300;
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for (name, oracle) in oracles::TARGETS {
        let files = files(&tools.join("fuzz/corpus").join(name));
        let inputs: Vec<_> = files.iter().map(|file| fs::read(file).unwrap()).collect();
        for (index, input) in inputs.iter().enumerate() {
            for seed in 0..MUTATIONS {
                let mut random = fastrand::Rng::with_seed(seed);
                let mutated = mutate(input, &inputs, &mut random);
                let result = std::panic::catch_unwind(|| oracle(&mutated));
                let text = String::from_utf8_lossy(&mutated);
                assert!(
                    result.is_ok(),
                    "{name}: {} mutated with seed {seed} fails: {text}",
                    files[index].display()
                );
            }
        }
    }
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
