//! Optimistic locking on a real table: the published example, and clients that save the same content.

use aws_sdk_dynamodb::types::ScalarAttributeType::S;
use futures::future::join_all;
use patterns::optimistic_lock::{Action, Check, Locked, SaveError};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use testkit::database::{Database, rows, sorted};

const ISBN: &str = "978-3-16-148410-0";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Book {
    #[serde(rename = "ISBN")]
    isbn: String,
    title: String,
    version: Option<u64>,
}

fn book(title: &str, version: Option<u64>) -> Book {
    Book {
        isbn: ISBN.to_owned(),
        title: title.to_owned(),
        version,
    }
}

/// Checks that a call is a conflict with this stored value.
#[track_caller]
fn is_conflict<R: std::fmt::Debug>(result: Result<R, SaveError<Book>>, expected: Option<&Book>) {
    match result {
        Err(SaveError::Conflict { stored }) => assert_eq!(stored.as_ref(), expected),
        other => panic!("{other:?}"),
    }
}

struct Books {
    database: Database,
    books: Locked<Book>,
}

impl Books {
    async fn create() -> Self {
        let database = Database::start().await;
        database.table("Books", &[("ISBN", S)]).await;
        let books = Locked::new(
            database.client.clone(),
            database.table_name("Books"),
            &["ISBN"],
            "version",
        );
        Self { database, books }
    }

    async fn load(&self) -> Option<Book> {
        self.books.load(&book("", None)).await.unwrap()
    }

    async fn saves(&self, value: &Book, check: Check) -> Book {
        self.books.save(value, check).await.unwrap()
    }

    /// Checks that the only item has these attributes.
    async fn is_stored(&self, mut item: Value) {
        item["ISBN"] = json!({"S": ISBN});
        assert_eq!(rows(&self.database, "Books").await, sorted(vec![item]));
    }

    async fn send(&self, items: Vec<aws_sdk_dynamodb::types::TransactWriteItem>) -> bool {
        let request = self
            .database
            .client
            .transact_write_items()
            .set_transact_items(Some(items));
        request.send().await.is_ok()
    }
}

/// Two clients that change the title of a book concurrently.
#[tokio::test]
async fn optimistic_locking() {
    let table = Books::create().await;
    let books = &table.books;
    assert_eq!(table.load().await, None);
    // A value with a version does not exist yet.
    for version in [1, 7] {
        let missing = book("x", Some(version));
        is_conflict(books.save(&missing, Check::Version).await, None);
        is_conflict(books.update(&missing, Check::Version).await, None);
        is_conflict(books.delete(&missing, Check::Version).await, None);
    }
    let first = table.saves(&book("Old Title", None), Check::Version).await;
    assert_eq!(first, book("Old Title", Some(1)));
    let second = table.saves(&first, Check::Version).await;
    assert_eq!(second.version, Some(2));
    // A value without a version conflicts with a stored one.
    is_conflict(books.save(&book("Other", None), Check::Version).await, Some(&second));
    let ours = table.load().await.unwrap();
    let theirs = table
        .saves(&book("Changed By Someone Else", Some(2)), Check::Version)
        .await;
    let ours = Book {
        title: "New Title".to_owned(),
        ..ours
    };
    is_conflict(books.save(&ours, Check::Version).await, Some(&theirs));
    is_conflict(books.delete(&ours, Check::Version).await, Some(&theirs));
    books.delete(&theirs, Check::Version).await.unwrap();
    assert_eq!(table.load().await, None);
}

#[tokio::test]
async fn clobber_ignores_the_stored_version() {
    let table = Books::create().await;
    let books = &table.books;
    table.saves(&book("Old Title", None), Check::Version).await;
    // It checks nothing, but increments the version.
    let clobbered = table.saves(&book("Clobbered", Some(9)), Check::Clobber).await;
    assert_eq!(clobbered, book("Clobbered", Some(10)));
    table
        .is_stored(json!({"title": {"S": "Clobbered"}, "version": {"N": "10"}}))
        .await;
    let updated = books.update(&book("Updated", Some(4)), Check::Clobber).await.unwrap();
    assert_eq!(updated, book("Updated", Some(5)));
    for version in [Some(1), None] {
        let stale = book("Old Title", version);
        let stored = table.load().await;
        is_conflict(books.delete(&stale, Check::Version).await, stored.as_ref());
        // The second time, there is nothing to delete, which is no conflict.
        for _ in 0..2 {
            books.delete(&stale, Check::Clobber).await.unwrap();
            assert_eq!(table.load().await, None);
        }
        table.saves(&book("Old Title", Some(4)), Check::Clobber).await;
    }
}

