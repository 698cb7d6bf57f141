//! Sources of failure documents and of records in quarantine.

use std::path::PathBuf;

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

impl From<&str> for Source {
    fn from(text: &str) -> Self {
        if let Some(name) = text.strip_prefix("s3://") {
            let (bucket, prefix) = name.split_once('/').unwrap_or((name, ""));
            Self::Bucket {
                bucket: bucket.to_owned(),
                prefix: prefix.to_owned(),
            }
        } else if let Some(id) = text.strip_prefix("quarantine:") {
            Self::Quarantine(Some(id.to_owned()).filter(|id| !id.is_empty()))
        } else if text.starts_with("https://") || text.starts_with("http://") {
            Self::Queue(text.to_owned())
        } else {
            Self::Path(text.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_distinguished_by_their_prefix() {
        let bucket = |prefix: &str| Source::Bucket {
            bucket: "b".to_owned(),
            prefix: prefix.to_owned(),
        };
        let queue = |url: &str| Source::Queue(url.to_owned());
        let sqs = "https://sqs.eu-west-1.amazonaws.com/1/q";
        for (text, source) in [
            ("s3://b", bucket("")),
            ("s3://b/", bucket("")),
            ("s3://b/a/b c", bucket("a/b c")),
            (sqs, queue(sqs)),
            ("http://127.0.0.1:5000/1/q", queue("http://127.0.0.1:5000/1/q")),
            ("quarantine:", Source::Quarantine(None)),
            ("quarantine:E#1", Source::Quarantine(Some("E#1".to_owned()))),
            ("./quarantine:", Source::Path("./quarantine:".into())),
            ("failed", Source::Path("failed".into())),
            ("./s3://b", Source::Path("./s3://b".into())),
        ] {
            assert_eq!(Source::from(text), source, "{text}");
        }
    }
}
