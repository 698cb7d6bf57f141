//! Order, latest item, history, as-of reads and paging across v9 → v10 and v99 → v100, in every width.

use operations::as_of::as_of;
use serde_json::json;
use shared::{
    config::WriteMode,
    domain::{
        keys::VersionDigits, recorded_at::RecordedAt, time::EpochMillis, version::Version, version_item::VersionItem,
    },
    dynamodb::{
        Store,
        read::{
            history::HistoryQuery,
            table_config::{Layout, LayoutError},
            versions::ReadError,
        },
    },
};
use testkit::database::{self, Database, at_second, entity, mode, update, version, write};
use writer_fn::counter;

/// Writes versions 1 to `count`, version n at n seconds.
async fn write_versions(store: &Store, count: u64) {
    for number in 1..=count {
        let update = update(json!({"ID": "E", "n": number}));
        let written = write(&at_second(store, number), &update, mode(WriteMode::Inline)).await;
        written.unwrap();
    }
}

async fn history(store: &Store, query: HistoryQuery) -> Vec<u64> {
    database::history(store, "E", query).await.unwrap()
}

const OLDEST_FIRST: HistoryQuery = HistoryQuery {
    from: None,
    to: None,
    oldest_first: true,
    limit: None,
    consistent: true,
};

#[tokio::test]
async fn every_width_returns_the_same() {
    let database = Database::start().await;
    for digits in [1, 2, 10] {
        let store = database.store(&format!("Width{digits}"), digits).await;
        write_versions(&store, 105).await;
        let latest = store.latest(&entity("E"), true).await.unwrap().unwrap();
        assert_eq!(latest.version.get(), 105);

        let newest_first: Vec<_> = (1..=105).rev().collect();
        assert_eq!(history(&store, HistoryQuery::default()).await, newest_first, "{digits}");
        assert_eq!(
            history(&store, OLDEST_FIRST).await,
            (1..=105).collect::<Vec<_>>(),
            "{digits}"
        );
        for (from, to, limit, oldest_first, expected) in [
            (Some(9), Some(11), None, true, vec![9, 10, 11]),
            (Some(9), Some(11), None, false, vec![11, 10, 9]),
            (Some(98), Some(101), None, true, vec![98, 99, 100, 101]),
            (Some(98), Some(101), None, false, vec![101, 100, 99, 98]),
            (None, None, Some(3), false, vec![105, 104, 103]),
            (None, None, Some(3), true, vec![1, 2, 3]),
            (Some(99), None, Some(2), true, vec![99, 100]),
            (Some(104), Some(1000), None, true, vec![104, 105]),
            (Some(106), None, None, true, vec![]),
            (Some(5), Some(4), None, true, vec![]),
            (None, None, Some(0), true, vec![]),
        ] {
            let query = HistoryQuery {
                from: from.map(version),
                to: to.map(version),
                limit,
                oldest_first,
                consistent: true,
            };
            assert_eq!(history(&store, query).await, expected, "{digits}: {query:?}");
        }

        for (second, expected) in [
            (0, None),
            (1, Some(1)),
            (9, Some(9)),
            (10, Some(10)),
            (99, Some(99)),
            (100, Some(100)),
            (500, Some(105)),
        ] {
            let at = RecordedAt::from_millis(EpochMillis::new(second * 1000));
            database.consumed();
            let found = as_of(&store, &entity("E"), at, true).await.unwrap();
            assert_eq!(found.map(|view| view.version.get()), expected, "{digits}: {second}");
            let reads = database.consumed().len();
            assert!(reads <= 9, "log2(105) + 2, not {reads}");
        }
        for number in [9, 10, 11, 99, 100] {
            let view = store
                .version(&entity("E"), version(number), true)
                .await
                .unwrap()
                .unwrap();
            assert_eq!(view.to_json()["Attributes"]["n"], number);
        }
        assert!(store.version(&entity("E"), version(106), true).await.unwrap().is_none());
        assert!(store.latest(&entity("F"), true).await.unwrap().is_none());
        assert!(database::history(&store, "F", HistoryQuery::default()).await.is_none());
    }
}

#[tokio::test]
async fn reads_use_the_latest_item_while_the_stream_is_behind() {
    let database = Database::start().await;
    let store = database.store("Table", 1).await;
    write_versions(&store, 6).await;
    let lag = async || {
        let lag = store.lag(&entity("E")).await.unwrap();
        lag.map(|lag| (lag.latest.get(), lag.through.map(Version::get)))
    };
    assert_eq!(lag().await, Some((6, Some(6))));
    // The stream has not delivered the seventh version yet.
    let seventh = update(json!({"ID": "E", "n": 7}));
    counter::write(&at_second(&store, 7), &seventh, mode(WriteMode::Stream))
        .await
        .unwrap();
    assert_eq!(lag().await, Some((7, Some(6))));
    let view = store.version(&entity("E"), version(7), true).await.unwrap().unwrap();
    assert_eq!(view.to_json()["Attributes"]["n"], 7);
    assert_eq!(history(&store, HistoryQuery::default()).await, [7, 6, 5, 4, 3, 2, 1]);
    assert_eq!(history(&store, OLDEST_FIRST).await, [1, 2, 3, 4, 5, 6, 7]);
    let limited = HistoryQuery {
        limit: Some(2),
        ..HistoryQuery::default()
    };
    assert_eq!(history(&store, limited).await, [7, 6]);
    // Nor the eighth: now no item contains the seventh.
    let eighth = update(json!({"ID": "E", "n": 8}));
    counter::write(&at_second(&store, 8), &eighth, mode(WriteMode::Stream))
        .await
        .unwrap();
    assert_eq!(lag().await, Some((8, Some(6))));
    assert_eq!(history(&store, HistoryQuery::default()).await, [8, 6, 5, 4, 3, 2, 1]);
    let missing = as_of(
        &store,
        &entity("E"),
        RecordedAt::from_millis(EpochMillis::new(7000)),
        true,
    )
    .await;
    assert_eq!(missing.err(), Some(ReadError::Missing { version: version(7) }));
    assert_eq!(store.lag(&entity("F")).await.unwrap(), None);
}

