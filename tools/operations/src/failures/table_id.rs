//! Identity of a table: account, Region and name.

/// Account, Region and name of a table.
///
/// Tables of one name exist in many accounts and Regions, and a replica of a global table has the same name as well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableId {
    pub region: String,
    pub account: String,
    pub name: String,
}

impl TableId {
    /// Returns the table of an ARN: that of the table, or of its stream. `None` if it is neither.
    pub fn of_arn(arn: &str) -> Option<Self> {
        let (region, account, resource) = parts(arn, "dynamodb")?;
        let name = resource.strip_prefix("table/")?.split('/').next()?;
        (!name.is_empty()).then(|| Self {
            region: region.to_owned(),
            account: account.to_owned(),
            name: name.to_owned(),
        })
    }

    /// Returns `true` if a Kinesis stream with this ARN can receive the changes of the table: it has the same account and
    /// Region.
    pub fn is_beside_kinesis_stream(&self, arn: &str) -> bool {
        parts(arn, "kinesis").is_some_and(|(region, account, _)| (region, account) == (&*self.region, &*self.account))
    }
}

/// Returns Region, account and resource of an ARN of this service.
fn parts<'a>(arn: &'a str, service: &str) -> Option<(&'a str, &'a str, &'a str)> {
    let parts: Vec<_> = arn.splitn(6, ':').collect();
    let ["arn", _, of, region, account, resource] = parts[..] else {
        return None;
    };
    (of == service).then_some((region, account, resource))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_arns() {
        for (arn, table) in [
            (
                "arn:aws:dynamodb:us-east-1:000000000000:table/T.a_b-1/stream/2025-01-01T00:00:00.000",
                Some(["us-east-1", "000000000000", "T.a_b-1"]),
            ),
            (
                "arn:aws-cn:dynamodb:cn-north-1:1:table/T",
                Some(["cn-north-1", "1", "T"]),
            ),
            ("arn:aws:dynamodb:us-east-1:1:table/", None),
            ("arn:aws:dynamodb:us-east-1:1:backup/T", None),
            ("arn:aws:kinesis:us-east-1:1:table/T", None),
            ("arn:aws:dynamodb:us-east-1:table/T", None),
            (":table/T", None),
            ("T", None),
            ("", None),
        ] {
            let found = TableId::of_arn(arn);
            let found = found.as_ref().map(|id| [&*id.region, &id.account, &id.name]);
            assert_eq!(found, table, "{arn}");
        }
    }
}
