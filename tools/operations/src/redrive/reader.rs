//! Records of a document: from its payload, or from the table's stream.

use serde::Deserialize;
use serde_json::value::RawValue;
use stream_fn::record::kinesis_table;

use super::{
    stream::{Fetched, TableStream},
    tally::Tally,
};
use crate::{
    error::OperationError,
    failures::document::{Batch, Document, table_of},
};

pub struct Reader {
    /// Source of records that a document only refers to.
    pub stream: TableStream,
    /// Name or ARN of the table that the records must come from.
    pub table: String,
}

#[derive(Default)]
pub struct Read {
    pub records: Vec<Box<RawValue>>,
    /// Position in the stream, if they were read from there.
    pub fetched: Option<(Batch, Fetched)>,
    /// Counts of the document and of its records of other tables.
    pub tally: Tally,
}

impl Reader {
    pub async fn read(&self, name: &str, document: Document) -> Result<Read, OperationError> {
        match (document.records, document.batch) {
            (Some(records), _) if document.is_own => {
                let mut read = Read {
                    records,
                    ..Read::default()
                };
                read.tally.set_document();
                Ok(read)
            }
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

    /// Separates the records of this table from those of other tables.
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

    /// Returns `true` if a record of this stream belongs to the table. A record without a stream does.
    pub fn is_own(&self, stream_arn: Option<&str>) -> bool {
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

fn source_of(record: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    struct Origin<'a> {
        #[serde(rename = "eventSourceARN", borrow)]
        arn: Option<&'a RawValue>,
    }
    // In a Kinesis record, the ARN is that of the Kinesis stream.
    if let Some(table) = kinesis_table(record) {
        return Some(format!(":table/{table}"));
    }
    let origin: Origin = serde_json::from_str(record.get()).ok()?;
    // An ARN that is no text is that of no table.
    origin
        .arn
        .map(|arn| serde_json::from_str(arn.get()).unwrap_or_default())
}
