//! A page of the documentation that contains the results: the text between two comments is replaced, and the plots are copied into the folder beside
//! the page that has its name, such as `performance` for `performance.md`.

use std::{fs, path::Path};

use crate::error::BenchError;

const START: &str = "<!-- results -->\n";
const END: &str = "<!-- end of results -->\n";

/// Checks that the results can be replaced.
///
/// # Errors
///
/// [`BenchError::Usage`] without exactly one pair of markers; [`BenchError::Io`] if the page cannot be read.
pub(crate) fn check(page: &Path) -> Result<(), BenchError> {
    replaced(page, "").map(drop)
}

/// Replaces the results in a page, and copies all plots of `folder`.
///
/// # Errors
///
/// As [`check`]; the page is unchanged then.
pub(crate) fn write(page: &Path, results: &str, folder: &Path) -> Result<(), BenchError> {
    let text = replaced(page, results)?;
    let plots = page.with_extension("");
    fs::create_dir_all(&plots)?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.path().extension().is_some_and(|extension| extension == "svg") {
            fs::copy(entry.path(), plots.join(entry.file_name()))?;
        }
    }
    Ok(fs::write(page, text)?)
}

/// Returns the page with other results.
fn replaced(path: &Path, results: &str) -> Result<String, BenchError> {
    let page = fs::read_to_string(path)?;
    let parts = page
        .split_once(START)
        .and_then(|(before, rest)| Some((before, rest.split_once(END)?.1)));
    let is_unique = |marker: &str| page.matches(marker.trim_end()).count() == 1;
    match parts {
        Some((before, after)) if is_unique(START) && is_unique(END) => {
            Ok(format!("{before}{START}\n{results}\n{END}{after}"))
        }
        _ => Err(BenchError::Usage(format!(
            "{} needs a line <!-- results --> and a line <!-- end of results --> after it, each once",
            path.display()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_between_the_markers_is_replaced_and_plots_are_copied() {
        let (docs, output) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(output.path().join("start.svg"), "<svg/>").unwrap();
        fs::write(output.path().join("results.json"), "[]").unwrap();
        let page = docs.path().join("performance.md");
        fs::write(&page, format!("# P\n\n{START}old\n{END}\nrest\n")).unwrap();
        // A second time, too.
        for _ in 0..2 {
            write(&page, "new\n", output.path()).unwrap();
            let written = fs::read_to_string(&page).unwrap();
            assert_eq!(written, format!("# P\n\n{START}\nnew\n\n{END}\nrest\n"));
        }
        let copied = fs::read_dir(docs.path().join("performance")).unwrap();
        let copied: Vec<_> = copied.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(copied, ["start.svg"]);
    }

    #[test]
    fn a_page_without_one_pair_of_markers_is_unchanged() {
        for page in [
            "# P\n".to_owned(),
            format!("{START}old\n"),
            format!("old\n{END}"),
            format!("{END}old\n{START}"),
            format!("{START}a\n{END}{START}b\n{END}"),
            format!("{START}a\n{START}b\n{END}"),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("p.md");
            fs::write(&path, &page).unwrap();
            assert!(matches!(check(&path), Err(BenchError::Usage(_))), "{page}");
            assert!(write(&path, "new\n", folder.path()).is_err());
            assert_eq!(fs::read_to_string(&path).unwrap(), page);
            assert!(!folder.path().join("p").exists());
        }
    }
}
