//! Records of a document: from its payload, or from the table's stream.

use std::collections::BTreeMap;

use shared::{dynamodb::Store, json};
use stream_fn::record::kinesis_table;
use tokio::sync::OnceCell;

use super::{
    stream::{Fetched, TableStream},
    tally::{Count, Tally},
};
use crate::{
    connection::Connection,
    error::OperationError,
    failures::{
        document::{Batch, Document},
        table_id::TableId,
    },
    request_error::RequestError,
};

pub struct Reader {
    /// Source of records that a document only refers to.
    stream: TableStream,
    store: Store,
    /// Name or ARN of the connection's table.
    table: String,
    /// Name or ARN of the table that the records must come from, if it is another one.
    pub from_table: Option<String>,
    /// Identity of this table, once it is known.
    own: OnceCell<TableId>,
    /// Region of the requests, if they are not sent to AWS. The ARNs of an emulator name a Region of its own.
    requested_region: Option<String>,
}

#[derive(Default)]
pub(crate) struct Read {
    pub(crate) records: Vec<String>,
    /// Position in the stream, if they were read from there.
    pub(super) fetched: Option<(Batch, Fetched)>,
    /// Counts of the document and of its records of other tables.
    pub(crate) tally: Tally,
}

impl Reader {
    /// Returns a reader of records of the connection's own table.
    pub fn new(connection: &Connection) -> Self {
        Self {
            stream: TableStream::new(connection),
            store: connection.store.clone(),
            table: connection.table.clone(),
            from_table: None,
            own: OnceCell::new(),
            requested_region: match (&connection.endpoint_url, connection.sdk.region()) {
                (Some(_), Some(region)) => Some(region.to_string()),
                _ => None,
            },
        }
    }

    pub(crate) async fn read(&self, name: &str, document: Document) -> Result<Read, OperationError> {
        let mut read = Read::default();
        match (document.records, document.batch) {
            (Some(records), _) if document.is_own => read.records = records,
            // Separates the records of this table from those of other tables.
            (Some(records), _) => {
                let mut others: BTreeMap<String, u64> = BTreeMap::new();
                for record in records {
                    match self.other(&Origin::of(&record), document.stream_arn.as_deref()).await? {
                        None => read.records.push(record),
                        Some(other) => *others.entry(other).or_default() += 1,
                    }
                }
                for (arn, records) in others {
                    read.tally.other_table(name, &arn, records);
                }
            }
            (None, Some(batch)) if self.is_own(&batch.stream_arn).await? => {
                let mut fetched = self.stream.fetch(&batch).await?;
                read.records = std::mem::take(&mut fetched.records);
                read.fetched = Some((batch, fetched));
            }
            (None, Some(batch)) => read.tally.other_table(name, &batch.stream_arn, batch.size),
            (None, None) => {
                return Ok(Read {
                    tally: Tally::open(Count::NotDocuments, name, "it names no records"),
                    ..Read::default()
                });
            }
        }
        read.tally.count(Count::Documents, 1);
        Ok(read)
    }

    /// Returns the ARN that shows that a record belongs to another table, `None` if it belongs to this one. So does a record
    /// without any ARN. `batch` is the ARN in the document itself.
    async fn other(&self, record: &Origin, batch: Option<&str>) -> Result<Option<String>, OperationError> {
        if let Some(table) = &record.kinesis_table
            && self.id().await?.name != *table
        {
            return Ok(Some(format!("arn:aws:dynamodb:::table/{table}")));
        }
        for arn in [record.arn.as_deref(), batch].into_iter().flatten() {
            // In a Kinesis record, the ARN is that of the Kinesis stream.
            let is_kinesis =
                record.kinesis_table.is_some() && self.ids().await?.any(|own| own.is_beside_kinesis_stream(arn));
            if !is_kinesis && !self.is_own(arn).await? {
                return Ok(Some(arn.to_owned()));
            }
        }
        Ok(None)
    }

    /// Returns `true` if this is the ARN of the table's stream, in the same account and Region.
    async fn is_own(&self, stream_arn: &str) -> Result<bool, OperationError> {
        let Some(id) = TableId::of_arn(stream_arn) else {
            return Ok(false);
        };
        Ok(self.ids().await?.any(|own| own == id))
    }

    /// Returns the identities of the table: on an emulator, one in each of its Regions.
    async fn ids(&self) -> Result<impl Iterator<Item = TableId>, OperationError> {
        let own = self.id().await?;
        let requested = self
            .requested_region
            .clone()
            .map(|region| TableId { region, ..own.clone() });
        Ok(requested.into_iter().chain([own.clone()]))
    }

