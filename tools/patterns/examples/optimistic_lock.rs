//! Two clients load a book and change its title.
//!
//! `cargo run -p patterns --example optimistic_lock`
#![allow(clippy::print_stdout, reason = "the example prints its results")]

mod playground;

use aws_sdk_dynamodb::types::{AttributeValue, ScalarAttributeType::S};
use patterns::optimistic_lock::{Check, Locked, SaveError};
use playground::{Failure, Playground};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Book {
    #[serde(rename = "ISBN")]
    isbn: String,
    title: String,
    version: Option<u64>,
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let playground = Playground::open().await?;
    playground.table("Books", &[("ISBN", S)]).await?;
    let books = Locked::<Book>::new(playground.client.clone(), "Books", &["ISBN"], "version");
    let book = |title: &str, version| Book {
        isbn: "978-3-16-148410-0".to_owned(),
        title: title.to_owned(),
        version,
    };
    let first = books.save(&book("Old Title", None), Check::Version).await?;
    playground.report(&format!("saved version {:?}", first.version));
    let loaded = books.save(&first, Check::Version).await?;
    playground.report(&format!("saved again, version {:?}", loaded.version));
    let theirs = book("Changed By Someone Else", loaded.version);
    let theirs = books.save(&theirs, Check::Version).await?;
    playground.report(&format!("another client saves version {:?}", theirs.version));
    match books.save(&book("New Title", loaded.version), Check::Version).await {
        Err(SaveError::Conflict { stored }) => {
            playground.report(&format!("ours conflicts with {:?}", stored.map(|book| book.title)));
        }
        other => println!("no conflict: {:?}", other?.version),
    }
    let ours = book("New Title", theirs.version);
    let saved = books.save(&ours, Check::Version).await?;
    playground.report(&format!("saved after theirs, ours is version {:?}", saved.version));
    println!("the argument still has version {:?}", ours.version);
    // Another program adds an attribute that this type does not name. An update keeps it, a save would remove it.
    let request = playground.client.update_item().table_name("Books");
    let request = request.key("ISBN", AttributeValue::S(saved.isbn.clone()));
    let request = request.update_expression("SET price = :price");
    let request = request.expression_attribute_values(":price", AttributeValue::N("12.5".to_owned()));
    request.send().await?;
    playground.report("another program sets a price");
    let updated = books.update(&saved, Check::Version).await?;
    playground.report(&format!("an update makes version {:?}", updated.version));
    // The same content again is a conflict, too.
    match books.update(&saved, Check::Version).await {
        Err(error) => playground.report(&format!("the same update again: {error}")),
        Ok(again) => println!("no conflict: {:?}", again.version),
    }
    playground.show("Books", &["ISBN", "version"]).await
}
