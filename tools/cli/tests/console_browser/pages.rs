//! Each page: accessible, not wider than a phone, and with a screenshot. What the pages contain is tested without a browser.

use serde_json::{Value, json};
use testkit::table;

use crate::{
    TOKEN, World,
    browser::{Browser, DESK},
    checks,
    data::{ORDER, SHOWN},
    keyboard::all_controls_are_reached,
};

/// Path, name of the screenshots, and a text of each page.
const READING: [(&str, &str, &str); 16] = [
    ("/", "entities", "Thermostat#7"),
    ("/?find=Thermo", "entities-found", "Thermostat#7"),
    ("/?find=Nobody", "entities-none", "No matching entities"),
    ("/entity?id=Order%232024-0117", "entity-order", "versions 1 to 4 of 4"),
    ("/entity?id=Thermostat%237", "entity-long", "versions 76 to 125 of"),
    (
        "/entity?id=Order%232026-1042&actor=ALICE",
        "entity-filtered",
        "2 versions",
    ),
    ("/entity?id=Pump%2310", "entity-gap", "missing"),
    ("/entity?id=Pump%2311", "quarantine-pump-11", "no Latest"),
    ("/entity?id=Pump%239", "quarantine-pump-9", "6.8"),
    ("/entity?id=Camera%233", "entity-camera", "Modes"),
    ("/version?id=Order%232024-0117&version=1", "version", "Utrecht"),
    ("/version?id=Order%232024-0118&version=3", "version-deleted", "deleted"),
    ("/compare?id=Order%232024-0117&from=1&to=3", "compare", "Delft"),
    ("/compare?id=Thermostat%237&from=5&to=6", "compare-long", "Temperature"),
    (
        "/as-of?id=Order%232024-0117&effective=2024-01-17T12:00:00",
        "as-of",
        "Version 2",
    ),
    ("/no/such/page", "not-found", "there is no such page"),
];
const WRITING: [(&str, &str, &str); 2] = [
    ("/restore?id=Order%232024-0117&version=2", "restore", "cancelled"),
    ("/undelete?id=Order%232024-0118", "undelete", "Undelete"),
];

/// A link leads to the sign-in form, and from there to its page.
pub(crate) async fn the_token_signs_in(world: &World, browser: &Browser) {
    browser.expect("status of 401");
    let path = "/entity?id=Order%232024-0117";
    browser.go(&world.reading, path).await;
    assert_eq!(browser.title().await, "Sign in · vzero");
    checks::page(browser, "sign-in").await;
    browser.fill("#token", "not the token of this console").await;
    browser.choose("Sign in").await;
    browser.reads("Invalid token.").await;
    browser.does_not_read(ORDER).await;
    checks::page(browser, "sign-in-wrong").await;
    browser.fill("#token", TOKEN).await;
    browser.choose("Sign in").await;
    browser.is_at(path).await;
    browser.reads(ORDER).await;
    // The cookie is kept, and scripts cannot read it.
    browser.go(&world.reading, "/").await;
    browser.is_at("/").await;
    assert_eq!(browser.script("return document.cookie", vec![]).await, "");
}

pub(crate) async fn each_page_is_accessible(world: &World, browser: &Browser) {
    browser.expect("status of 404");
    for (console, pages) in [(&world.reading, &READING[..]), (&world.writing, &WRITING)] {
        browser.enter(console).await;
        for (path, name, text) in pages {
            browser.go(console, path).await;
            browser.reads(text).await;
            checks::page(browser, name).await;
            // The parts of a date picker show the focus instead of it.
            if !["entity-filtered", "as-of"].contains(name) {
                all_controls_are_reached(browser).await;
            }
        }
    }
}

/// Each version is one line, also on a phone, and a line opens to show its details.
pub(crate) async fn each_version_is_one_line(world: &World, browser: &Browser) {
    const LINES: &str =
        "return [...document.querySelectorAll('.log li')].map(line => line.getBoundingClientRect().height)";
    browser.enter(&world.reading).await;
    browser.choose(SHOWN).await;
    browser.reads("History, versions 1 to 9 of 9").await;
    let lines = browser.texts(".log li").await;
    for shown in [
        "9",
        "Status: shipped → delivered",
        "carrier",
        "signed by a neighbor",
        "12 min ago",
    ] {
        assert!(lines[0].contains(shown), "{shown}: {lines:?}");
    }
    // The time line shows each version, the deletion and the restore.
    let marks = "return ['a[href]', '.dead', '.restored'].map(mark => document.querySelectorAll('svg.timeline ' + mark).length)";
    assert_eq!(browser.script(marks, vec![]).await, json!([9, 1, 1]));
    checks::page(browser, "entity").await;
    browser.size(checks::PHONE, true).await;
    let heights = browser.script(LINES, vec![]).await;
    let heights: Vec<_> = heights.as_array().unwrap().iter().filter_map(Value::as_f64).collect();
    assert_eq!(heights.len(), 9);
    assert!(heights.iter().all(|height| *height < 40.0), "{heights:?}");
    browser.size(DESK, false).await;
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
    let version = "/version?id=Order%232024-0117&version=1";
    browser.go(&world.reading, version).await;
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
    let picked = "/as-of?id=Order%232024-0117&at=2999-01-01T00%3A00%3A00.000Z";
    browser.is_at(picked).await;
    browser.reads("Version 4").await;
    let picked = "return document.querySelector('input[type=datetime-local]').value";
    assert_eq!(browser.script(picked, vec![]).await, "2999-01-01T09:00");
    browser.tool(ZONE, json!({"timezoneId": ""})).await;
}

