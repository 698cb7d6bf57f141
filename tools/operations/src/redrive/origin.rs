//! The table that a record comes from, as the record and its document claim.

use shared::json;
use stream_fn::record::kinesis_table;
use tokio::sync::OnceCell;

use crate::{connection::Connection, error::OperationError, failures::table_id::TableId, request_error::RequestError};

/// The table that records must come from.
pub(super) struct Origin<'a> {
    connection: &'a Connection,
    /// Name or ARN of the table that the records must come from, if it is not the connection's one.
    from_table: Option<&'a str>,
    /// Identities of the table, once they are known: on an emulator, one in each of its Regions.
    own: OnceCell<Vec<TableId>>,
}

impl<'a> Origin<'a> {
    pub(super) fn new(connection: &'a Connection, from_table: Option<&'a str>) -> Self {
        Self {
            connection,
            from_table,
            own: OnceCell::new(),
        }
    }

    /// Returns the ARN that shows that a record belongs to another table, `None` if it belongs to this one. So does a record
    /// without any ARN. `document` is the ARN in the document itself.
    pub(super) async fn other(&self, record: &str, document: Option<&str>) -> Result<Option<String>, OperationError> {
        let (own, of_kinesis) = (self.own().await?, kinesis_table(record));
        if let Some(table) = &of_kinesis
            && own.iter().all(|own| own.name != *table)
        {
            return Ok(Some(format!("arn:aws:dynamodb:::table/{table}")));
        }
        // In a Kinesis record, the ARN is that of the Kinesis stream.
        let is_beside = |arn| of_kinesis.is_some() && own.iter().any(|own| own.is_beside_kinesis_stream(arn));
        let claimed = claimed(record);
        let mut arns = [claimed.as_deref(), document].into_iter().flatten();
        let other = arns.find(|arn| !is_beside(arn) && !is_any(own, arn));
        Ok(other.map(str::to_owned))
    }

    /// Returns `true` if this is the ARN of the table's stream, in the same account and Region.
    pub(super) async fn is_own(&self, stream_arn: &str) -> Result<bool, OperationError> {
        Ok(is_any(self.own().await?, stream_arn))
    }

    async fn own(&self) -> Result<&[TableId], OperationError> {
        Ok(self.own.get_or_try_init(|| self.identities()).await?)
    }

    /// A name denotes a table in the account and the Region of the connection's table, which is described once. An ARN denotes
    /// any table.
    async fn identities(&self) -> Result<Vec<TableId>, OperationError> {
        let named = self.from_table.into_iter().chain([&*self.connection.table]);
        let mut own = if let Some(named) = named.into_iter().find_map(TableId::of_arn) {
            named
        } else {
            let table = self.connection.store.description().await?;
            TableId::of_arn(table.table_arn.as_deref().unwrap_or_default())
                .ok_or_else(|| RequestError::unreadable("DescribeTable"))?
        };
        if let Some(name) = self.from_table.filter(|from| TableId::of_arn(from).is_none()) {
            name.clone_into(&mut own.name);
        }
        // The ARNs of an emulator name a Region of its own.
        let requested = self.connection.endpoint_url.as_ref().and(self.connection.sdk.region());
        let requested = requested.map(|region| TableId {
            region: region.to_string(),
            ..own.clone()
        });
        Ok(requested.into_iter().chain([own]).collect())
    }
}

fn is_any(own: &[TableId], arn: &str) -> bool {
    TableId::of_arn(arn).is_some_and(|table| own.contains(&table))
}

/// Returns the ARN in a record. One that is no text, or that occurs twice, is that of no table.
fn claimed(record: &str) -> Option<String> {
    let members = json::members(record).ok()?;
    let mut arns = members.iter().filter(|(name, _)| *name == "eventSourceARN");
    match (arns.next(), arns.next()) {
        (None | Some((_, "null")), None) => None,
        (Some((_, arn)), None) => Some(json::string(arn).unwrap_or_default()),
        _ => Some(String::new()),
    }
}

#[cfg(test)]
mod tests {
    use testkit::replay::Replay;

    use super::*;
    use crate::redrive::test_connection::replayed;

    /// The table is at an emulator, whose ARNs have a Region of their own. That of the requests is the same table.
    #[tokio::test]
    async fn the_origin_of_a_record_cannot_be_hidden() {
        let arn = |table: &str| format!("arn:aws:dynamodb:{table}/stream/1");
        let (own, requested) = (arn("ddblocal:7:table/T"), arn("eu-central-1:7:table/T"));
        let others = ["ddblocal:7:table/T2", "eu-west-9:7:table/T", "ddblocal:8:table/T"];
        let [table, region, account] = others.map(arn);
        let (stream, other_stream) = (
            "arn:aws:kinesis:ddblocal:7:stream/S",
            "arn:aws:kinesis:ddblocal:8:stream/S",
        );
        let of = |arn: &str| format!(r#"{{"eventSourceARN": "{arn}"}}"#);
        // A record of a Kinesis stream: `{"tableName":"T"}`, `{"tableName":"Other"}` and `{}` in Base64.
        let kinesis = |arn: &str, data: &str| {
            format!(r#"{{"kinesis": {{"data": "{data}", "sequenceNumber": "1"}}, "eventSourceARN": "{arn}"}}"#)
        };
        let (of_t, of_other) = ("eyJ0YWJsZU5hbWUiOiJUIn0=", "eyJ0YWJsZU5hbWUiOiJPdGhlciJ9");
        let twice = format!(r#"{{"eventSourceARN": "{table}", "eventSourceARN": "{own}"}}"#);
        let none = || "{}".to_owned();
        for (record, document, from, expected) in [
            (of(&own), None, None, None),
            (of(&requested), None, None, None),
            (of(&own), Some(&*requested), None, None),
            (of(&table), None, None, Some(&*table)),
            (of(&region), None, None, Some(&region)),
            (of(&account), None, None, Some(&account)),
            (of(&own), Some(&table), None, Some(&table)),
            // Without any ARN, it is taken for one of the table.
            (none(), None, None, None),
            (r#"{"eventSourceARN": null}"#.to_owned(), None, None, None),
            (r#"["MODIFY", {}, null]"#.to_owned(), None, None, None),
            (none(), Some(&table), None, Some(&table)),
            (none(), Some(stream), None, Some(stream)),
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
            (kinesis(stream, "e30="), None, None, Some("arn:aws:dynamodb:::table/")),
            (kinesis(other_stream, of_t), None, None, Some(other_stream)),
            // A name denotes a table in the same account and Region. An ARN denotes any table.
            (of(&table), None, Some("T2"), None),
            (of(&own), None, Some("T2"), Some(&own)),
            (of(&account), None, Some("T"), Some(&account)),
            (of(&account), None, Some(&*account), None),
        ] {
            let connection = replayed(&Replay::new([]), &own);
            let origin = Origin::new(&connection, from);
            let other = origin.other(&record, document).await.unwrap();
            assert_eq!(other.as_deref(), expected, "{record} in {document:?} from {from:?}");
        }
    }
}
