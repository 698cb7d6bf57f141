//! Changes of the table: they need permission, are executed once, and do not overwrite other updates.

use serde_json::json;

use crate::{
    browser::Browser,
    checks,
    data::{DELETED, ORDER},
    keyboard::all_controls_are_reached,
    world::World,
};

/// A read-only console shows no forms, and rejects requests without a form.
pub(crate) async fn without_permission_nothing_is_written(world: &World, browser: &Browser) {
    browser.expect("status of 403");
    browser.enter(&world.reading).await;
    for path in [
        "/version?id=Order%232024-0117&version=1",
        "/entity?id=Order%232024-0118",
        "/restore?id=Order%232024-0117&version=1",
        "/undelete?id=Order%232024-0118",
    ] {
        browser.go(&world.reading, path).await;
        browser.reads("read-only").await;
        assert!(browser.all("form[method=post]").await.is_empty(), "{path}");
    }
    let before = (world.items(ORDER).await, world.items(DELETED).await);
    // The page Health has a CSRF token, because an audit writes nothing.
    browser.go(&world.reading, "/health").await;
    let post = "const [path, fields, done] = arguments;
        const csrf = document.querySelector('input[name=csrf]').value;
        fetch(path, {method: 'POST', body: new URLSearchParams({csrf, ...fields})})
            .then(answer => done(answer.status)).catch(error => done(String(error)))";
    for (path, fields) in [
        (
            "/restore",
            json!({"id": ORDER, "version": "1", "expected": "4", "request": "r"}),
        ),
        ("/undelete", json!({"id": DELETED, "expected": "3", "request": "r"})),
    ] {
        let status = browser.async_script(post, vec![json!(path), fields]).await;
        assert_eq!(status, 403, "{path}");
    }
    let after = (world.items(ORDER).await, world.items(DELETED).await);
    assert_eq!(before, after);
}

pub(crate) async fn a_version_is_restored(world: &World, browser: &Browser) {
    browser.expect("status of 409");
    browser.enter(&world.writing).await;
    browser.reads("writes are allowed").await;
    browser.choose(ORDER).await;
    browser.click(".log a.num[href$=\"version=2\"]").await;
    browser.choose("Restore…").await;
    browser.reads("The latest version is 4").await;
    for shown in ["Delft", "Utrecht", "cancelled", "placed"] {
        browser.reads(shown).await;
    }
    checks::page(browser, "restore").await;
    all_controls_are_reached(browser).await;
    browser.fill("input[name=actor]", "a person").await;
    browser.fill("input[name=reason]", "it was not to be cancelled").await;
    browser.choose("Restore version 2").await;
    browser.reads("Version 5 was created.").await;
    world.has_versions(ORDER, &["v5"]).await;
    checks::page(browser, "restored").await;
    let items = world.items(ORDER).await;
    assert_eq!(items["v5"]["Status"], json!({"S": "placed"}));
    assert_eq!(items["v5"]["Reason"], json!({"S": "it was not to be cancelled"}));
    assert_eq!(items["v5"]["RestoredFrom"], json!({"N": "2"}));
    browser.reads("Restored from").await;
    // The same form, sent again.
    browser.back().await;
    browser.choose("Restore version 2").await;
    browser.reads("Version 5 was already created by this form.").await;
    assert_eq!(world.items(ORDER).await, items);

    // Another client writes after the preview.
    browser
        .go(&world.writing, "/restore?id=Order%232024-0117&version=1")
        .await;
    browser.reads("The latest version is 5").await;
    world
        .write(json!({"ID": ORDER, "Time": "2024-01-20T08:00:00", "Status": "sent again", "Actor": "warehouse"}))
        .await;
    browser.choose("Restore version 1").await;
    browser.reads("Another update was applied first").await;
    checks::page(browser, "restore-conflict").await;
    world.has_versions(ORDER, &["v6"]).await;
    assert!(!world.items(ORDER).await.contains_key("v7"));
    browser.choose("Preview the change again").await;
    browser.reads("The latest version is 6").await;
}

pub(crate) async fn a_deletion_is_undone(world: &World, browser: &Browser) {
    browser.enter(&world.writing).await;
    browser.choose(DELETED).await;
    browser.choose("Undelete…").await;
    checks::page(browser, "undelete").await;
    browser.fill("input[name=actor]", "a person").await;
    browser.choose("Undelete").await;
    browser.reads("Version 4 was created.").await;
    world.has_versions(DELETED, &["v4"]).await;
    let items = world.items(DELETED).await;
    assert!(items["v4"].get("Deleted").is_none(), "{}", items["v4"]);
    assert_eq!(items["v4"]["Status"], json!({"S": "paid"}));
    browser.go(&world.writing, "/entity?id=Order%232024-0118").await;
    browser.reads("History, versions 1 to 4 of 4").await;
    browser.does_not_read("Undelete").await;
}
