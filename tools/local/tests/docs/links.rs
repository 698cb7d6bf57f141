//! Every link points to an existing file, and to a heading in it. Every file that a page names exists.

use std::path::{Path, PathBuf};

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
    names.extend(["CHANGELOG.md", "SECURITY.md"].map(str::to_owned));
    let dead: Vec<_> = names.iter().flat_map(|name| dead(&read(name))).collect();
    assert!(dead.is_empty(), "{dead:#?}");
}

/// The README, or a page that it links to, links to every page, or to its folder.
#[test]
fn every_page_is_reachable_from_the_readme() {
    let links = |name: &str| -> Vec<_> {
        let page = read(name);
        let targets = page.links.iter().filter_map(|link| target(&page, link));
        targets.map(|path| path.to_string_lossy().into_owned()).collect()
    };
    let mut linked = links("README.md");
    for near in linked.clone() {
        if Path::new(&near).extension().is_some_and(|end| end == "md") {
            linked.extend(links(&near));
        }
    }
    for name in pages() {
        let folder = Path::new(&name).parent().unwrap().to_string_lossy().into_owned();
        let is_folder_linked = folder.contains('/') && linked.contains(&folder);
        assert!(
            name == "README.md" || is_folder_linked || linked.contains(&name),
            "no link leads to {name}"
        );
    }
}

/// Returns the file or folder of a link, unless it is one of another site.
fn target(page: &Page, link: &str) -> Option<PathBuf> {
    let (file, _) = link.split_once('#').unwrap_or((link, ""));
    let page = Path::new(&page.name);
    let path = match file {
        "" => root().join(page),
        file => root().join(page.parent()?).join(file),
    };
    let (path, root) = (path.canonicalize().ok()?, root().canonicalize().ok()?);
    path.strip_prefix(root).ok().map(Path::to_owned)
}

fn dead(page: &Page) -> Vec<String> {
    let resolves = |link: &str| {
        let Some(path) = target(page, link) else {
            return link.starts_with("https://");
        };
        let Some((file, anchor)) = link.split_once('#') else {
            return true;
        };
        let has_anchor = |page: &Page| page.anchors.iter().any(|known| known == anchor);
        if file.is_empty() {
            has_anchor(page)
        } else {
            has_anchor(&read(&path.to_string_lossy()))
        }
    };
    let links = page.links.iter().filter(|link| !resolves(link));
    links.map(|link| format!("{}: {link}", page.name)).collect()
}

/// Arguments after the name, and the name of a test in the file, are ignored.
#[test]
fn every_named_file_exists() {
    let missing = |name: &String| -> Vec<String> {
        let page = read(name);
        let words = page.codes.iter().filter_map(|(_, code)| code.split([' ', ':']).next());
        let paths = words.map(|word| word.trim_end_matches('*'));
        let missing = paths.filter(|path| {
            let is_file = FOLDERS.iter().any(|folder| path.starts_with(folder));
            is_file && !root().join(path).exists()
        });
        missing.map(|path| format!("{name}: {path}")).collect()
    };
    let missing: Vec<_> = pages().iter().flat_map(missing).collect();
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn a_dead_link_is_found() {
    let text =
        "[a](costs.md) [b](costs.md#no) [c](../README.md) [d](../docs) [e](#x) [f](none.md) [g](http://x)\n\n# X\n";
    let page = Page::parse("docs/vzero.md", text);
    let expected = ["costs.md#no", "none.md", "http://x"].map(|link| format!("docs/vzero.md: {link}"));
    assert_eq!(dead(&page), expected);
}
