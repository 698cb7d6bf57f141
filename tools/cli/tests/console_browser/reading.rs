//! Reading: entities, history, versions, comparisons and points in time.

use serde_json::json;

use crate::{
    browser::Browser,
    checks,
    data::{DELETED, GAP, LONG, ORDER, REDRIVABLE, VERSIONS},
    world::World,
};

pub(crate) async fn an_entity_is_found(world: &World, browser: &Browser) {
    browser.enter(&world.reading).await;
    for entity in [LONG, ORDER, DELETED, REDRIVABLE, GAP] {
        browser.reads(entity).await;
    }
    checks::page(browser, "entities").await;
    // By key prefix, in the search field of every page.
    browser.fill("#find", "Order#").await;
    browser.click("form.find button").await;
    browser.is_at("/?prefix=Order%23").await;
    let rows = browser.texts("tbody th").await;
    assert_eq!(rows, [ORDER, DELETED]);
    for (state, expected) in [("deleted", DELETED), ("live", ORDER)] {
        browser.click(&format!("input[name=state][value={state}]")).await;
        browser.choose("Show").await;
        browser.is_at(&format!("/?prefix=Order%23&state={state}")).await;
        assert_eq!(browser.texts("tbody th").await, [expected]);
    }
    browser.choose(ORDER).await;
    browser.is_at("/entity?id=Order%232024-0117").await;
    browser.reads("History, versions 1 to 4 of 4").await;
    checks::page(browser, "entity-order").await;
    // A prefix without a match.
    browser.fill("#find", "Nobody").await;
    browser.click("form.find button").await;
    browser.reads("No matching entities").await;
    checks::page(browser, "entities-none").await;
}

pub(crate) async fn history_is_paged_through(world: &World, browser: &Browser) {
    browser.enter(&world.reading).await;
    browser.choose(LONG).await;
    browser
        .reads(&format!("History, versions 76 to 125 of {VERSIONS}"))
        .await;
    // The time line has a link for each version.
    assert_eq!(browser.all("svg.timeline a[href]").await.len(), 50);
    checks::page(browser, "entity").await;
    browser.choose("Older").await;
    browser.reads("History, versions 26 to 75 of").await;
    browser.choose("Older").await;
    browser.reads("History, versions 1 to 25 of").await;
    assert_eq!(browser.all("tbody tr").await.len(), 25);
    browser.choose("Newer").await;
    browser.reads("History, versions 26 to 75 of").await;
    browser.choose("Oldest").await;
    browser.reads("History, versions 1 to 50 of").await;
    browser.choose("Space evenly").await;
    browser.reads("Space by time").await;
    browser.click("svg.timeline a[href$=\"version=1\"]").await;
    browser.is_at("/version?id=Thermostat%237&version=1").await;
}

pub(crate) async fn a_version_and_its_neighbours(world: &World, browser: &Browser) {
    browser.enter(&world.reading).await;
    browser
        .go(&world.reading, "/version?id=Order%232024-0117&version=1")
        .await;
    browser.reads("Version 1").await;
    for shown in ["placed", "Utrecht", "119.9", "Kettle", "shop"] {
        browser.reads(shown).await;
    }
    browser.does_not_read("Restore").await;
    checks::page(browser, "version").await;
    browser.choose("Version 2").await;
    browser.reads("a cup broke").await;
    browser.choose("Compare with previous").await;
    browser.is_at("/compare?id=Order%232024-0117&from=1&to=2").await;
    browser
        .go(&world.reading, "/version?id=Order%232024-0118&version=3")
        .await;
    browser.reads("deleted").await;
    checks::page(browser, "version-deleted").await;
}

pub(crate) async fn two_versions_are_compared(world: &World, browser: &Browser) {
    browser.enter(&world.reading).await;
    browser.choose(ORDER).await;
    // With the form below the history.
    browser.click("input[name=from][value=\"1\"]").await;
    browser.click("input[name=to][value=\"3\"]").await;
    browser.choose("Compare selected").await;
    browser.is_at("/compare?id=Order%232024-0117&to=3&from=1").await;
    for shown in ["Utrecht", "Delft", "Parcel", "Status"] {
        browser.reads(shown).await;
    }
    let paths = browser.texts("table.compare tbody th").await;
    assert!(
        paths.iter().any(|path| path.replace('\n', "").contains("Address›City")),
        "{paths:?}"
    );
    checks::page(browser, "compare").await;
    browser.choose("Swap").await;
    browser.reads("Compare versions 3 and 1").await;
    // With the fields of the page.
    browser.fill("input[type=number][name=from]", "2").await;
    browser.fill("input[type=number][name=to]", "4").await;
    browser.choose("Compare").await;
    browser.reads("Compare versions 2 and 4").await;
    browser.click("summary").await;
    browser.reads("Currency").await;
    browser
        .go(&world.reading, "/compare?id=Order%232024-0117&from=2&to=2")
        .await;
    browser.reads("No differences").await;
}

pub(crate) async fn as_of_a_time(world: &World, browser: &Browser) {
    browser.enter(&world.reading).await;
    browser.choose(ORDER).await;
    browser.choose("View a point in time").await;
    browser.fill("input[name=effective]", "2024-01-17T12:00:00").await;
    browser.choose("Show by time of the client").await;
    browser.reads("Version 2").await;
    checks::page(browser, "as-of").await;
    browser.fill("input[name=at]", "2999-01-01").await;
    browser.choose("Show").await;
    browser.reads("Version 4").await;
    browser.fill("input[name=at]", "2023-01-01").await;
    browser.choose("Show").await;
    browser.reads("The entity did not exist at this time.").await;
    // Releasing the slider submits the form.
    let slide = "const range = document.querySelector('input[type=range]');
        range.value = arguments[0];
        range.dispatchEvent(new Event('input', {bubbles: true}));
        range.dispatchEvent(new Event('change', {bubbles: true}))";
    browser.script(slide, vec![json!(3)]).await;
    browser.is_at("/as-of?id=Order%232024-0117&version=3").await;
    browser.reads("Version 3").await;
    // With the keyboard.
    browser
        .see("input[type=range]")
        .await
        .send_keys("\u{e012}")
        .await
        .unwrap();
    browser.is_at("/as-of?id=Order%232024-0117&version=2").await;
}

pub(crate) async fn missing_items_are_reported(world: &World, browser: &Browser) {
    browser.expect("status of 404");
    browser.expect("status of 400");
    browser.enter(&world.reading).await;
    for (path, text) in [
        ("/no/such/page", "there is no such page"),
        ("/entity?id=Nobody", "there is no Nobody"),
        ("/version?id=Pump%2310&version=2", "there is no version 2 of Pump#10"),
    ] {
        browser.go(&world.reading, path).await;
        browser.reads(text).await;
    }
    checks::page(browser, "not-found").await;
    browser.go(&world.reading, "/entity?id=Pump%2310&to=x").await;
    browser.reads("expected a version number").await;
    browser.go(&world.reading, "/entity?id=Pump%2310").await;
    browser.reads("missing").await;
    checks::page(browser, "entity-gap").await;
}
