//! Objects of the log and of its staging area: in a bucket, or in a folder with the same layout.
//!
//! An object is created once and never overwritten, except for one, which is replaced only if it is still the one that was read.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use aws_sdk_s3::{
    Client,
    primitives::{ByteStream, DateTime},
    types::{ChecksumAlgorithm, ObjectLockMode},
};
use sha2::{Digest as _, Sha256};
use shared::{clock::Clock, dynamodb::client::error::ServiceError};

use crate::error::SealError;

/// Folder for unfinished files and the lock, beside the staged batches of a folder.
const UNFINISHED: &str = "staging/unfinished";
/// Number of attempts to create an object, against others.
const ATTEMPTS: u32 = 5;

/// Place of objects.
#[derive(Debug, Clone)]
pub enum Objects {
    /// A folder of this machine.
    Folder(PathBuf),
    /// An S3 bucket.
    Bucket(Bucket),
}

/// An S3 bucket.
#[derive(Debug, Clone)]
pub struct Bucket {
    /// Client.
    pub client: Client,
    /// Name.
    pub name: String,
    /// Object Lock of new objects, `None` for a bucket without it.
    pub retention: Option<Retention>,
}

/// How long Object Lock protects new objects.
#[derive(Debug, Clone)]
pub struct Retention {
    /// Mode: nobody can shorten `COMPLIANCE`.
    pub mode: ObjectLockMode,
    /// Time for checkpoints and full tiles.
    pub full: Duration,
    /// Time for partial tiles, which a full one replaces.
    pub partial: Duration,
    /// Clock of the end.
    pub clock: Clock,
}

/// An object, and the tag by which a replacement recognizes it.
#[derive(Debug, Clone)]
pub struct Object {
    /// Content.
    pub bytes: Vec<u8>,
    tag: String,
}

impl Objects {
    /// Creates an object. It can exist with the same content, from an earlier attempt.
    ///
    /// # Errors
    ///
    /// [`SealError::Contradiction`] if it exists with another content, or the error of a request.
    pub async fn create(&self, path: &str, bytes: &[u8]) -> Result<(), SealError> {
        for _ in 0..ATTEMPTS {
            let is_new = match self {
                Self::Folder(folder) => create_file(folder, path, bytes).map_err(file(path))?,
                Self::Bucket(bucket) => bucket.put(path, bytes, None).await?,
            };
            if is_new {
                return Ok(());
            }
            match self.get(path).await? {
                Some(object) if object.bytes == bytes => return Ok(()),
                Some(_) => {
                    return Err(SealError::Contradiction(format!(
                        "{path} exists with another content, so the log was sealed by another state"
                    )));
                }
                // Another put of it was in progress, and has failed.
                None => {}
            }
        }
        Err(SealError::Contended(ATTEMPTS))
    }

    /// Reads an object, `None` if there is none.
    ///
    /// # Errors
    ///
    /// The request fails.
    pub async fn get(&self, path: &str) -> Result<Option<Object>, SealError> {
        match self {
            Self::Folder(folder) => match fs::read(folder.join(path)) {
                Ok(bytes) => Ok(Some(Object {
                    tag: tag_of(&bytes),
                    bytes,
                })),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(file(path)(error)),
            },
            Self::Bucket(bucket) => bucket.get(path).await,
        }
    }

    /// Writes an object over the one that was read. Returns `false` if it is another one by now.
    ///
    /// # Errors
    ///
    /// The request fails.
    pub async fn replace(&self, path: &str, bytes: &[u8], read: Option<&Object>) -> Result<bool, SealError> {
        match self {
            Self::Folder(folder) => {
                let lock = lock(folder).map_err(file(path))?;
                let current = self.get(path).await?;
                if current.as_ref().map(|object| &object.tag) != read.map(|object| &object.tag) {
                    return Ok(false);
                }
                let unfinished = unfinished(folder, bytes).map_err(file(path))?;
                fs::rename(unfinished, folder.join(path)).map_err(file(path))?;
                drop(lock);
                Ok(true)
            }
            Self::Bucket(bucket) => match read {
                Some(object) => bucket.put(path, bytes, Some(&object.tag)).await,
                None => bucket.put(path, bytes, None).await,
            },
        }
    }

    /// Deletes a staged object, which need not exist.
    ///
    /// # Errors
    ///
    /// The request fails.
    pub async fn delete(&self, path: &str) -> Result<(), SealError> {
        match self {
            Self::Folder(folder) => match fs::remove_file(folder.join(path)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(file(path)(error)),
                _ => Ok(()),
            },
            Self::Bucket(Bucket { client, name, .. }) => {
                let deleted = client.delete_object().bucket(name).key(path).send().await;
                deleted.map_err(|error| ServiceError::new("DeleteObject", &error))?;
                Ok(())
            }
        }
    }
}

