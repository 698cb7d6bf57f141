//! Functions, `vzero --table COPY admin prune` and `purge --yes` on a table that was restored from a backup of the versioned table.

use super::*;
use crate::world::create_table;

const COPY: &str = "Copy";

/// Creates a table with the items of the versioned table, and with its layout.
pub(crate) fn create_copy(connector: &Connector) -> Result<(), SimulationError> {
    create_table(connector, COPY)?;
    for item in connector.scan(TABLE)? {
        connector.put(COPY, &item)?;
    }
    Ok(())
}

/// Runs both functions on the copy, with the layout of the original. Returns what they have processed: nothing, if they refuse it.
pub(crate) async fn run_on_copy(connector: &Connector, settings: &Settings, entity: &str) -> Vec<String> {
    const LIMIT: Duration = Duration::from_secs(30);
    let Ok(mut config) = config(settings) else {
        return Vec::new();
    };
    COPY.clone_into(&mut config.table);
    let client = dynamodb_client(connector);
    let caller = |author| Caller::of_process(author, Some(OF_COPY));
    let mut processed = Vec::new();

    let writer = Writer::new(client.clone(), &config);
    let event = json!({"ID": entity, "Copy": 1}).to_string();
    let carrier = Carrier::invocation("copy");
    let written = writer.handle_from(&carrier, Some(&event), Deadline::after(LIMIT));
    let written = process(&caller(Author::Writer(Vec::new())), LIMIT, written).await;
    if let Ok(Ok(_)) = written {
        processed.push("writer-fn applied an update".to_owned());
    }

    let keys = json!({"PK": {"S": entity}, "SK": {"S": LATEST_KEY}});
    let mut image: Value = keys.clone();
    image["Latest"] = json!({"N": "1000"});
    let record = json!({"eventName": "MODIFY", "dynamodb": {
        "Keys": keys, "NewImage": image, "SequenceNumber": "1", "ApproximateCreationDateTime": 1,
    }});
    let event = json!({"Records": [record]}).to_string();
    let writer = HistoryWriter::new(client, &config);
    let stored = writer.handle(&event, "copy", Deadline::after(LIMIT));
    if let Ok(Ok(_)) = process(&caller(Author::StreamFunction), LIMIT, stored).await {
        processed.push("stream-fn processed a record".to_owned());
    }
    processed
}

impl Operators {
    /// Prunes and purges an entity of the copy. It is done also if the table is refused because it is a copy.
    pub(crate) async fn use_copy(&self, entity: &str) -> CommandEnd {
        let used = async {
            let client = self.connection.client.clone();
            let copy = Store::new(client, COPY, self.connection.store.digits());
            let layout = match copy.stored_layout().await {
                Err(error) if operations::error::is_mismatch(&error) => return Ok(()),
                layout => layout?,
            };
            let copy = copy.with_history(layout.history);
            let options = Options {
                rule: Rule::Keep(1),
                grace: Duration::ZERO,
                over_gaps: false,
                dry_run: false,
            };
            if let Ok(prune) = EntityPrune::plan(&copy, entity, options, &self.pace()).await {
                prune.run(&Silent).await?;
            }
            Ok(Purge::of(&copy, entity).await?.run(Duration::ZERO, |_| {}).await?)
        };
        let caller = Caller::of_process(Author::Operator, Some(OF_COPY));
        process(&caller, COMMAND_TIMEOUT, used).await.ok()
    }
}
