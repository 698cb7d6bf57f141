//! Optimistic locking: the published example, clients that save the same content, and lost responses.

use std::time::Duration;

use aws_sdk_dynamodb::{Client, config::retry::RetryConfig, types::ScalarAttributeType::S};
use futures::future::join_all;
use patterns::optimistic_lock::{Check, Locked, SaveError};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use testkit::{
    database::{Database, rows, sorted},
    lost_responses::LostResponses,
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Book {
    #[serde(rename = "ISBN")]
    isbn: String,
    title: String,
    version: Option<u64>,
}

#[derive(Serialize)]
struct Isbn {
    #[serde(rename = "ISBN")]
    isbn: &'static str,
}

const ISBN: Isbn = Isbn {
    isbn: "978-3-16-148410-0",
};

fn book(title: &str, version: Option<u64>) -> Book {
    Book {
        isbn: ISBN.isbn.to_owned(),
        title: title.to_owned(),
        version,
    }
}

fn stored(error: SaveError<Book>) -> Option<Book> {
    match error {
        SaveError::Conflict { stored } => stored,
        other => panic!("{other}"),
    }
}

async fn create_books(database: &Database) -> Locked<Book> {
    database.table("Books", &[("ISBN", S)]).await;
    books(database, database.client.clone())
}

fn books(database: &Database, client: Client) -> Locked<Book> {
    Locked::new(client, database.table_name("Books"), &["ISBN"], "version")
}

/// Asserts that this item is the only one.
async fn assert_stored(database: &Database, item: Value) {
    assert_eq!(rows(database, "Books").await, sorted(vec![item]));
}

/// Two clients that change the title of a book concurrently.
#[tokio::test]
async fn optimistic_locking() {
    let database = Database::start().await;
    let books = create_books(&database).await;
    assert_eq!(books.load(&ISBN).await.unwrap(), None);
    // A value with a version cannot be saved as a new one.
    assert_eq!(
        stored(books.save(&book("x", Some(7)), Check::Version).await.unwrap_err()),
        None
    );
    let new = book("Old Title", None);
    assert_eq!(
        books.save(&new, Check::Version).await.unwrap(),
        book("Old Title", Some(1))
    );
    assert_eq!(new.version, None, "the argument is unchanged");
    let second = books.save(&book("Old Title", Some(1)), Check::Version).await.unwrap();
    assert_eq!(second.version, Some(2));
    // A value without a version conflicts with a stored one.
    assert!(stored(books.save(&book("Other", None), Check::Version).await.unwrap_err()).is_some());

    let ours = books.load(&ISBN).await.unwrap().unwrap();
    books
        .save(&book("Changed By Someone Else", Some(2)), Check::Version)
        .await
        .unwrap();
    let ours = Book {
        title: "New Title".to_owned(),
        ..ours
    };
    let conflicting = stored(books.save(&ours, Check::Version).await.unwrap_err());
    assert_eq!(conflicting, Some(book("Changed By Someone Else", Some(3))));
    assert_eq!(
        stored(books.delete(&ours, Check::Version).await.unwrap_err()),
        conflicting
    );
    // Clobber checks nothing, but increments the version.
    assert_eq!(
        books
            .save(&book("Clobbered", Some(9)), Check::Clobber)
            .await
            .unwrap()
            .version,
        Some(10)
    );
    assert_stored(
        &database,
        json!({"ISBN": {"S": ISBN.isbn}, "title": {"S": "Clobbered"}, "version": {"N": "10"}}),
    )
    .await;
    // The same for a deletion: ours has version 2.
    assert!(stored(books.delete(&ours, Check::Version).await.unwrap_err()).is_some());
    books.delete(&ours, Check::Clobber).await.unwrap();
    assert_eq!(books.load(&ISBN).await.unwrap(), None);
}

#[tokio::test]
async fn optimistic_locking_inside_a_transaction() {
    let database = Database::start().await;
    let books = create_books(&database).await;
    let other = Book {
        isbn: "other".to_owned(),
        ..book("Other", None)
    };
    let saved = books
        .save_all(&[&book("One", None), &other], Check::Version)
        .await
        .unwrap();
    assert_eq!(
        saved.iter().map(|book| book.version).collect::<Vec<_>>(),
        [Some(1), Some(1)]
    );
    // One of the two differs from the stored value, so neither is saved.
    let conflicting = stored(books.save_all(&[&saved[0], &other], Check::Version).await.unwrap_err());
    assert_eq!(conflicting.as_ref(), Some(&saved[1]));
    assert_eq!(books.load(&ISBN).await.unwrap().unwrap().version, Some(1));
    // Combined with other requests in one transaction.
    let save = books.prepare_save(&saved[0], Check::Version).unwrap();
    let delete = books.prepare_delete(&saved[1], Check::Version).unwrap();
    let request = database
        .client
        .transact_write_items()
        .transact_items(save.item)
        .transact_items(delete.item);
    request.send().await.unwrap();
    assert_eq!(books.load(&ISBN).await.unwrap(), save.value);
    assert!(delete.value.is_none());
}

/// The cases that the documentation of the mapper describes.
#[tokio::test]
async fn the_version_changes_with_every_save() {
    let database = Database::start().await;
    let books = create_books(&database).await;
    // A value with a version does not exist yet.
    for version in [1, 7] {
        let missing = book("x", Some(version));
        assert_eq!(stored(books.save(&missing, Check::Version).await.unwrap_err()), None);
        assert_eq!(stored(books.update(&missing, Check::Version).await.unwrap_err()), None);
        assert_eq!(stored(books.delete(&missing, Check::Version).await.unwrap_err()), None);
    }
    // The version is initialized or incremented with and without a check, by a save and by an update.
    for (check, update) in [
        (Check::Version, false),
        (Check::Version, true),
        (Check::Clobber, false),
        (Check::Clobber, true),
    ] {
        let save = async |value: &Book| {
            if update {
                books.update(value, check).await
            } else {
                books.save(value, check).await
            }
        };
        let new = book("Old Title", None);
        let saved = save(&new).await.unwrap();
        assert_eq!((saved.version, new.version), (Some(1), None));
        let next = save(&saved).await.unwrap();
        assert_eq!(
            (next.version, saved.version),
            (Some(2), Some(1)),
            "the argument is unchanged"
        );
        let again = save(&saved).await;
        match check {
            // The same argument again is a conflict, also with the same content.
            Check::Version => assert_eq!(stored(again.unwrap_err()), Some(next)),
            Check::Clobber => assert_eq!(again.unwrap(), next),
        }
        books.delete(&book("Old Title", Some(2)), Check::Version).await.unwrap();
    }
}

#[tokio::test]
async fn clobber_ignores_the_stored_version() {
    let database = Database::start().await;
    let books = create_books(&database).await;
    let mut saved = books.save(&book("Old Title", None), Check::Version).await.unwrap();
    for _ in 0..3 {
        saved = books.save(&saved, Check::Version).await.unwrap();
    }
    let stale = book("Stale", Some(1));
    assert_eq!(
        stored(books.save(&stale, Check::Version).await.unwrap_err()),
        Some(saved.clone())
    );
    assert_eq!(
        books.save(&stale, Check::Clobber).await.unwrap(),
        book("Stale", Some(2))
    );
    assert_eq!(books.load(&ISBN).await.unwrap(), Some(book("Stale", Some(2))));
    assert_eq!(
        books.update(&saved, Check::Clobber).await.unwrap(),
        book("Old Title", Some(5))
    );
    // The stored version is 5.
    for version in [Some(1), None] {
        let stale = book("Old Title", version);
        assert!(stored(books.delete(&stale, Check::Version).await.unwrap_err()).is_some());
        books.delete(&stale, Check::Clobber).await.unwrap();
        assert_eq!(books.load(&ISBN).await.unwrap(), None);
        // There is nothing to delete, which is no conflict.
        books.delete(&stale, Check::Clobber).await.unwrap();
        books.save(&book("Old Title", Some(4)), Check::Clobber).await.unwrap();
    }
}

#[tokio::test]
async fn identical_content_of_another_client_is_a_conflict() {
    let database = Database::start().await;
    let books = create_books(&database).await;
    let new = book("Title", None);
    let created = books.save(&new, Check::Version).await.unwrap();
    // Another creator, then another writer of the same content.
    assert_eq!(
        stored(books.save(&new, Check::Version).await.unwrap_err()).as_ref(),
        Some(&created)
    );
    assert!(stored(books.update(&new, Check::Version).await.unwrap_err()).is_some());
    assert!(stored(books.save_all(&[&new], Check::Version).await.unwrap_err()).is_some());
    let changed = Book {
        title: "New Title".to_owned(),
        ..created
    };
    books.save(&changed, Check::Version).await.unwrap();
    assert!(stored(books.save(&changed, Check::Version).await.unwrap_err()).is_some());
    assert!(stored(books.update(&changed, Check::Version).await.unwrap_err()).is_some());
    assert!(stored(books.save_all(&[&changed], Check::Version).await.unwrap_err()).is_some());
    books.delete(&book("New Title", Some(2)), Check::Version).await.unwrap();
    let deleted = books.delete(&book("New Title", Some(2)), Check::Version).await;
    assert_eq!(stored(deleted.unwrap_err()), None);

    // Of many clients that do the same at the same time, one succeeds.
    let mut value = new;
    for round in 1..=10 {
        let results = join_all((0..6).map(async |client| {
            if client % 2 == 0 {
                books.save(&value, Check::Version).await
            } else {
                books.update(&value, Check::Version).await
            }
        }));
        let saved: Vec<_> = results.await.into_iter().flatten().collect();
        assert_eq!(saved, [book("Title", Some(round))]);
        value = saved.into_iter().next().unwrap();
    }
}

#[tokio::test]
async fn a_retry_after_a_lost_response_succeeds() {
    let database = Database::start().await;
    create_books(&database).await;
    let config = database.client.config().to_builder();
    let retries = RetryConfig::standard().with_initial_backoff(Duration::from_millis(1));
    let config = config
        .interceptor(LostResponses::default())
        .retry_config(retries)
        .build();
    let books = books(&database, Client::from_conf(config));
    database.requests.take();

    let created = books.save(&book("Old Title", None), Check::Version).await.unwrap();
    assert_eq!(created, book("Old Title", Some(1)));
    let saved = books.save(&book("New Title", Some(1)), Check::Version).await.unwrap();
    assert_eq!(saved, book("New Title", Some(2)));
    let updated = books
        .update(&book("Newer Title", Some(2)), Check::Version)
        .await
        .unwrap();
    assert_eq!(updated, book("Newer Title", Some(3)));
    let prepared = books.save_all(&[&updated], Check::Version).await.unwrap();
    assert_eq!(prepared, [book("Newer Title", Some(4))]);
    // Each was applied once.
    assert_stored(
        &database,
        json!({"ISBN": {"S": ISBN.isbn}, "title": {"S": "Newer Title"}, "version": {"N": "4"}}),
    )
    .await;
    books.delete(&prepared[0], Check::Version).await.unwrap();
    let again = books.update(&book("Title", None), Check::Version).await.unwrap();
    assert_eq!(again, book("Title", Some(1)));
    // A conflict is a conflict, although the first response was lost.
    let conflict = books.save(&book("Other", None), Check::Version).await;
    assert_eq!(stored(conflict.unwrap_err()), Some(again.clone()));
    let conflict = books.delete(&book("Title", Some(2)), Check::Version).await;
    assert_eq!(stored(conflict.unwrap_err()), Some(again));
}

/// A later version of the program, whose type has more fields.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Edition {
    #[serde(rename = "ISBN")]
    isbn: String,
    title: String,
    subtitle: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    series: Option<String>,
    version: Option<u64>,
}

