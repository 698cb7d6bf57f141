//! DynamoDB: an embedded one or one of the user, its table, and the stream of the table.

mod config;
mod embedded;
pub mod endpoint;
pub mod public_port;
mod sqlite;
pub mod stream;
pub mod table;

pub use self::{
    config::{ACCESS_KEY, MAPPING_ACCESS_KEY, access_key, sdk_config, sdk_config_of},
    embedded::{Embedded, EmbeddedError},
    sqlite::Trimmed,
};
