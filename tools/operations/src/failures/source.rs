//! Sources of failure documents and of records in quarantine.

use std::{convert::Infallible, fmt, path::PathBuf, str::FromStr};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    Path(PathBuf),
    Bucket {
        bucket: String,
        prefix: String,
    },
    Queue(String),
    /// Records in quarantine: of one partition key, or of the whole table.
    Quarantine(Option<String>),
    /// All records that the table's stream still has. An option selects it, no text.
    Stream,
}

const QUARANTINE: &str = "quarantine:";

impl FromStr for Source {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(if let Some(name) = text.strip_prefix("s3://") {
            let (bucket, prefix) = name.split_once('/').unwrap_or((name, ""));
            Self::Bucket {
                bucket: bucket.to_owned(),
                prefix: prefix.to_owned(),
            }
        } else if let Some(id) = text.strip_prefix(QUARANTINE) {
            Self::Quarantine(Some(id.to_owned()).filter(|id| !id.is_empty()))
        } else if text.starts_with("https://") || text.starts_with("http://") {
            Self::Queue(text.to_owned())
        } else {
            Self::Path(text.into())
        })
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => path.display().fmt(f),
            Self::Bucket { bucket, prefix } => write!(f, "s3://{bucket}/{prefix}"),
            Self::Queue(url) => f.write_str(url),
            Self::Stream => f.write_str("the stream"),
            Self::Quarantine(id) => write!(f, "{QUARANTINE}{}", id.as_deref().unwrap_or_default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sources_are_distinguished_by_their_prefix() {
        let bucket = |bucket: &str, prefix: &str| Source::Bucket {
            bucket: bucket.to_owned(),
            prefix: prefix.to_owned(),
        };
        for (text, source) in [
            ("s3://b", bucket("b", "")),
            ("s3://b/", bucket("b", "")),
            ("s3://b/a/b c", bucket("b", "a/b c")),
            (
                "https://sqs.eu-west-1.amazonaws.com/1/q",
                Source::Queue("https://sqs.eu-west-1.amazonaws.com/1/q".to_owned()),
            ),
            (
                "http://127.0.0.1:5000/1/q",
                Source::Queue("http://127.0.0.1:5000/1/q".to_owned()),
            ),
            ("quarantine:", Source::Quarantine(None)),
            ("quarantine:E#1", Source::Quarantine(Some("E#1".to_owned()))),
            ("./quarantine:", Source::Path("./quarantine:".into())),
            ("failed", Source::Path("failed".into())),
            ("./s3://b", Source::Path("./s3://b".into())),
        ] {
            assert_eq!(text.parse(), Ok(source), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_displayed_source_is_parsed_to_the_same(text in "(s3://[a-z]{1,5}(/\\PC{0,9})?|quarantine:\\PC{0,9}|https?://\\PC{0,9}|\\PC{1,9})") {
            let Ok(source) = text.parse::<Source>();
            prop_assert_eq!(source.to_string().parse(), Ok(source));
        }
    }
}
