//! Documents one by one, for whoever looks at them: those of a page, or one by its name.

use std::path::{Path, PathBuf};

use super::{
    Feed, Sink, Tally,
    folder::{self, Content},
    queue::{Drain, Queue, Received},
};
use crate::{
    error::CliError,
    failures::{
        document::{self, Document},
        message::{self, Message},
        source::Source,
    },
};

/// How many messages of a queue are looked through for one of them.
const MOST_MESSAGES: usize = 1000;

/// A document, or what should be one.
pub(crate) struct Entry {
    /// What it is called in its source.
    pub(crate) name: String,
    /// How large it is.
    pub(crate) bytes: usize,
    /// Why it is no document, if it is none.
    pub(crate) document: Result<Document, String>,
}

/// A part of a source.
pub(crate) struct Listed<T> {
    pub(crate) entries: Vec<T>,
    /// Whether there are more after these. Of a queue nobody knows.
    pub(crate) has_more: bool,
    /// Whether the source is not there, or not yet.
    pub(crate) is_absent: bool,
}

impl Entry {
    fn of(name: String, content: &Content) -> Self {
        match content {
            Content::Text(text) => Self {
                name,
                bytes: text.len(),
                document: document::parse(text).map_err(|error| error.to_string()),
            },
            Content::Other(why) => Self {
                name,
                bytes: 0,
                document: Err((*why).to_owned()),
            },
        }
    }
}

impl Feed<'_> {
    /// Tells of the first documents after one of them, one by one: each can be large.
    pub(crate) async fn page<T>(
        &self,
        source: &Source,
        after: Option<&str>,
        most: usize,
        mut tell: impl FnMut(Entry) -> T,
    ) -> Result<Listed<T>, CliError> {
        let mut listed = Listed {
            entries: Vec::new(),
            has_more: false,
            is_absent: false,
        };
        match source {
            Source::Path(path) => {
                let Some(files) = files(path)? else {
                    listed.is_absent = true;
                    return Ok(listed);
                };
                let begin = after.map_or(0, |after| files.partition_point(|(name, _)| name.as_str() <= after));
                let files = files.get(begin..).unwrap_or_default();
                listed.has_more = files.len() > most;
                for (name, file) in files.iter().take(most) {
                    listed.entries.push(tell(file_entry(name, file)));
                }
            }
            Source::Bucket { bucket, prefix } => {
                let keys = self.buckets.page(bucket, prefix, after, most + 1).await?;
                listed.has_more = keys.len() > most;
                for key in keys.into_iter().take(most) {
                    let content = self.buckets.read(bucket, &key).await?;
                    listed.entries.push(tell(Entry::of(key, &content)));
                }
            }
            Source::Queue(url) => {
                let queue = Queue::new(self.connection, self.services, url);
                let mut drain = Drain::new(&queue);
                let drained = self.messages(&mut drain, most, |entry| listed.entries.push(tell(entry)));
                let drained = drained.await;
                // All is to be seen again, whatever happened.
                drain.release().await?;
                listed.has_more = drained?;
            }
        }
        Ok(listed)
    }

    /// The document of this name, if the source has it.
    pub(crate) async fn entry(&self, source: &Source, name: &str) -> Result<Option<Entry>, CliError> {
        match source {
            Source::Path(path) => Ok(file(path, name)?.map(|file| file_entry(name, &file))),
            Source::Bucket { bucket, prefix } => {
                if !self.has_key(bucket, prefix, name).await? {
                    return Ok(None);
                }
                let content = self.buckets.read(bucket, name).await?;
                Ok(Some(Entry::of(name.to_owned(), &content)))
            }
            Source::Queue(url) => {
                let queue = Queue::new(self.connection, self.services, url);
                let mut drain = Drain::new(&queue);
                let found = match find(&mut drain, name).await {
                    Ok(Some(message)) => self.entries(&message).await,
                    Ok(None) => Ok(Vec::new()),
                    Err(error) => Err(error),
                };
                drain.release().await?;
                Ok(found?.into_iter().find(|entry| entry.name == name))
            }
        }
    }

    /// Hands over the document of this name alone: of a queue, all that its message brings. `false` where it is not there.
    pub(crate) async fn one(
        &self,
        source: &Source,
        name: &str,
        sink: &impl Sink,
        tally: &mut Tally,
    ) -> Result<bool, CliError> {
        let url = match source {
            Source::Path(path) => {
                let Some(file) = file(path, name)? else {
                    return Ok(false);
                };
                self.all(&[Source::Path(file)], sink, tally).await?;
                return Ok(true);
            }
            Source::Bucket { bucket, prefix } => {
                if !self.has_key(bucket, prefix, name).await? {
                    return Ok(false);
                }
                let (bucket, prefix) = (bucket.clone(), name.to_owned());
                // There is an object of the very name, and it is the only one then.
                self.all(&[Source::Bucket { bucket, prefix }], sink, tally).await?;
                return Ok(true);
            }
            Source::Queue(url) => url,
        };
        let queue = Queue::new(self.connection, self.services, url);
        let mut drain = Drain::new(&queue);
        let done = self.one_message(&mut drain, name, sink, tally).await;
        drain.release().await?;
        done
    }

    async fn one_message(
        &self,
        drain: &mut Drain<'_>,
        name: &str,
        sink: &impl Sink,
        tally: &mut Tally,
    ) -> Result<bool, CliError> {
        let Some(message) = find(drain, name).await? else {
            return Ok(false);
        };
        let one = self.message(&message, sink).await?;
        if sink.lets_go(&one) {
            drain.delete(&message).await?;
            tally.messages_deleted += 1;
        } else {
            tally.messages_kept += 1;
        }
        tally.add(one);
        Ok(true)
    }

    async fn has_key(&self, bucket: &str, prefix: &str, name: &str) -> Result<bool, CliError> {
        if !name.starts_with(prefix) {
            return Ok(false);
        }
        let keys = self.buckets.page(bucket, name, None, 1).await?;
        Ok(keys.first().is_some_and(|key| key == name))
    }

    /// Tells what so many messages bring, and whether there may be more.
    async fn messages(
        &self,
        drain: &mut Drain<'_>,
        most: usize,
        mut tell: impl FnMut(Entry),
    ) -> Result<bool, CliError> {
        let mut seen = 0;
        while seen < most {
            let Some(messages) = drain.next().await? else {
                return Ok(false);
            };
            for message in messages {
                seen += 1;
                self.entries(&message).await?.into_iter().for_each(&mut tell);
            }
        }
        Ok(true)
    }

    /// What a message brings.
    async fn entries(&self, message: &Received) -> Result<Vec<Entry>, CliError> {
        let entry = |document| Entry {
            name: message.id.clone(),
            bytes: message.body.len(),
            document,
        };
        match message::parse(&message.body) {
            Ok(Message::Trial) => Ok(Vec::new()),
            Ok(Message::Document(document)) => Ok(vec![entry(Ok(*document))]),
            Ok(Message::Objects(objects)) => {
                let mut entries = Vec::new();
                for object in &objects {
                    let name = format!("{} s3://{}/{}", message.id, object.bucket, object.key);
                    let content = self.buckets.read(&object.bucket, &object.key).await?;
                    entries.push(Entry::of(name, &content));
                }
                Ok(entries)
            }
            Err(error) => Ok(vec![entry(Err(error.to_string()))]),
        }
    }
}

