//! A log of three levels of tiles and a note of another implementation. The log stays in a folder, for `tools/seal/tests/with-go`.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

use std::{fs, path::Path};

use oracles::{KEY, Tiles, sign};
use seal::log::{checkpoint::Checkpoint, note::VerifierKey};
use signed_note::{Note, StandardSigner};

const SIZES: [u64; 5] = [1, 256, 700, 65_536, 66_000];

#[test]
fn a_large_log_is_verified_by_another_implementation() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("log");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("checkpoints")).unwrap();
    let entry = |index: u64| format!("entry {index:>14}").into_bytes();
    let (mut tiles, mut checkpoints) = (Tiles::default(), Vec::<Checkpoint>::new());
    for size in SIZES {
        let first = checkpoints.last().map_or(0, |checkpoint| checkpoint.size);
        let edge = tiles.append(first, &(first..size).map(entry).collect::<Vec<_>>());
        let (origin, root) = (KEY.name().to_owned(), edge.root());
        let checkpoint = Checkpoint { origin, size, root };
        for earlier in &checkpoints {
            for index in [0, first, size / 3, size - 1] {
                tiles.check(&checkpoint, earlier, (index, &entry(index)), 77);
            }
        }
        oracles::checkpoint(checkpoint.text().as_bytes());
        fs::write(folder.join(format!("checkpoints/{size}")), sign(&checkpoint.text())).unwrap();
        checkpoints.push(checkpoint);
    }
    for (path, bytes) in &tiles.0 {
        fs::create_dir_all(folder.join(path).parent().unwrap()).unwrap();
        fs::write(folder.join(path), bytes).unwrap();
    }
    fs::write(folder.join("checkpoint"), sign(&checkpoints[4].text())).unwrap();
    fs::write(folder.join("vkey"), format!("{}\n", *KEY)).unwrap();
}

/// Keys of the documentation of `signed_note`.
#[test]
fn a_note_that_another_implementation_signed_is_verified() {
    let signer = "PRIVATE+KEY+PeterNeumann+c74f20a3+AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz";
    let verifier = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW";
    let text = "PeterNeumann\n3\nZmZmZmZmZmZmZmZmZmZmZmZmZmZmZmZmZmZmZmZmZmY=\n";
    let mut note = Note::new(text.as_bytes(), &[]).unwrap();
    note.add_sigs(&[&StandardSigner::new(signer).unwrap()]).unwrap();
    let note = String::from_utf8(note.to_bytes()).unwrap();
    let checkpoint = Checkpoint::open(&note, &VerifierKey::parse(verifier).unwrap()).unwrap();
    assert_eq!(
        (checkpoint.size, checkpoint.root, checkpoint.text().as_str()),
        (3, [0x66; 32], text)
    );
}
