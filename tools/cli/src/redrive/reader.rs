//! The records of a document: its own, or those that it points to in the stream.

use serde::Deserialize;
use serde_json::value::RawValue;
use stream_fn::record::kinesis_table;

use super::{TableStream, Tally, stream::Fetched};
use crate::{
    error::CliError,
    failures::document::{Batch, Document, table_of},
};

/// Reads documents of one table.
pub(crate) struct Reader {
    pub(crate) stream: TableStream,
    /// The table that records must come from.
    pub(crate) table: String,
}

/// What was read of a document.
#[derive(Default)]
pub(crate) struct Read {
    /// The records of this table.
    pub(crate) records: Vec<Box<RawValue>>,
    /// Where they were fetched from, if they were.
    pub(crate) fetched: Option<(Batch, Fetched)>,
    /// The document, with what is of other tables.
    pub(crate) tally: Tally,
}

impl Reader {
    pub(crate) async fn read(&self, name: &str, document: Document) -> Result<Read, CliError> {
        match (document.records, document.batch) {
            (Some(records), batch) => {
                let origin = batch.as_ref().map(|batch| batch.stream_arn.as_str());
                Ok(self.own(name, records, origin))
            }
            (None, Some(batch)) if self.is_own(Some(&batch.stream_arn)) => {
                let mut fetched = self.stream.fetch(&batch).await?;
                let mut read = Read {
                    records: std::mem::take(&mut fetched.records),
                    fetched: Some((batch, fetched)),
                    tally: Tally::default(),
                };
                read.tally.set_document();
                Ok(read)
            }
            (None, Some(batch)) => Ok(Tally::other_table(name, &batch.stream_arn, batch.size).into()),
            (None, None) => Ok(Tally::left(name, "it names no records").into()),
        }
    }

    /// Tells the records of this table from those of others.
    fn own(&self, name: &str, records: Vec<Box<RawValue>>, origin: Option<&str>) -> Read {
        let mut read = Read::default();
        for record in records {
            let source = source_of(&record);
            let source = source.as_deref().or(origin);
            if self.is_own(source) {
                read.records.push(record);
            } else {
                read.tally.add(Tally::other_table(name, source.unwrap_or_default(), 1));
            }
        }
        read.tally.set_document();
        read
    }

    /// Whether a record of this stream is one of the table. One that names no stream is taken to be.
    pub(crate) fn is_own(&self, stream_arn: Option<&str>) -> bool {
        let own = table_of(&self.table).unwrap_or(&self.table);
        stream_arn.is_none_or(|arn| table_of(arn) == Some(own))
    }
}

impl From<Tally> for Read {
    fn from(tally: Tally) -> Self {
        Self {
            tally,
            ..Self::default()
        }
    }
}

/// The stream that a record says it comes from.
fn source_of(record: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    struct Origin<'a> {
        #[serde(rename = "eventSourceARN", borrow)]
        arn: Option<&'a RawValue>,
    }
    // The ARN that Kinesis puts there is its own.
    if let Some(table) = kinesis_table(record) {
        return Some(format!(":table/{table}"));
    }
    let origin: Origin = serde_json::from_str(record.get()).ok()?;
    // What is no text names no table that could be this one.
    origin
        .arn
        .map(|arn| serde_json::from_str(arn.get()).unwrap_or_default())
}
