//! Versions in global secondary indexes, and their cost, compared with `docs/indexes.md`.

use aws_sdk_dynamodb::types::{
    AttributeDefinition, CreateGlobalSecondaryIndexAction, GlobalSecondaryIndexUpdate, KeySchemaElement, KeyType,
    Projection, ProjectionType, ScalarAttributeType,
};
use serde_json::json;
use shared::{config::WriteMode, dynamodb::Store};
use testkit::{
    database::{Database, entity, mode, put_version, update},
    endpoint::is_skipped,
    pages::root,
};
use writer_fn::counter;

const INDEXES: [(&str, &[(&str, ScalarAttributeType)]); 2] = [
    ("ByState", &[("State", ScalarAttributeType::S)]),
    (
        "LatestByState",
        &[("State", ScalarAttributeType::S), ("Latest", ScalarAttributeType::N)],
    ),
];

async fn create_index(database: &Database, table: &str, (name, keys): (&str, &[(&str, ScalarAttributeType)])) {
    let mut request = database.client.update_table().table_name(table);
    let mut index = CreateGlobalSecondaryIndexAction::builder().index_name(name);
    for ((name, kind), role) in keys.iter().zip([KeyType::Hash, KeyType::Range]) {
        let attribute = AttributeDefinition::builder().attribute_name(*name);
        request = request.attribute_definitions(attribute.attribute_type(kind.clone()).build().unwrap());
        let key = KeySchemaElement::builder().attribute_name(*name).key_type(role);
        index = index.key_schema(key.build().unwrap());
    }
    let projection = Projection::builder().projection_type(ProjectionType::KeysOnly);
    let index = index.projection(projection.build()).build().unwrap();
    let created = GlobalSecondaryIndexUpdate::builder().create(index).build();
    request.global_secondary_index_updates(created).send().await.unwrap();
}

async fn write(store: &Store, number: u64) {
    let update = update(json!({"ID": "E", "State": "OK", "N": number}));
    counter::write(store, &update, mode(WriteMode::Stream)).await.unwrap();
}

/// Returns the number of entries of an entity with three versions, and the write units of storing another version.
async fn measured(database: &Database, layout: &str, index: (&str, &[(&str, ScalarAttributeType)])) -> (usize, f64) {
    let table = format!("{layout}-{}", index.0);
    let mut store = database.store(&table, 1).await.with_history(None);
    create_index(database, store.latest_table(), index).await;
    if layout == "own" {
        let history = format!("{table}-versions");
        let keys = [("PK", ScalarAttributeType::S), ("SK", ScalarAttributeType::S)];
        database.table(&history, &keys).await;
        store = store.with_history(Some(database.table_name(&history)));
    }
    for number in 1..=3 {
        write(&store, number).await;
        put_version(&store, &entity("E")).await;
    }
    let scanned = database
        .client
        .scan()
        .table_name(store.latest_table())
        .index_name(index.0);
    let entries = scanned.send().await.unwrap().items().len();
    write(&store, 4).await;
    database.consumed();
    put_version(&store, &entity("E")).await;
    let consumed = database.consumed().into_iter();
    let put = consumed.filter(|(operation, _)| *operation != "GetItem");
    (entries, put.map(|(_, units)| units).sum())
}

#[tokio::test]
async fn versions_in_indexes_match_the_documentation() {
    if is_skipped(
        "versions_in_indexes_match_the_documentation",
        "an index takes time to be created",
    ) {
        return;
    }
    let database = Database::start().await;
    let mut rows = Vec::new();
    for layout in ["same", "own"] {
        let by_state = measured(&database, layout, INDEXES[0]).await;
        let latest = measured(&database, layout, INDEXES[1]).await;
        rows.push(format!(
            "| `{layout}` | {} | {} | {} | {} |",
            by_state.0, latest.0, by_state.1, latest.1
        ));
    }
    let page = std::fs::read_to_string(root().join("docs/indexes.md")).unwrap();
    let documented: Vec<_> = page
        .lines()
        .filter(|line| line.starts_with("| `same`") || line.starts_with("| `own`"))
        .collect();
    assert_eq!(rows, documented);
}