impl Bucket {
    /// Puts an object: only if there is none, or with a tag, only over the object with this tag.
    async fn put(&self, path: &str, bytes: &[u8], tag: Option<&str>) -> Result<bool, SealError> {
        let mut request = self
            .client
            .put_object()
            .bucket(&self.name)
            .key(path)
            .checksum_algorithm(ChecksumAlgorithm::Sha256)
            .body(ByteStream::from(bytes.to_vec()));
        request = match tag {
            Some(tag) => request.if_match(tag),
            None => request.if_none_match("*"),
        };
        if let Some(retention) = &self.retention {
            let time = if path.contains(".p/") {
                retention.partial
            } else {
                retention.full
            };
            let until = (retention.clock.now() + time).as_secs();
            request = request
                .object_lock_mode(retention.mode.clone())
                .object_lock_retain_until_date(DateTime::from_secs(i64::try_from(until).unwrap_or(i64::MAX)));
        }
        match request.send().await {
            Ok(_) => Ok(true),
            Err(error) => {
                let error = ServiceError::new("PutObject", &error);
                match error.code.as_deref() {
                    // Another put of the same key is in progress, or has ended before.
                    Some("PreconditionFailed" | "ConditionalRequestConflict") => Ok(false),
                    _ => Err(error.into()),
                }
            }
        }
    }

    async fn get(&self, path: &str) -> Result<Option<Object>, SealError> {
        match self.client.get_object().bucket(&self.name).key(path).send().await {
            Ok(output) => {
                let tag = output.e_tag.unwrap_or_default();
                let body = output.body.collect().await;
                let bytes = body.map_err(|error| file(path)(io::Error::other(error)))?.to_vec();
                Ok(Some(Object { bytes, tag }))
            }
            Err(error) => {
                let error = ServiceError::new("GetObject", &error);
                match error.code.as_deref() {
                    Some("NoSuchKey") => Ok(None),
                    _ => Err(error.into()),
                }
            }
        }
    }
}

fn file(path: &str) -> impl Fn(io::Error) -> SealError {
    move |error| SealError::File(path.to_owned(), error)
}

fn tag_of(bytes: &[u8]) -> String {
    seal::hex(&Sha256::digest(bytes))
}

/// Creates a file with its whole content. Returns `false` if it exists.
fn create_file(folder: &Path, path: &str, bytes: &[u8]) -> io::Result<bool> {
    let target = folder.join(path);
    if let Some(parent) = target.parent() {
        fs::create_dir_all(parent)?;
    }
    let unfinished = unfinished(folder, bytes)?;
    let created = fs::hard_link(&unfinished, &target);
    fs::remove_file(unfinished)?;
    match created {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        created => created.map(|()| true),
    }
}

/// Writes a file that has no place yet.
fn unfinished(folder: &Path, bytes: &[u8]) -> io::Result<PathBuf> {
    let folder = folder.join(UNFINISHED);
    fs::create_dir_all(&folder)?;
    let path = folder.join(format!("{:016x}", fastrand::u64(..)));
    fs::write(&path, bytes)?;
    Ok(path)
}

fn lock(folder: &Path) -> io::Result<fs::File> {
    let folder = folder.join(UNFINISHED);
    fs::create_dir_all(&folder)?;
    let lock = fs::File::create(folder.join("lock"))?;
    lock.lock()?;
    Ok(lock)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_file_is_created_once() {
        let folder = tempfile::tempdir().unwrap();
        let objects = Objects::Folder(folder.path().to_owned());
        for (bytes, is_created) in [(b"1", true), (b"1", true), (b"2", false)] {
            assert_eq!(objects.create("a/b", bytes).await.is_ok(), is_created);
            assert_eq!(objects.get("a/b").await.unwrap().unwrap().bytes, b"1");
        }
        assert!(objects.get("a").await.is_err());
        objects.delete("a/c").await.unwrap();
    }

    #[test]
    fn processes_that_write_a_file_at_the_same_time_lose_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let objects = Objects::Folder(folder.path().to_owned());
        let add = async || {
            let read = objects.get("count").await.unwrap();
            let bytes = vec![0; read.as_ref().map_or(1, |object| object.bytes.len() + 1)];
            objects.replace("count", &bytes, read.as_ref()).await.unwrap()
        };
        let write = || {
            (0..100).fold(0, |created, number| {
                while !futures::executor::block_on(add()) {}
                let is_new = create_file(
                    folder.path(),
                    &format!("new/{number}"),
                    &fastrand::u64(..).to_be_bytes(),
                );
                created + usize::from(is_new.unwrap())
            })
        };
        let created: usize = std::thread::scope(|scope| {
            let threads = [(); 4].map(|()| scope.spawn(write));
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        let count = fs::read(folder.path().join("count")).unwrap().len();
        assert_eq!((created, count), (100, 400));
    }
}