#[tokio::test]
async fn an_update_keeps_attributes_that_the_type_does_not_name() {
    let database = Database::start().await;
    let books = create_books(&database).await;
    let editions = Locked::<Edition>::new(
        database.client.clone(),
        database.table_name("Books"),
        &["ISBN"],
        "version",
    );
    let isbn = ISBN.isbn;
    let stored_item = json!({
        "ISBN": {"S": isbn}, "title": {"S": "Title"}, "subtitle": {"S": "Subtitle"}, "series": {"S": "Series"},
        "price": {"N": "12.50"}, "version": {"N": "1"},
    });
    database.put("Books", stored_item).await;
    // The type Book names the title only.
    let updated = books.update(&book("New Title", Some(1)), Check::Version).await.unwrap();
    assert_eq!(updated, book("New Title", Some(2)));
    assert_stored(
        &database,
        json!({
            "ISBN": {"S": isbn}, "title": {"S": "New Title"}, "subtitle": {"S": "Subtitle"}, "series": {"S": "Series"},
            "price": {"N": "12.50"}, "version": {"N": "2"},
        }),
    )
    .await;
    // A field that serializes as null is removed, a field that is not serialized is kept.
    let edition = |series: Option<&str>, version| Edition {
        isbn: isbn.to_owned(),
        title: "Newer Title".to_owned(),
        subtitle: None,
        series: series.map(str::to_owned),
        version: Some(version),
    };
    let updated = editions.update(&edition(None, 2), Check::Version).await.unwrap();
    assert_eq!(updated, edition(Some("Series"), 3));
    assert_stored(
        &database,
        json!({
            "ISBN": {"S": isbn}, "title": {"S": "Newer Title"}, "series": {"S": "Series"}, "price": {"N": "12.50"},
            "version": {"N": "3"},
        }),
    )
    .await;
    // In a transaction.
    let prepared = books.prepare_update(&book("Title", Some(3)), Check::Version).unwrap();
    let request = database
        .client
        .transact_write_items()
        .transact_items(prepared.item.clone());
    request.send().await.unwrap();
    assert_eq!(prepared.value, Some(book("Title", Some(4))));
    assert_stored(
        &database,
        json!({
            "ISBN": {"S": isbn}, "title": {"S": "Title"}, "series": {"S": "Series"}, "price": {"N": "12.50"},
            "version": {"N": "4"},
        }),
    )
    .await;
    let request = database.client.transact_write_items().transact_items(prepared.item);
    assert!(request.send().await.is_err(), "the stored version is 4");
    // A save replaces the item.
    books.save(&book("Title", Some(4)), Check::Version).await.unwrap();
    assert_stored(
        &database,
        json!({"ISBN": {"S": isbn}, "title": {"S": "Title"}, "version": {"N": "5"}}),
    )
    .await;
}
