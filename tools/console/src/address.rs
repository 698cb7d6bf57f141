//! Addresses of the console's pages.

use shared::domain::entity::EntityId;

use crate::query::link;

/// Path of the sign-in form.
pub(crate) const SIGN_IN: &str = "/sign-in";
/// Path prefix of the static files. They need no token.
pub(crate) const ASSETS: &str = "/assets/";

/// Returns the address of a page of an entity.
pub(crate) fn of_entity(path: &str, id: &str) -> String {
    link(path, [("id", Some(id.to_owned()))])
}

/// Returns the address of an entity, with the history up to a version.
pub(crate) fn entity(entity: &EntityId, to: Option<u64>, by_time: bool) -> String {
    link(
        "/entity",
        [
            ("id", Some(entity.as_str().to_owned())),
            ("to", to.map(|to| to.to_string())),
            ("scale", (!by_time).then(|| "version".to_owned())),
        ],
    )
}

/// Returns the address of a page of a version.
pub(crate) fn version(path: &str, id: &str, version: u64) -> String {
    link(
        path,
        [("id", Some(id.to_owned())), ("version", Some(version.to_string()))],
    )
}

/// Returns the address of a comparison.
pub(crate) fn compare(entity: &EntityId, from: u64, to: u64) -> String {
    link(
        "/compare",
        [
            ("id", Some(entity.as_str().to_owned())),
            ("from", Some(from.to_string())),
            ("to", Some(to.to_string())),
        ],
    )
}

/// Returns the address of a source of failure documents, or of one of its documents.
pub(crate) fn document(path: &str, source: usize, name: Option<&str>) -> String {
    link(
        path,
        [
            ("source", Some(source.to_string())),
            ("document", name.map(str::to_owned)),
        ],
    )
}
