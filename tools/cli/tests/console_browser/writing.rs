//! A change of the table: it is executed once, and does not overwrite other updates.

use serde_json::json;

use crate::{browser::Browser, checks, data::ORDER, world::World};

pub(crate) async fn a_version_is_restored(world: &World, browser: &Browser) {
    browser.expect("status of 409");
    browser.enter(&world.writing).await;
    browser.reads("writes are allowed").await;
    browser.choose(ORDER).await;
    browser.click(".log a.num[href$=\"version=2\"]").await;
    browser.choose("Restore…").await;
    browser.reads("The latest version is 4").await;
    browser.fill("input[name=actor]", "a person").await;
    browser.fill("input[name=reason]", "it was not to be cancelled").await;
    browser.choose("Restore version 2").await;
    browser.reads("Version 5 was created.").await;
    world.has_versions(ORDER, &["v5"]).await;
    checks::page(browser, "restored").await;
    let items = world.items(ORDER).await;
    assert_eq!(items["v5"]["Status"], json!({"S": "placed"}));
    assert_eq!(items["v5"]["Reason"], json!({"S": "it was not to be cancelled"}));
    browser.reads("Restored from").await;
    // The same form, sent again.
    browser.back().await;
    browser.choose("Restore version 2").await;
    browser.reads("Version 5 was already created by this form.").await;
    assert_eq!(world.items(ORDER).await, items);

    // Another client writes after the preview.
    let restore = "/restore?id=Order%232024-0117&version=1";
    browser.go(&world.writing, restore).await;
    browser.reads("The latest version is 5").await;
    let update = json!({"ID": ORDER, "Time": "2024-01-20T08:00:00", "Status": "sent again", "Actor": "warehouse"});
    world.write(update).await;
    browser.choose("Restore version 1").await;
    browser.reads("Another update was applied first").await;
    checks::page(browser, "restore-conflict").await;
    world.has_versions(ORDER, &["v6"]).await;
    assert!(!world.items(ORDER).await.contains_key("v7"));
    browser.choose("Preview the change again").await;
    browser.reads("The latest version is 6").await;
}
