//! A table that other programs write, with its history: the stream function and the event source mapping of the template, without
//! the writer and its queue.
//!
//! The definition is the JSON of `aws dynamodb create-table --cli-input-json`, see [`shared::domain::attached::definition`]. The
//! table is created from this JSON as it is, with indexes, and with a stream of both images.

use std::path::Path;

use attach::definition::OWN_MEMBERS;
use aws_sdk_dynamodb::Client;
use aws_smithy_types::body::SdkBody;
use operations::table::settings::TableSettings;
use serde_json::{Map, Value, json};
use shared::{
    domain::attached::{self, AttachedTable},
    json,
};

use crate::{
    dynamodb::table,
    error::{LocalError, failed},
    mapping::filter::Filters,
    template::{Table, Template},
};

/// Definition of an attached table.
#[derive(Debug, Clone)]
pub struct Attachment {
    pub table: AttachedTable,
    /// Parameters of `CreateTable`.
    create: Map<String, Value>,
}

impl Attachment {
    /// Reads the file of a definition.
    pub fn read(path: &Path) -> Result<Self, LocalError> {
        let shown = path.display();
        let text = std::fs::read_to_string(path).map_err(failed(format!("{shown} cannot be read")))?;
        let table = attach::parse(&text).map_err(failed(format!("{shown} does not define a table")))?;
        let Ok(Value::Object(mut create)) = json::parse(&text) else {
            return Err(LocalError::new(format!("{shown} is not a JSON object")));
        };
        create.retain(|name, _| !OWN_MEMBERS.split(' ').any(|own| own == name));
        create.insert(
            "StreamSpecification".to_owned(),
            json!({"StreamEnabled": true, "StreamViewType": "NEW_AND_OLD_IMAGES"}),
        );
        Ok(Self { table, create })
    }

    /// Attaches the stream function of a template to the table.
    pub fn attach(self, template: &mut Template) -> Result<(), LocalError> {
        if template.is_kinesis {
            let what = "a table can only be attached with ChangeStream=DynamoDBStreams";
            return Err(LocalError::new(what));
        }
        let table = &self.table;
        let text = |value: Option<&str>| value.unwrap_or_default().to_owned();
        let environment = [
            // The stream does not exist yet. The function only needs to know that the table is attached.
            ("ATTACHED_STREAM_ARN", "local".to_owned()),
            ("TABLE_NAME", table.table().to_owned()),
            ("HISTORY_TABLE_NAME", table.history_table().to_owned()),
            ("VERSION_ATTRIBUTE", text(table.version_attribute())),
            ("ACTOR_ATTRIBUTE", text(table.settings().actor_attribute.as_deref())),
            ("REASON_ATTRIBUTE", text(table.settings().reason_attribute.as_deref())),
            (
                "CHANGE_SET_ATTRIBUTE",
                text(table.settings().change_set_attribute.as_deref()),
            ),
            ("FILTER", text(table.filter())),
            ("VERSION_DIGITS", attached::DIGITS.to_string()),
            ("IGNORE_ATTRIBUTES", json!(table.ignored()).to_string()),
        ];
        let stream_function = &template.stream_function;
        template
            .functions
            .retain(|function| function.binary == *stream_function);
        for function in &mut template.functions {
            let environment = environment.clone().map(|(name, value)| (name.to_owned(), value));
            function.environment.extend(environment);
        }
        self.table.table().clone_into(&mut template.table.name);
        template.history = Some(Table {
            name: self.table.history_table().to_owned(),
            settings: TableSettings {
                time_index: template.has_time_index(),
                ..TableSettings::of_history()
            },
        });
        let filters = Filters::parse(self.table.filter());
        template.mapping.filters = filters.map_err(failed("the mapping does not support the filter"))?;
        template.attached = Some(self);
        Ok(())
    }

    /// Creates the table if it does not exist, and returns the ARN of its stream.
    pub(crate) async fn ensure(&self, client: &Client) -> Result<String, LocalError> {
        let body = Value::Object(self.create.clone()).to_string();
        // The definition can have parameters that this version of the SDK does not know.
        let created = client
            .create_table()
            .table_name(self.table.table())
            .customize()
            .mutate_request(move |request| {
                request.headers_mut().insert("content-length", body.len().to_string());
                *request.body_mut() = SdkBody::from(body.as_str());
            });
        match created.send().await.map_err(aws_sdk_dynamodb::Error::from) {
            Ok(_) | Err(aws_sdk_dynamodb::Error::ResourceInUseException(_)) => {}
            Err(error) => return Err(failed("cannot create the table")(error)),
        }
        table::stream_of(client, self.table.table()).await
    }
}
