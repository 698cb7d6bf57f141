//! DynamoDB: an embedded one or one of the user, its table, and the stream of the table.

mod embedded;
pub mod endpoint;
pub mod public_port;
mod sqlite;
pub mod stream;
pub mod table;

pub use self::{embedded::Embedded, endpoint::sdk_config, sqlite::Trimmed};
