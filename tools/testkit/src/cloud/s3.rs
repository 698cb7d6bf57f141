//! Buckets of S3. What they do not support is answered with 501. Keys have no characters that XML escapes, and no retention ends.

use std::{collections::BTreeMap, fmt::Write as _};

use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use flate2::Crc;
use sha2::{Digest as _, Sha256};

use super::request::{Request, response};

const MODE: &str = "x-amz-object-lock-mode";
const UNTIL: &str = "x-amz-object-lock-retain-until-date";

#[derive(Debug, Clone)]
pub struct Version {
    pub id: String,
    /// `None` for a delete marker.
    pub content: Option<Vec<u8>>,
    /// Headers of the put that S3 stores: checksums, retention, metadata, type and encoding of the content.
    pub headers: BTreeMap<String, String>,
}

impl Version {
    /// Returns a hash of the content, in quotes. As in S3, it is the same for the same content.
    pub fn etag(&self) -> String {
        let hash = Sha256::digest(self.content.as_deref().unwrap_or_default());
        format!("\"{:032x}\"", u128::from_be_bytes(hash[..16].try_into().unwrap()))
    }
}

/// Status and code of an error.
type Failure = (u16, &'static str);

pub(super) struct Bucket {
    /// `true` if the bucket has Object Lock, and versions.
    pub(super) is_locked: bool,
    /// Versions of each key, from the oldest to the current one.
    pub(super) objects: BTreeMap<String, Vec<Version>>,
}

impl Bucket {
    /// Returns this version, or the current one, with its content. `None` for a delete marker.
    pub(super) fn find(&self, key: &str, id: Option<&String>) -> Option<(&Version, &[u8])> {
        let mut versions = self.objects.get(key)?.iter().rev();
        let version = versions.find(|version| id.is_none_or(|id| version.id == *id))?;
        Some((version, version.content.as_deref()?))
    }

    /// Executes a request. `body` is `None` if it is a stream, which the SDK sends in the encoding `aws-chunked`.
    pub(super) fn respond(&mut self, request: &Request, body: Option<&[u8]>) -> HttpResponse {
        const PARAMETERS: &str = "x-id versionId list-type prefix";
        let is_supported = request.query.keys().all(|name| PARAMETERS.contains(name))
            && ["range", "x-amz-copy-source"]
                .iter()
                .all(|name| request.header(name).is_none());
        let result = match (request.operation.as_str(), body) {
            ("PutObject", Some(body)) if is_supported => self.put(request, body),
            ("GetObject" | "HeadObject", _) if is_supported => self.get(request),
            ("DeleteObject", _) if is_supported => self.delete(request),
            ("ListObjectsV2", _) if is_supported => Ok(self.list(request)),
            _ => Err((501, "NotImplemented")),
        };
        result.unwrap_or_else(|(status, code)| request.error(status, code))
    }

    /// Checks the condition of a request.
    fn check(&self, request: &Request) -> Result<(), Failure> {
        let current = self.find(&request.key, None).map(|(version, _)| version.etag());
        match (request.header("if-none-match"), request.header("if-match"), current) {
            (None, None, _) | (Some("*"), None, None) => Ok(()),
            (None, Some(tag), Some(current)) if tag.trim_matches('"') == current.trim_matches('"') => Ok(()),
            (None, Some(_), None) => Err((404, "NoSuchKey")),
            (Some("*"), None, Some(_)) | (None, Some(_), Some(_)) => Err((412, "PreconditionFailed")),
            _ => Err((501, "NotImplemented")),
        }
    }

    fn put(&mut self, request: &Request, body: &[u8]) -> Result<HttpResponse, Failure> {
        let stored = [
            "content-encoding",
            "content-type",
            "x-amz-checksum-",
            "x-amz-meta-",
            "x-amz-object-lock-",
        ];
        let mut headers = request.headers.clone();
        headers.retain(|name, _| stored.iter().any(|stored| name.starts_with(stored)));
        let mut crc = Crc::new();
        crc.update(body);
        let (crc, hash) = (crc.sum().to_be_bytes(), Sha256::digest(body));
        for (name, sum) in [("x-amz-checksum-crc32", &crc[..]), ("x-amz-checksum-sha256", &hash[..])] {
            if headers.get(name).is_some_and(|sent| *sent != STANDARD.encode(sum)) {
                return Err((400, "BadDigest"));
            }
        }
        // S3 requires a checksum of what it retains.
        let is_checked = headers.keys().any(|name| name.starts_with("x-amz-checksum-"));
        if headers.contains_key(MODE) && !(self.is_locked && is_checked && headers.contains_key(UNTIL)) {
            return Err((400, "InvalidRequest"));
        }
        self.check(request)?;
        Ok(self.store(&request.key, Some(body.to_vec()), headers))
    }

    fn store(&mut self, key: &str, content: Option<Vec<u8>>, headers: BTreeMap<String, String>) -> HttpResponse {
        let id = format!("version-{:016x}", fastrand::u64(..));
        let version = Version { id, content, headers };
        let response = self.response(&version, b"");
        let versions = self.objects.entry(key.to_owned()).or_default();
        if !self.is_locked {
            versions.clear();
        }
        versions.push(version);
        response
    }

    /// Returns a response with the headers of a version.
    fn response(&self, version: &Version, body: &[u8]) -> HttpResponse {
        let mut response = response(200, body);
        let headers = response.headers_mut();
        for (name, value) in &version.headers {
            headers.insert(name.clone(), value.clone());
        }
        headers.insert("etag", version.etag());
        if self.is_locked {
            headers.insert("x-amz-version-id", version.id.clone());
        }
        response
    }

    fn get(&self, request: &Request) -> Result<HttpResponse, Failure> {
        let found = self.find(&request.key, request.query.get("versionId"));
        let (version, content) = found.ok_or((404, "NoSuchKey"))?;
        self.check(request)?;
        let mut response = match request.operation.as_str() {
            "HeadObject" => self.response(version, b""),
            _ => self.response(version, content),
        };
        response
            .headers_mut()
            .insert("content-length", content.len().to_string());
        Ok(response)
    }

    fn delete(&mut self, request: &Request) -> Result<HttpResponse, Failure> {
        self.check(request)?;
        match request.query.get("versionId") {
            None if self.is_locked => _ = self.store(&request.key, None, BTreeMap::new()),
            None => _ = self.objects.remove(&request.key),
            Some(id) => {
                let versions = self.objects.entry(request.key.clone()).or_default();
                if versions
                    .iter()
                    .any(|version| version.id == *id && version.headers.contains_key(MODE))
                {
                    return Err((403, "AccessDenied"));
                }
                versions.retain(|version| version.id != *id);
            }
        }
        Ok(response(204, ""))
    }

    /// Returns all objects on one page.
    fn list(&self, request: &Request) -> HttpResponse {
        let prefix = request.query.get("prefix").map_or("", String::as_str);
        let mut body = "<ListBucketResult>".to_owned();
        for key in self.objects.keys().filter(|key| key.starts_with(prefix)) {
            if let Some((version, content)) = self.find(key, None) {
                let (etag, size) = (version.etag(), content.len());
                let _ = write!(
                    body,
                    "<Contents><Key>{key}</Key><ETag>{etag}</ETag><Size>{size}</Size></Contents>"
                );
            }
        }
        response(200, body + "</ListBucketResult>")
    }
}
