//! A page of the documentation that contains the results: the text between two comments is replaced.

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

/// Replaces the results in a page.
///
/// # Errors
///
/// As [`check`]; the page is unchanged then.
pub(crate) fn write(page: &Path, results: &str) -> Result<(), BenchError> {
    Ok(fs::write(page, replaced(page, results)?)?)
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
    fn the_text_between_the_markers_is_replaced() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(&file, format!("# P\n\n{START}old\n{END}\nrest\n")).unwrap();
        // A second time, too.
        for _ in 0..2 {
            write(file.path(), "new\n").unwrap();
            let written = fs::read_to_string(&file).unwrap();
            assert_eq!(written, format!("# P\n\n{START}\nnew\n\n{END}\nrest\n"));
        }
        for page in [
            "# P\n".to_owned(),
            format!("{START}old\n"),
            format!("old\n{END}"),
            format!("{END}old\n{START}"),
            format!("{START}a\n{END}{START}b\n{END}"),
            format!("{START}a\n{START}b\n{END}"),
        ] {
            fs::write(&file, &page).unwrap();
            assert!(matches!(check(file.path()), Err(BenchError::Usage(_))), "{page}");
            assert!(write(file.path(), "new\n").is_err());
            assert_eq!(fs::read_to_string(&file).unwrap(), page);
        }
    }
}
