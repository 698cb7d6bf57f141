//! What a latest item remembers of requests, put together again from the versions they made.

use std::collections::HashMap;

use crate::{
    domain::{
        AttributeValue, Item,
        entity::EntityId,
        names,
        recent::{self, Window},
        version::Version,
    },
    dynamodb::{Store, client::error::ServiceError},
};

impl Store {
    /// The requests that made the newest versions up to this one, as many as the default window has.
    pub(crate) async fn recollect(
        &self,
        entity: &EntityId,
        through: Version,
    ) -> Result<HashMap<String, AttributeValue>, ServiceError> {
        let window = Window::default().get() as u64;
        let newest = through.get().saturating_sub(window - 1).max(1)..=through.get();
        let keys: Vec<_> = newest
            .filter_map(Version::new)
            .map(|version| self.digits.version_key(version))
            .collect();
        let items = self.batch_get(entity, &keys, true).await?;
        let request = |item: &Item| {
            let AttributeValue::S(key) = item.get(names::SK)? else {
                return None;
            };
            let version = self.digits.version_of(key)?;
            let request = recent::last_request(item)?;
            Some((request.as_str().to_owned(), AttributeValue::N(version.to_string())))
        };
        Ok(items.iter().filter_map(request).collect())
    }
}
