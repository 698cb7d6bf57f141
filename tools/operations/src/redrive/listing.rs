//! Listing of documents: page by page, or a single one by name.

use std::path::{Path, PathBuf};

use super::{
    feed::{Feed, Sink},
    folder::{self, Content},
    queue::{Drain, Queue, Received},
    resend::Resender,
    tally::Tally,
};
use crate::{
    error::{Kind, OperationError},
    failures::{
        document::{self, Document},
        message::{self, Message},
        source::Source,
    },
};

/// Maximum number of messages that are searched for one of them.
const MAX_SEARCHED: usize = 1000;

/// A document, or the reason why it is none.
pub struct Entry {
    pub name: String,
    pub bytes: usize,
    pub document: Result<Document, String>,
}

pub struct Listed<T> {
    pub entries: Vec<T>,
    /// `true` if there are more entries. For a queue, there may be.
    pub has_more: bool,
    pub is_absent: bool,
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
    /// Maps the first documents after one of them, one by one: each can be large.
    pub async fn page<T>(
        &self,
        source: &Source,
        after: Option<&str>,
        limit: usize,
        mut map: impl FnMut(Entry) -> T,
    ) -> Result<Listed<T>, OperationError> {
        let mut listed = Listed {
            entries: Vec::new(),
            has_more: false,
            is_absent: false,
        };
        match source {
            Source::Quarantine(id) => return self.quarantine_page(id.as_deref(), after, limit, map).await,
            Source::Path(path) => {
                let Some(files) = files(path)? else {
                    listed.is_absent = true;
                    return Ok(listed);
                };
                let begin = after.map_or(0, |after| files.partition_point(|(name, _)| name.as_str() <= after));
                let files = files.get(begin..).unwrap_or_default();
                listed.has_more = files.len() > limit;
                for (name, file) in files.iter().take(limit) {
                    listed.entries.push(map(file_entry(name, file)));
                }
            }
            Source::Bucket { bucket, prefix } => {
                let keys = self.buckets.page(bucket, prefix, after, limit + 1).await?;
                listed.has_more = keys.len() > limit;
                for key in keys.into_iter().take(limit) {
                    let content = self.buckets.read(bucket, &key).await?;
                    listed.entries.push(map(Entry::of(key, &content)));
                }
            }
            Source::Queue(url) => {
                let queue = Queue::new(self.connection, self.services, url);
                let mut drain = Drain::new(&queue);
                let drained = self.messages(&mut drain, limit, |entry| listed.entries.push(map(entry)));
                let drained = drained.await;
                // Make all messages visible again, also after an error.
                drain.release().await?;
                listed.has_more = drained?;
            }
        }
        Ok(listed)
    }

    pub async fn entry(&self, source: &Source, name: &str) -> Result<Option<Entry>, OperationError> {
        match source {
            Source::Quarantine(_) => self.quarantine_entry(name).await,
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

    /// Passes only the document of this name to the sink; of a queue, all documents of its message. Returns `false` if there is
    /// none.
    pub async fn one(
        &self,
        source: &Source,
        name: &str,
        sink: &impl Sink,
        tally: &mut Tally,
    ) -> Result<bool, OperationError> {
        let url = match source {
            Source::Quarantine(_) => return self.quarantine_one(name, sink, tally).await,
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
                // A prefix that equals a key selects only this key.
                self.all(&[Source::Bucket { bucket, prefix }], sink, tally).await?;
                return Ok(true);
            }
            Source::Queue(url) => url,
        };
        let queue = Queue::new(self.connection, self.services, url);
        let mut drain = Drain::new(&queue);
        let resender = Resender::new(&queue, self.resend.as_ref());
        let done = self.one_message(&mut drain, &resender, name, sink, tally).await;
        drain.release().await?;
        done
    }

    async fn one_message(
        &self,
        drain: &mut Drain<'_>,
        resender: &Resender<'_>,
        name: &str,
        sink: &impl Sink,
        tally: &mut Tally,
    ) -> Result<bool, OperationError> {
        let Some(message) = find(drain, name).await? else {
            return Ok(false);
        };
        let (one, may_delete) = self.message(&message, resender, sink).await?;
        if may_delete {
            drain.delete(&message).await?;
            tally.messages_deleted += 1;
        } else {
            tally.messages_kept += 1;
        }
        tally.add(one);
        Ok(true)
    }

    async fn has_key(&self, bucket: &str, prefix: &str, name: &str) -> Result<bool, OperationError> {
        if !name.starts_with(prefix) {
            return Ok(false);
        }
        let keys = self.buckets.page(bucket, name, None, 1).await?;
        Ok(keys.first().is_some_and(|key| key == name))
    }

    /// Maps the documents of messages. Returns `true` if there may be more messages.
    async fn messages(
        &self,
        drain: &mut Drain<'_>,
        limit: usize,
        mut map: impl FnMut(Entry),
    ) -> Result<bool, OperationError> {
        let mut seen = 0;
        while seen < limit {
            let Some(messages) = drain.next().await? else {
                return Ok(false);
            };
            for message in messages {
                seen += 1;
                self.entries(&message).await?.into_iter().for_each(&mut map);
            }
        }
        Ok(true)
    }

    async fn entries(&self, message: &Received) -> Result<Vec<Entry>, OperationError> {
        let entry = |document| Entry {
            name: message.id.clone(),
            bytes: message.body.len(),
            document,
        };
        match message::parse(&message.body) {
            Ok(Message::TestEvent) => Ok(Vec::new()),
            Ok(Message::Document(document)) => Ok(vec![entry(Ok(*document))]),
            Ok(Message::Update(_)) => Ok(vec![entry(Err("it is an update".to_owned()))]),
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

/// Finds the message whose id is the first word of the name.
async fn find(drain: &mut Drain<'_>, name: &str) -> Result<Option<Received>, OperationError> {
    let id = name.split(' ').next().unwrap_or_default();
    let mut seen = 0;
    while seen < MAX_SEARCHED {
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

/// Returns the files of a folder with their relative names, sorted, or `None` if there is no such folder.
fn files(path: &Path) -> Result<Option<Vec<(String, PathBuf)>>, OperationError> {
    let files = match folder::files(path) {
        Ok(files) => files,
        Err(error) if error.kind() == Kind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let name = |file: &PathBuf| match file.strip_prefix(path) {
        Ok(inner) if !inner.as_os_str().is_empty() => inner.to_string_lossy().into_owned(),
        // The source itself is a file.
        _ => file.file_name().unwrap_or_default().to_string_lossy().into_owned(),
    };
    let mut named: Vec<_> = files.into_iter().map(|file| (name(&file), file)).collect();
    named.sort();
    Ok(Some(named))
}

/// Returns the file of this name. Only listed files are found, so that no name leads out of the folder.
fn file(path: &Path, name: &str) -> Result<Option<PathBuf>, OperationError> {
    let files = files(path)?.unwrap_or_default();
    Ok(files.into_iter().find(|(known, _)| known == name).map(|(_, file)| file))
}

fn file_entry(name: &str, file: &Path) -> Entry {
    match folder::read(file) {
        Ok(content) => Entry::of(name.to_owned(), &content),
        Err(error) => Entry {
            name: name.to_owned(),
            bytes: 0,
            document: Err(shared::logging::chain(&error)),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn names_do_not_lead_out_of_the_folder() {
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