#[tokio::test]
async fn optimistic_locking_inside_a_transaction() {
    let table = Books::create().await;
    let books = &table.books;
    let other = Book {
        isbn: "other".to_owned(),
        ..book("Other", None)
    };
    let saved = books
        .save_all(&[&book("One", None), &other], Check::Version)
        .await
        .unwrap();
    assert_eq!([saved[0].version, saved[1].version], [Some(1), Some(1)]);
    // One of the two differs from the stored value, so neither is saved.
    let again = books.save_all(&[&saved[0], &other], Check::Version).await;
    is_conflict(again, Some(&saved[1]));
    assert_eq!(table.load().await.unwrap().version, Some(1));
    // Combined with other requests in one transaction.
    let save = books.prepare(Action::Save, &saved[0], Check::Version).unwrap();
    let delete = books.prepare(Action::Delete, &saved[1], Check::Version).unwrap();
    // And with the same book in another table, whose version is not checked.
    let (client, database) = (table.database.client.clone(), &table.database);
    database.table("Copies", &[("ISBN", S)]).await;
    let copies = Locked::<Book>::new(client, database.table_name("Copies"), &["ISBN"], "version");
    let copy = copies.prepare(Action::Save, &saved[0], Check::Clobber).unwrap();
    assert!(table.send(vec![save.item, delete.item, copy.item]).await && delete.value.is_none());
    assert_eq!(table.load().await, save.value);
    assert_eq!(copies.load(&book("", None)).await.unwrap(), copy.value);
}

/// The version is initialized or incremented with and without a check, by a save and by an update.
#[tokio::test]
async fn the_version_changes_with_every_save() {
    let table = Books::create().await;
    let books = &table.books;
    for (check, is_update) in [
        (Check::Version, false),
        (Check::Version, true),
        (Check::Clobber, false),
        (Check::Clobber, true),
    ] {
        let save = async |value: &Book| match is_update {
            true => books.update(value, check).await,
            false => books.save(value, check).await,
        };
        let new = book("Old Title", None);
        let saved = save(&new).await.unwrap();
        let next = save(&saved).await.unwrap();
        // The arguments are unchanged.
        assert_eq!([new.version, saved.version, next.version], [None, Some(1), Some(2)]);
        let again = save(&saved).await;
        match check {
            // The same argument again is a conflict, also with the same content.
            Check::Version => is_conflict(again, Some(&next)),
            Check::Clobber => assert_eq!(again.unwrap(), next),
        }
        books.delete(&next, Check::Version).await.unwrap();
    }
}

#[tokio::test]
async fn identical_content_of_another_client_is_a_conflict() {
    let table = Books::create().await;
    let books = &table.books;
    // Of many clients that do the same at the same time, one succeeds.
    let mut value = book("Title", None);
    for round in 1..=10 {
        let results = join_all((0..6).map(async |client| match client % 2 {
            0 => books.save(&value, Check::Version).await,
            _ => books.update(&value, Check::Version).await,
        }));
        let mut saved: Vec<_> = results.await.into_iter().flatten().collect();
        assert_eq!(saved, [book("Title", Some(round))]);
        value = saved.remove(0);
    }
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
    let table = Books::create().await;
    let (books, client) = (&table.books, table.database.client.clone());
    let editions = Locked::<Edition>::new(client, table.database.table_name("Books"), &["ISBN"], "version");
    let stored = |title: &str, version: &str, has_subtitle: bool| {
        let mut item = json!({
            "ISBN": {"S": ISBN}, "title": {"S": title}, "series": {"S": "Series"}, "price": {"N": "12.50"},
            "version": {"N": version},
        });
        if has_subtitle {
            item["subtitle"] = json!({"S": "Subtitle"});
        }
        item
    };
    table.database.put("Books", stored("Title", "1", true)).await;
    // The type Book names the title only.
    let updated = books.update(&book("New Title", Some(1)), Check::Version).await.unwrap();
    assert_eq!(updated, book("New Title", Some(2)));
    table.is_stored(stored("New Title", "2", true)).await;
    // A field that serializes as null is removed, a field that is not serialized is kept.
    let edition = |series: Option<&str>, version| Edition {
        isbn: ISBN.to_owned(),
        title: "Newer Title".to_owned(),
        subtitle: None,
        series: series.map(str::to_owned),
        version: Some(version),
    };
    let updated = editions.update(&edition(None, 2), Check::Version).await.unwrap();
    assert_eq!(updated, edition(Some("Series"), 3));
    table.is_stored(stored("Newer Title", "3", false)).await;
    // In a transaction. The second time, the stored version is 4.
    let prepared = books.prepare(Action::Update, &book("Title", Some(3)), Check::Version);
    let prepared = prepared.unwrap();
    assert!(table.send(vec![prepared.item.clone()]).await);
    assert_eq!(prepared.value, Some(book("Title", Some(4))));
    table.is_stored(stored("Title", "4", false)).await;
    assert!(!table.send(vec![prepared.item]).await);
    // A save replaces the item.
    table.saves(&book("Title", Some(4)), Check::Version).await;
    table
        .is_stored(json!({"title": {"S": "Title"}, "version": {"N": "5"}}))
        .await;
}