#[tokio::test]
async fn the_lag_is_found_at_any_distance() {
    let database = Database::start().await;
    for through in [0, 1, 2, 30, 49, 50, 51, 149, 150] {
        let store = database.store(&format!("Through{through}"), 1).await;
        for number in 1..=150 {
            counter::write(&store, &update(json!({"ID": "E"})), mode(WriteMode::Stream))
                .await
                .unwrap();
            if number <= through {
                database::put_version(&store, &entity("E")).await;
            }
        }
        let lag = store.lag(&entity("E")).await.unwrap().unwrap();
        assert_eq!(lag.through, Version::new(through));
    }
    // The newest version item does not close the gap before it.
    let store = database.store("Gaps", 1).await;
    for write_mode in [
        WriteMode::Inline,
        WriteMode::Stream,
        WriteMode::Stream,
        WriteMode::Inline,
    ] {
        counter::write(&store, &update(json!({"ID": "E"})), mode(write_mode))
            .await
            .unwrap();
    }
    let lag = store.lag(&entity("E")).await.unwrap().unwrap();
    assert_eq!((lag.latest, lag.through), (version(4), Some(version(1))));
}

#[tokio::test]
async fn a_table_keeps_the_width_it_was_created_with() {
    let database = Database::start().await;
    let two = database.store("Table", 2).await;
    let other = Store::new(
        database.client.clone(),
        database.table_name("Table"),
        VersionDigits::new(10).unwrap(),
    );
    assert_eq!(two.stored_layout().await, Ok(Layout::default()));
    let absent = two.check_layout().await;
    assert!(matches!(absent, Err(LayoutError::Absent { .. })), "{absent:?}");
    let one = Store::new(
        database.client.clone(),
        database.table_name("Table"),
        VersionDigits::default(),
    );
    two.claim_layout().await.unwrap();
    two.claim_layout().await.unwrap();
    two.check_layout().await.unwrap();
    assert_eq!(other.stored_layout().await.unwrap().digits, VersionDigits::new(2));
    let mismatch = Err(LayoutError::Width {
        stored: two.digits(),
        requested: other.digits(),
    });
    assert_eq!(other.check_layout().await.map(drop), mismatch);
    assert_eq!(other.claim_layout().await.map(drop), mismatch);
    assert!(one.claim_layout().await.is_err());

    // A table without a stored width has the default one.
    let narrow = database.store("Narrow", 1).await;
    write(&narrow, &update(json!({"ID": "E"})), mode(WriteMode::Stream))
        .await
        .unwrap();
    let wide = Store::new(
        database.client.clone(),
        database.table_name("Narrow"),
        VersionDigits::new(10).unwrap(),
    );
    let mismatch = Err(LayoutError::Width {
        stored: VersionDigits::default(),
        requested: wide.digits(),
    });
    assert_eq!(wide.claim_layout().await.map(drop), mismatch);
    // So has a table without a stored history table.
    let own = narrow.clone().with_history(Some("Other".to_owned()));
    let refused = own.claim_layout().await;
    assert!(matches!(refused, Err(LayoutError::History { .. })), "{refused:?}");
    narrow.claim_layout().await.unwrap();
    let stored = narrow.stored_layout().await.unwrap();
    assert_eq!(
        stored.digits,
        Some(VersionDigits::default()),
        "a claim stores the default, too"
    );
}

#[tokio::test]
async fn other_keys_between_version_keys_are_not_versions() {
    let database = Database::start().await;
    let store = database.store("Table", 2).await;
    write_versions(&store, 3).await;
    database
        .put(
            "Table",
            json!({"PK": {"S": "E"}, "SK": {"S": "v02-draft"}, "n": {"N": "0"}}),
        )
        .await;
    assert_eq!(history(&store, HistoryQuery::default()).await, [3, 2, 1]);
    let image = json!({"PK": {"S": "E"}, "SK": {"S": "v0"}, "Latest": {"N": "100"}});
    let beyond = VersionItem::from_image(serde_json::from_value(image).unwrap(), store.digits()).unwrap();
    assert_eq!(store.digits().version_key(beyond.version()), "v100");
}