/// The message that a name begins with.
async fn find(drain: &mut Drain<'_>, name: &str) -> Result<Option<Received>, CliError> {
    let id = name.split(' ').next().unwrap_or_default();
    let mut seen = 0;
    while seen < MOST_MESSAGES {
        let Some(messages) = drain.next().await? else {
            return Ok(None);
        };
        seen += messages.len();
        if let Some(found) = messages.into_iter().find(|message| message.id == id) {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// The files of a folder by what they are called in it, sorted. `None` where there is no such folder.
fn files(path: &Path) -> Result<Option<Vec<(String, PathBuf)>>, CliError> {
    let files = match folder::files(path) {
        Ok(files) => files,
        Err(CliError::NotFound(_)) => return Ok(None),
        Err(error) => return Err(error),
    };
    let name = |file: &PathBuf| match file.strip_prefix(path) {
        Ok(inner) if !inner.as_os_str().is_empty() => inner.to_string_lossy().into_owned(),
        // The source is a file itself.
        _ => file.file_name().unwrap_or_default().to_string_lossy().into_owned(),
    };
    let mut named: Vec<_> = files.into_iter().map(|file| (name(&file), file)).collect();
    named.sort();
    Ok(Some(named))
}

/// The file that is called so, out of those that are there: no name leads anywhere else.
fn file(path: &Path, name: &str) -> Result<Option<PathBuf>, CliError> {
    let files = files(path)?.unwrap_or_default();
    Ok(files.into_iter().find(|(known, _)| known == name).map(|(_, file)| file))
}

fn file_entry(name: &str, file: &Path) -> Entry {
    match folder::read(file) {
        Ok(content) => Entry::of(name.to_owned(), &content),
        Err(error) => Entry {
            name: name.to_owned(),
            bytes: 0,
            document: Err(error.to_string()),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_what_is_in_the_folder_has_a_name() {
        let outside = tempfile::tempdir().unwrap();
        let folder = outside.path().join("failures");
        fs::create_dir_all(folder.join("a/b")).unwrap();
        fs::write(outside.path().join("secret"), "s").unwrap();
        fs::write(folder.join("a/b/2"), "x").unwrap();
        fs::write(folder.join("1"), "x").unwrap();
        let names = |path: &Path| {
            let files = files(path).unwrap();
            files.map(|files| files.into_iter().map(|(name, _)| name).collect::<Vec<_>>())
        };
        assert_eq!(names(&folder), Some(vec!["1".to_owned(), "a/b/2".to_owned()]));
        assert_eq!(names(&folder.join("1")), Some(vec!["1".to_owned()]));
        assert_eq!(names(&outside.path().join("none")), None);
        assert!(file(&folder, "a/b/2").unwrap().is_some());
        let absolute = outside.path().join("secret").display().to_string();
        for name in [
            "../secret",
            "a/../1",
            "a/b/../../../secret",
            "",
            ".",
            "a",
            &absolute,
            "./1",
            "1/",
        ] {
            assert_eq!(file(&folder, name).unwrap(), None, "{name}");
        }
    }
}
