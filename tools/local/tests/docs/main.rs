//! The pages: every command in them is run, what they show is what comes out, and every link leads somewhere.
//!
//! The blocks of a page are run in their order by one shell, in a folder that looks like the root of the repository, beside a
//! local stack of the page's own that was fed the sample. A comment before a block says what is special about it:
//!
//! | comment | |
//! |---|---|
//! | `<!-- output -->` | this is what the block before it says: `…` stands for any text, alone on a line for any lines |
//! | `<!-- update -->` | these are updates: they are sent, and have to be written |
//! | `<!-- needs: aws-cli -->` | run where `tools/check-docs` provides that |
//! | `<!-- needs: account -->` | not run, but parsed as `vzero` and the AWS CLI parse it |
//! | `<!-- needs: browser -->` | not run, since it serves until it is ended, but parsed likewise |
//! | `<!-- run by: ci -->` | `.ci/run` or a workflow runs it: it takes too long here, or would run itself |
//! | `<!-- first: … -->` | commands that nobody sees, run in their place |
//!
//! A block that none of this fits fails the test. A `vzero` or `aws` command in the middle of the text is parsed as well.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

mod figures;
mod links;
mod output;
mod page;
mod run;
mod session;
mod workbench;

use std::path::{Path, PathBuf};

/// The root of the repository.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap().to_owned()
}

/// The pages whose blocks are run.
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
