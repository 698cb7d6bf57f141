//! Reading: entities, history, versions, comparisons and points in time.

use serde_json::{Value, json};

use crate::{
    browser::{Browser, DESK},
    checks,
    data::{DELETED, GAP, LONG, ORDER, REDRIVABLE, SHOWN, VERSIONS},
    world::World,
};

pub(crate) async fn an_entity_is_found(world: &World, browser: &Browser) {
    browser.enter(&world.reading).await;
    for entity in [LONG, ORDER, SHOWN, DELETED, REDRIVABLE, GAP] {
        browser.reads(entity).await;
    }
    checks::page(browser, "entities").await;
    // By part of the key, in the search field of every page. The last change comes first.
    browser.fill("#find", "#2024-01").await;
    browser.click("form.find button").await;
    browser.is_at("/?find=%232024-01").await;
    let rows = browser.texts("tbody th").await;
    assert_eq!(rows, [DELETED, ORDER]);
    for (state, expected) in [("deleted", DELETED), ("live", ORDER)] {
        browser.click(&format!("input[name=state][value={state}]")).await;
        browser.choose("Show").await;
        browser.is_at(&format!("/?find=%232024-01&by=key&state={state}")).await;
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
    // By the ID of a request, of an older version too.
    browser.fill("main input[name=find]", "r14400").await;
    browser
        .script("document.querySelector('select[name=by]').value = 'request'", vec![])
        .await;
    browser.choose("Show").await;
    browser.reads("Versions that this request created.").await;
    browser.choose("version 7").await;
    browser.is_at("/version?id=Order%232026-1042&version=7").await;
}

/// The acceptance of the page: what changed, who, when and why, in one line for each version.
pub(crate) async fn each_version_is_one_line(world: &World, browser: &Browser) {
    const LINES: &str =
        "return [...document.querySelectorAll('.log li')].map(line => line.getBoundingClientRect().height)";
    browser.enter(&world.reading).await;
    browser.choose(SHOWN).await;
    browser.reads("History, versions 1 to 9 of 9").await;
    let lines = browser.texts(".log li").await;
    let ninth = lines.first().unwrap();
    for shown in [
        "9",
        "Status: shipped → delivered",
        "carrier",
        "signed by a neighbor",
        "12 min ago",
    ] {
        assert!(ninth.contains(shown), "{shown}: {ninth}");
    }
    for (shown, line) in [
        ("Status: placed → paid", 7),
        ("Address.City: Utrecht → Delft", 6),
        ("Cups: 4 → 3, Total: 119.9 → 99.9", 5),
        ("deleted", 3),
        ("restored from 5", 2),
    ] {
        assert!(lines.get(line).unwrap().contains(shown), "{shown}: {lines:?}");
    }
    // The time line shows each version, the deletion and the restore.
    assert_eq!(browser.all("svg.timeline a[href]").await.len(), 9);
    assert_eq!(browser.all("svg.timeline .dead, svg.timeline .restored").await.len(), 2);
    checks::page(browser, "entity").await;
    browser.size(checks::PHONE, true).await;
    let heights = browser.script(LINES, vec![]).await;
    let heights: Vec<_> = heights.as_array().unwrap().iter().filter_map(Value::as_f64).collect();
    assert_eq!(heights.len(), 9);
    assert!(heights.iter().all(|height| *height < 40.0), "{heights:?}");
    browser.size(DESK, false).await;
    // A line opens to show its details.
    browser.click(".log li:nth-child(2) summary").await;
    browser.reads("handed over").await;
    browser.click(".log li:nth-child(2) details > a").await;
    browser.is_at("/compare?id=Order%232026-1042&from=7&to=8").await;
}

/// Times are in the time zone of the browser, and in UTC on hover and in addresses.
pub(crate) async fn times_are_local(world: &World, browser: &Browser) {
    const ZONE: &str = "Emulation.setTimezoneOverride";
    browser.tool(ZONE, json!({"timezoneId": "Asia/Tokyo"})).await;
    browser.enter(&world.reading).await;
    browser
        .go(&world.reading, "/version?id=Order%232024-0117&version=1")
        .await;
    // The time of the client: 2024-01-17T08:00:00 in UTC.
    browser.reads("2024-01-17 17:00:00").await;
    browser.reads("Times are local (Asia/Tokyo).").await;
    browser.see("time[title=\"2024-01-17 08:00:00 UTC\"]").await;
    browser.go(&world.reading, "/as-of?id=Order%232024-0117").await;
    browser.reads("(local time)").await;
    let pick = "const picker = document.querySelector('input[type=datetime-local]');
        picker.value = '2999-01-01T09:00';
        picker.form.requestSubmit()";
    browser.script(pick, vec![]).await;
    browser
        .is_at("/as-of?id=Order%232024-0117&at=2999-01-01T00%3A00%3A00.000Z")
        .await;
    browser.reads("Version 4").await;
    let picked = "return document.querySelector('input[type=datetime-local]').value";
    assert_eq!(browser.script(picked, vec![]).await, "2999-01-01T09:00");
    browser.tool(ZONE, json!({"timezoneId": ""})).await;
}

/// Filters, and buttons that copy.
pub(crate) async fn history_is_filtered(world: &World, browser: &Browser) {
    browser.enter(&world.reading).await;
    browser.choose(SHOWN).await;
    browser.choose("Filter, jump to a version or a time").await;
    browser.fill("input[name=actor]", "ALICE").await;
    browser.choose("Filter").await;
    browser.reads("2 versions selected of versions 1 to 9.").await;
    assert_eq!(browser.texts(".log .num").await, ["7", "3"]);
    checks::page(browser, "entity-filtered").await;
    browser.fill("input[name=attribute]", "Status").await;
    browser.choose("Filter").await;
    browser.reads("1 version selected of versions 1 to 9.").await;
    browser.choose("Clear filter").await;
    browser.choose("Filter, jump to a version or a time").await;
    browser.fill("input[name=version]", "4").await;
    browser.choose("Go to version").await;
    browser.is_at("/version?id=Order%232026-1042&version=4").await;
    browser.choose("Raw JSON").await;
    browser.reads("\"Status\": \"paid\"").await;
    browser.choose("Copy JSON").await;
    browser.reads("Copied").await;
    checks::page(browser, "version-json").await;
}

pub(crate) async fn history_is_paged_through(world: &World, browser: &Browser) {
    browser.enter(&world.reading).await;
    browser.choose(LONG).await;
    browser
        .reads(&format!("History, versions 76 to 125 of {VERSIONS}"))
        .await;
    // The time line has a link for each version.
    assert_eq!(browser.all("svg.timeline a[href]").await.len(), 50);
    checks::page(browser, "entity-long").await;
    browser.choose("Older").await;
    browser.reads("History, versions 26 to 75 of").await;
    browser.choose("Older").await;
    browser.reads("History, versions 1 to 25 of").await;
    assert_eq!(browser.all(".log li").await.len(), 25);
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
    // With the form of the history.
    browser.choose("Filter, jump to a version or a time").await;
    browser.fill("input[name=from]", "1").await;
    browser.fill("input[name=to]", "3").await;
    browser.choose("Compare").await;
    browser.is_at("/compare?id=Order%232024-0117&from=1&to=3").await;
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
    browser.fill("input[type=text][name=at]", "2999-01-01").await;
    browser.choose("Show").await;
    browser.reads("Version 4").await;
    browser.fill("input[type=text][name=at]", "2023-01-01").await;
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