    /// Returns the identity of the table that records must come from. Without an ARN, it has the account and the Region of the
    /// connection's table, which is described once.
    async fn id(&self) -> Result<&TableId, OperationError> {
        let id = async || {
            let from = self.from_table.as_deref();
            if let Some(id) = TableId::of_arn(from.unwrap_or(&self.table)) {
                return Ok(id);
            }
            let own = if let Some(own) = TableId::of_arn(&self.table) {
                own
            } else {
                let arn = self.store.describe().await?.arn;
                TableId::of_arn(&arn).ok_or_else(|| RequestError::unreadable("DescribeTable"))?
            };
            Ok(TableId {
                name: from.map_or_else(|| own.name.clone(), str::to_owned),
                ..own
            })
        };
        self.own.get_or_try_init(id).await
    }
}

/// Where a record comes from, as it claims.
struct Origin {
    arn: Option<String>,
    /// Table, if it is a Kinesis record.
    kinesis_table: Option<String>,
}

impl Origin {
    fn of(record: &str) -> Self {
        // An ARN that is no text, or that occurs twice, is that of no table.
        let arn = json::members(record).ok().and_then(|members| {
            let mut arns = members.iter().filter(|(name, _)| *name == "eventSourceARN");
            match (arns.next(), arns.next()) {
                (None | Some((_, "null")), None) => None,
                (Some((_, arn)), None) => Some(json::string(arn).unwrap_or_default()),
                _ => Some(String::new()),
            }
        });
        Self {
            arn,
            kinesis_table: kinesis_table(record),
        }
    }
}

#[cfg(test)]
mod tests {
    use testkit::replay::Replay;

    use super::*;

    /// A record of a Kinesis stream that names this table, in Base64.
    fn kinesis(arn: &str, data: &str) -> String {
        format!(r#"{{"kinesis": {{"data": "{data}", "sequenceNumber": "1"}}, "eventSourceARN": "{arn}"}}"#)
    }

    /// The table is at an emulator, whose ARNs have a Region of their own. That of the requests is the same table.
    #[tokio::test]
    async fn the_origin_of_a_record_cannot_be_hidden() {
        let arn = |table: &str| format!("arn:aws:dynamodb:{table}/stream/1");
        let (own, requested) = (arn("ddblocal:7:table/T"), arn("eu-central-1:7:table/T"));
        let others = ["ddblocal:7:table/T2", "eu-west-9:7:table/T", "ddblocal:8:table/T"];
        let [table, region, account] = others.map(arn);
        let stream = "arn:aws:kinesis:ddblocal:7:stream/S";
        let other_stream = "arn:aws:kinesis:ddblocal:8:stream/S";
        let (of_t, of_other, unnamed) = ("eyJ0YWJsZU5hbWUiOiJUIn0=", "eyJ0YWJsZU5hbWUiOiJPdGhlciJ9", "e30=");
        let of = |arn: &str| format!(r#"{{"eventSourceARN": "{arn}"}}"#);
        let twice = format!(r#"{{"eventSourceARN": "{table}", "eventSourceARN": "{own}"}}"#);
        for (record, batch, from, expected) in [
            (of(&own), None, None, None),
            (of(&requested), None, None, None),
            (of(&own), Some(&*requested), None, None),
            (of(&table), None, None, Some(&*table)),
            (of(&region), None, None, Some(&region)),
            (of(&account), None, None, Some(&account)),
            (of(&own), Some(&table), None, Some(&table)),
            // Without any ARN, it is taken for one of the table.
            ("{}".to_owned(), None, None, None),
            (r#"{"eventSourceARN": null}"#.to_owned(), None, None, None),
            (r#"["MODIFY", {}, null]"#.to_owned(), None, None, None),
            ("{}".to_owned(), Some(&table), None, Some(&table)),
            ("{}".to_owned(), Some(stream), None, Some(stream)),
            // An ARN that is none names no table.
            (r#"{"eventSourceARN": 7}"#.to_owned(), None, None, Some("")),
            (twice, None, None, Some("")),
            (kinesis(stream, of_t), None, None, None),
            (kinesis(stream, of_t), Some(stream), None, None),
            (
                kinesis(stream, of_other),
                None,
                None,
                Some("arn:aws:dynamodb:::table/Other"),
            ),
            (kinesis(stream, unnamed), None, None, Some("arn:aws:dynamodb:::table/")),
            (kinesis(other_stream, of_t), None, None, Some(other_stream)),
            // A name denotes a table in the same account and Region. An ARN denotes any table.
            (of(&table), None, Some("T2"), None),
            (of(&own), None, Some("T2"), Some(&own)),
            (of(&account), None, Some("T"), Some(&account)),
            (of(&account), None, Some(&*account), None),
        ] {
            let connection = crate::redrive::replayed(&Replay::new([]), &own);
            let mut reader = Reader::new(&connection);
            reader.from_table = from.map(str::to_owned);
            let other = reader.other(&Origin::of(&record), batch).await.unwrap();
            assert_eq!(other.as_deref(), expected, "{record} in {batch:?} from {from:?}");
        }
    }
}