/// Forms, links and buttons that copy.
pub(crate) async fn forms_lead_to_their_pages(world: &World, browser: &Browser) {
    browser.enter(&world.reading).await;
    browser.fill("#find", "#2024-01").await;
    browser.click("form.find button").await;
    browser.is_at("/?find=%232024-01").await;
    browser.click("input[name=state][value=live]").await;
    browser.choose("Show").await;
    browser.is_at("/?find=%232024-01&by=key&state=live").await;
    browser.go(&world.reading, "/entity?id=Order%232026-1042").await;
    browser.choose("Filter, jump to a version or a time").await;
    browser.fill("input[name=actor]", "ALICE").await;
    browser.choose("Filter").await;
    browser.reads("2 versions selected of versions 1 to 9.").await;
    browser.choose("Clear filter").await;
    browser.choose("Filter, jump to a version or a time").await;
    browser.fill("input[name=from]", "1").await;
    browser.fill("input[name=to]", "3").await;
    browser.choose("Compare").await;
    browser.is_at("/compare?id=Order%232026-1042&from=1&to=3").await;
    browser.choose("Swap").await;
    browser.reads("Compare versions 3 and 1").await;
    browser
        .go(&world.reading, "/version?id=Order%232026-1042&version=4")
        .await;
    browser.choose("Raw JSON").await;
    browser.reads("\"Status\": \"paid\"").await;
    browser.choose("Copy JSON").await;
    browser.reads("Copied").await;
    checks::page(browser, "version-json").await;
    browser.go(&world.reading, "/entity?id=Thermostat%237").await;
    browser.choose("Oldest").await;
    browser.reads("History, versions 1 to 50 of").await;
    browser.choose("Space evenly").await;
    browser.reads("Space by time").await;
    browser.click("svg.timeline a[href$=\"version=1\"]").await;
    browser.is_at("/version?id=Thermostat%237&version=1").await;
}

/// Releasing the slider of versions submits its form, with the mouse and with the keyboard.
pub(crate) async fn a_slider_selects_a_version(world: &World, browser: &Browser) {
    browser.enter(&world.reading).await;
    browser
        .go(&world.reading, "/as-of?id=Order%232024-0117&version=1")
        .await;
    let slide = "const range = document.querySelector('input[type=range]');
        range.value = arguments[0];
        range.dispatchEvent(new Event('input', {bubbles: true}));
        range.dispatchEvent(new Event('change', {bubbles: true}))";
    browser.script(slide, vec![json!(3)]).await;
    browser.is_at("/as-of?id=Order%232024-0117&version=3").await;
    browser.reads("Version 3").await;
    browser
        .see("input[type=range]")
        .await
        .send_keys("\u{e012}")
        .await
        .unwrap();
    browser.is_at("/as-of?id=Order%232024-0117&version=2").await;
}

pub(crate) async fn an_audit_reports_findings(world: &World, browser: &Browser) {
    browser.enter(&world.reading).await;
    browser.press('h').await;
    browser.is_at("/health").await;
    browser.choose("Start audit").await;
    let ended = async || {
        let text = browser.texts("#audit-state").await;
        let text = text.first()?;
        text.contains("The audit is complete").then_some(())
    };
    testkit::wait::eventually("end of the audit", ended).await;
    for shown in ["Pump#10", "Gap", "Pump#11", "NoVersion", "vzero admin repair"] {
        browser.reads(shown).await;
    }
    checks::page(browser, "health").await;
    all_controls_are_reached(browser).await;
}

/// A change is executed once, and does not overwrite other updates.
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
    browser.reads("it was not to be cancelled").await;
    browser.reads("Restored from").await;
    checks::page(browser, "restored").await;
    // The same form, sent again.
    browser.back().await;
    browser.choose("Restore version 2").await;
    browser.reads("Version 5 was already created by this form.").await;

    // Another client writes after the preview.
    browser
        .go(&world.writing, "/restore?id=Order%232024-0117&version=1")
        .await;
    browser.reads("The latest version is 5").await;
    let update = json!({"ID": ORDER, "Time": "2024-01-20T08:00:00", "Status": "sent again", "Actor": "warehouse"});
    table::write(&world.table.store, update).await;
    browser.choose("Restore version 1").await;
    browser.reads("Another update was applied first").await;
    checks::page(browser, "restore-conflict").await;
    browser.choose("Preview the change again").await;
    browser.reads("The latest version is 6").await;
}
