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
/// [`BenchError::Page`] without exactly one pair of markers; [`BenchError::Io`] if the page cannot be read.
pub(crate) fn check(page: &Path) -> Result<(), BenchError> {
    replaced_in(page, "").map(drop)
}

/// Replaces the results in a page, and copies all plots of `folder`.
///
/// # Errors
///
/// As [`check`]; the page is unchanged then.
pub(crate) fn write(page: &Path, results: &str, folder: &Path) -> Result<(), BenchError> {
    let text = replaced_in(page, results)?;
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

fn replaced_in(page: &Path, results: &str) -> Result<String, BenchError> {
    replaced(&fs::read_to_string(page)?, results).ok_or_else(|| BenchError::Page(page.to_owned()))
}

/// Returns the page with other results, or `None` without exactly one pair of markers.
fn replaced(page: &str, results: &str) -> Option<String> {
    let (before, rest) = page.split_once(START)?;
    let (_, after) = rest.split_once(END)?;
    let is_unique = |marker: &str| page.matches(marker.trim_end()).count() == 1;
    (is_unique(START) && is_unique(END)).then(|| format!("{before}{START}\n{results}\n{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_between_the_markers_is_replaced() {
        let page = format!("# P\n\n{START}old\n{END}\nrest\n");
        let expected = format!("# P\n\n{START}\nnew\n\n{END}\nrest\n");
        assert_eq!(replaced(&page, "new\n"), Some(expected.clone()));
        assert_eq!(replaced(&expected, "new\n"), Some(expected));
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
            assert!(matches!(check(&path), Err(BenchError::Page(_))), "{page}");
            assert!(write(&path, "new\n", folder.path()).is_err());
            assert_eq!(fs::read_to_string(&path).unwrap(), page);
            assert!(!folder.path().join("p").exists());
        }
    }

    #[test]
    fn plots_are_copied_beside_the_page() {
        let (docs, results) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let page = docs.path().join("performance.md");
        fs::write(&page, format!("{START}{END}")).unwrap();
        fs::write(results.path().join("start.svg"), "<svg/>").unwrap();
        fs::write(results.path().join("results.json"), "[]").unwrap();
        write(&page, "new\n", results.path()).unwrap();
        assert_eq!(fs::read_to_string(&page).unwrap(), format!("{START}\nnew\n\n{END}"));
        let copied: Vec<_> = fs::read_dir(docs.path().join("performance")).unwrap().collect();
        assert_eq!(copied.len(), 1);
        assert_eq!(copied[0].as_ref().unwrap().file_name(), "start.svg");
    }
}
