//! Records in quarantine as documents: one document for each record.

use crate::rate_limit::RateLimiter;
use shared::{
    domain::{entity::EntityId, names, quarantine::QuarantinedRecord},
    json,
};

use super::{
    feed::{Feed, Sink},
    listing::{Entry, Listed},
    tally::Tally,
};
use crate::{
    connection::entity_of,
    error::OperationError,
    failures::document::{Context, Document},
    quarantine::QuarantinedEntities,
};

impl Feed<'_> {
    /// Passes the records of one partition key, or of the table, to the sink, and deletes those that the sink releases.
    pub(super) async fn quarantine(
        &self,
        id: Option<&str>,
        sink: &impl Sink,
        tally: &mut Tally,
    ) -> Result<(), OperationError> {
        let mut entities = self.quarantined_entities(id, None)?;
        while let Some(entity) = entities.next().await? {
            for record in crate::read::quarantined::quarantined(&self.connection.store, &entity).await? {
                self.quarantined_record(&record, sink, tally).await?;
                self.progress.at(tally.processed());
            }
        }
        Ok(())
    }

    async fn quarantined_record(
        &self,
        record: &QuarantinedRecord,
        sink: &impl Sink,
        tally: &mut Tally,
    ) -> Result<(), OperationError> {
        let name = name_of(record);
        let mut one = match document(record) {
            Ok(document) => sink.document(&name, document).await?,
            Err(why) => Tally::left(&name, why),
        };
        if sink.may_delete(&one) {
            self.connection.store.delete_quarantined(record).await?;
            one.quarantine_deleted = 1;
        } else {
            one.quarantine_kept = 1;
        }
        tally.add(one);
        Ok(())
    }

    fn quarantined_entities(
        &self,
        id: Option<&str>,
        after: Option<&QuarantinedRecord>,
    ) -> Result<QuarantinedEntities, OperationError> {
        let store = self.connection.store.clone();
        Ok(match (id, after) {
            (Some(id), _) => {
                let entity = entity_of(&store, id)?;
                QuarantinedEntities::named(store, [entity])
            }
            (None, after) => {
                let cursor = after.and_then(|record| {
                    let first = record.items().into_iter().next()?;
                    let mut key: std::collections::HashMap<_, _> = first.into();
                    key.retain(|name, _| [names::PK, names::SK].contains(&name.as_str()));
                    Some(key)
                });
                QuarantinedEntities::of_table(store, RateLimiter::unlimited(), cursor)
            }
        })
    }

    /// Returns at most `limit` records after one of them, and `true` if there are more.
    pub(super) async fn quarantine_page<T>(
        &self,
        id: Option<&str>,
        after: Option<&str>,
        limit: usize,
        mut map: impl FnMut(Entry) -> T,
    ) -> Result<Listed<T>, OperationError> {
        let after = match after {
            Some(name) => self.quarantined(name).await?,
            None => None,
        };
        let mut listed = Listed {
            entries: Vec::new(),
            has_more: false,
            is_absent: false,
        };
        // The scan continues within the entity of the last record.
        let mut entities = self.quarantined_entities(id, after.as_ref())?;
        let mut next = match &after {
            Some(after) => Some(after.entity.clone()),
            None => entities.next().await?,
        };
        while let Some(entity) = next {
            for record in crate::read::quarantined::quarantined(&self.connection.store, &entity).await? {
                let is_before = |after: &QuarantinedRecord| after.entity == entity && record.number <= after.number;
                if after.as_ref().is_some_and(is_before) {
                    continue;
                }
                if listed.entries.len() == limit {
                    listed.has_more = true;
                    return Ok(listed);
                }
                listed.entries.push(map(entry(&record)));
            }
            next = entities.next().await?;
            if after.as_ref().is_some_and(|after| next.as_ref() == Some(&after.entity)) {
                next = entities.next().await?;
            }
        }
        Ok(listed)
    }

    /// Returns the record of this name.
    pub(super) async fn quarantine_entry(&self, name: &str) -> Result<Option<Entry>, OperationError> {
        Ok(self.quarantined(name).await?.as_ref().map(entry))
    }

    /// Passes only the record of this name to the sink. Returns `false` if there is none.
    pub(super) async fn quarantine_one(
        &self,
        name: &str,
        sink: &impl Sink,
        tally: &mut Tally,
    ) -> Result<bool, OperationError> {
        let Some(record) = self.quarantined(name).await? else {
            return Ok(false);
        };
        self.quarantined_record(&record, sink, tally).await?;
        Ok(true)
    }

    async fn quarantined(&self, name: &str) -> Result<Option<QuarantinedRecord>, OperationError> {
        let Some((id, _)) = name.rsplit_once(' ') else {
            return Ok(None);
        };
        let Ok(entity) = EntityId::new(id) else {
            return Ok(None);
        };
        let records = crate::read::quarantined::quarantined(&self.connection.store, &entity).await?;
        Ok(records.into_iter().find(|record| name_of(record) == name))
    }
}

/// Returns the name of a record: its partition key and its sequence number.
fn name_of(record: &QuarantinedRecord) -> String {
    format!("{} {}", record.entity.as_str(), record.number)
}

fn entry(record: &QuarantinedRecord) -> Entry {
    Entry {
        name: name_of(record),
        bytes: record.record.len(),
        document: document(record).map_err(str::to_owned),
    }
}

fn document(record: &QuarantinedRecord) -> Result<Document, &'static str> {
    let raw = json::check(&record.record).map_err(|_| "its record is not JSON")?;
    Ok(Document {
        batch: None,
        stream_arn: None,
        records: Some(vec![raw.to_owned()]),
        context: Context {
            condition: Some(record.kind.clone()),
            time: record.at.map(|at| at.to_string()),
            ..Context::default()
        },
        is_own: true,
    })
}
