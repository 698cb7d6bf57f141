//! Documentation tests: run the commands of each page, compare the output that it shows, and check its links.
//!
//! One shell runs the blocks of a page in order, in a folder that mirrors the root of the repository, with a separate local
//! stack that contains the sample data. A comment before a block changes how the block is handled:
//!
//! | comment | |
//! |---|---|
//! | `<!-- output -->` | the output of the block before it: `…` stands for any text, or alone on a line for any lines; times of `RecordedAt` and random ids can differ |
//! | `<!-- update -->` | updates, which are sent and must be written |
//! | `<!-- needs: aws-cli -->` | run if `tools/check-docs` provides this tool |
//! | `<!-- needs: account -->` | not run, but parsed by `vzero` and the AWS CLI |
//! | `<!-- needs: browser -->` | not run, because it serves until it is stopped, but parsed |
//! | `<!-- run by: ci -->` | run by `.ci/run` or a workflow: it takes too long here, or would run itself |
//! | `<!-- first: … -->` | hidden commands, run at this position |
//! | `<!-- results -->`, `<!-- end of results -->` | between them, the benchmark writes its results; no block |
//!
//! A block in Python or JavaScript has to be part of a program in `docs/examples`, which `tools/clients/test` runs.
//!
//! Any other block fails the test. Inline `vzero` and `aws` commands are parsed, too.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

mod figures;
mod links;
mod output;
mod page;
mod performance;
mod run;
mod seeds;
mod session;
mod workbench;

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap().to_owned()
}

/// Returns the names of the pages whose blocks are run.
fn pages() -> Vec<String> {
    let mut pages = vec!["README.md".to_owned(), "ARCHITECTURE.md".to_owned()];
    let mut folders = vec!["docs".to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(root().join(&folder)).unwrap().map(Result::unwrap) {
            let name = format!("{folder}/{}", entry.file_name().to_string_lossy());
            if entry.path().is_dir() {
                folders.push(name);
            } else if Path::new(&name).extension().is_some_and(|end| end == "md") {
                pages.push(name);
            }
        }
    }
    pages[2..].sort();
    pages
}

fn read(page: &str) -> page::Page {
    page::Page::parse(page, &std::fs::read_to_string(root().join(page)).unwrap())
}
