//! Every link points to an existing file, and to a heading in it.

use std::path::{Component, Path, PathBuf};

use crate::{page::Page, pages, read, root};

/// Folders that a file name in a page begins with.
const FOLDERS: [&str; 8] = [
    ".ci/",
    ".github/",
    "docs/",
    "events/",
    "shared/",
    "stream-fn/",
    "tools/",
    "writer-fn/",
];

#[test]
fn every_link_has_a_target() {
    let mut names = pages();
    names.extend(["CHANGELOG.md".to_owned(), "SECURITY.md".to_owned()]);
    let dead: Vec<_> = names.iter().flat_map(|name| dead(&read(name))).collect();
    assert!(dead.is_empty(), "{dead:#?}");
}

/// The README, or a page that it links to, links to every page.
#[test]
fn every_page_is_reachable_from_the_readme() {
    let readme = read("README.md");
    let linked = |page: &Page, name: &str| {
        page.links
            .iter()
            .any(|link| link.ends_with(name.trim_start_matches("docs/")))
    };
    let near: Vec<_> = readme
        .links
        .iter()
        .filter(|link| root().join(link).is_file())
        .map(|link| read_any(link))
        .collect();
    for name in pages().iter().filter(|name| *name != "README.md") {
        // Linked directly, or by its folder.
        let folder = Path::new(name).parent().unwrap().to_string_lossy().into_owned();
        let targets = [name.as_str(), &folder];
        let targets = targets
            .iter()
            .filter(|target| target.contains("docs/") || *target == name);
        let found = targets
            .clone()
            .any(|target| linked(&readme, target) || near.iter().any(|page| linked(page, target)));
        assert!(found, "no link leads to {name}");
    }
}

fn read_any(name: &str) -> Page {
    match Path::new(name).extension() {
        Some(end) if end == "md" => read(name),
        _ => Page::default(),
    }
}

fn dead(page: &Page) -> Vec<String> {
    let resolves = |link: &str| {
        if link.starts_with("https://") {
            return true;
        }
        let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
        let path = match file {
            "" => PathBuf::from(&page.name),
            file => normalized(&Path::new(&page.name).parent().unwrap().join(file)),
        };
        let there = root().join(&path).exists();
        let known = |page: &Page| page.anchors.iter().any(|known| known == anchor);
        let anchored = || match file {
            "" => known(page),
            _ => known(&read(&path.to_string_lossy())),
        };
        there && (anchor.is_empty() || anchored())
    };
    let links = page.links.iter().filter(|link| !resolves(link));
    links.map(|link| format!("{}: {link}", page.name)).collect()
}

/// Returns the path without `..` components.
fn normalized(path: &Path) -> PathBuf {
    let mut normalized = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                normalized.pop();
            }
            part => normalized.push(part),
        }
    }
    normalized
}

/// Every file that a page names exists. Arguments after the name, and the name of a test in the file, are ignored.
#[test]
fn every_named_file_exists() {
    let missing = |name: &String| -> Vec<String> {
        let page = read(name);
        let words = page.codes.iter().filter_map(|(_, code)| code.split([' ', ':']).next());
        let paths = words
            .map(|word| word.trim_end_matches('*'))
            .filter(|word| FOLDERS.iter().any(|folder| word.starts_with(folder)));
        let missing = paths.filter(|path| !root().join(path).exists());
        missing.map(|path| format!("{name}: {path}")).collect()
    };
    let missing: Vec<_> = pages().iter().flat_map(missing).collect();
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn a_dead_link_is_found() {
    let page = Page::parse(
        "docs/vzero.md",
        "[a](costs.md) [b](costs.md#no) [c](../README.md) [d](../docs) [e](#x) [f](none.md) [g](http://x)\n\n# X\n",
    );
    assert_eq!(
        dead(&page),
        [
            "docs/vzero.md: costs.md#no",
            "docs/vzero.md: none.md",
            "docs/vzero.md: http://x"
        ]
    );
}
