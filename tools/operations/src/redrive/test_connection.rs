//! A connection whose requests, to all services, get prepared responses.

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_sqs::config::{Credentials, SharedCredentialsProvider};
use shared::domain::keys::VersionDigits;
use testkit::replay::Replay;

use crate::connection::Connection;

pub(super) fn replayed(replay: &Replay, table: &str) -> Connection {
    let sdk = SdkConfig::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::new("eu-central-1"))
        .credentials_provider(SharedCredentialsProvider::new(Credentials::for_tests()))
        .http_client(replay.http())
        .build();
    Connection::new(
        &replay.client(),
        sdk,
        "http://127.0.0.1:1",
        table,
        VersionDigits::default(),
    )
}
