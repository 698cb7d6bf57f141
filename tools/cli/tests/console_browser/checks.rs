//! Checks of every page: accessibility in both color schemes, the width of a phone, and keyboard operation.

use std::sync::OnceLock;

use fantoccini::key::Key;
use serde_json::json;

use crate::browser::{self, Browser, DESK, required_env};

/// Window size of a phone, in CSS pixels.
pub(crate) const PHONE: (u32, u32) = (390, 844);
const MAX_HEIGHT: u32 = 1000;
/// Screenshots in the documentation.
const DOCUMENTED: [&str; 5] = ["entities", "entity", "compare", "compare-dark", "compare-phone"];

/// Checks the current page, and saves screenshots of it under this name.
pub(crate) async fn page(browser: &Browser, name: &str) {
    for scheme in ["dark", "light"] {
        browser.prefer(scheme).await;
        is_accessible(browser, &format!("{name}, {scheme}")).await;
        let suffix = if scheme == "dark" { "-dark" } else { "" };
        let page = browser
            .script("scrollTo(0, 0); return document.documentElement.scrollHeight", vec![])
            .await;
        let height = u32::try_from(page.as_u64().unwrap()).unwrap().clamp(DESK.1, MAX_HEIGHT);
        browser.size((DESK.0, height), false).await;
        browser.keep(&format!("{name}{suffix}")).await;
    }
    browser.size(PHONE, true).await;
    // Wider elements scroll within the page.
    let wider = browser.script(include_str!("wider.js"), vec![json!(PHONE.0)]).await;
    assert_eq!(wider, json!([]), "{name} is wider than a phone");
    is_accessible(browser, &format!("{name}, on a phone")).await;
    browser.keep(&format!("{name}-phone")).await;
    browser.size(DESK, false).await;
    if browser::env("VZERO_TEST_SCREENSHOTS").as_deref() == Some("docs") {
        let files = DOCUMENTED.into_iter().filter(|file| {
            ["", "-dark", "-phone"]
                .iter()
                .any(|kind| *file == format!("{name}{kind}"))
        });
        let (from, to) = (browser::screenshots(), testkit::pages::root().join("docs/console"));
        for file in files.map(|file| format!("{file}.png")) {
            std::fs::copy(from.join(&file), to.join(&file)).unwrap();
        }
    }
}

/// Checks that axe-core finds no violation.
async fn is_accessible(browser: &Browser, name: &str) {
    static AXE: OnceLock<String> = OnceLock::new();
    let axe = AXE.get_or_init(|| std::fs::read_to_string(required_env("VZERO_TEST_AXE")).unwrap());
    if browser.script("return typeof axe", vec![]).await != "object" {
        browser.script(axe, vec![]).await;
    }
    let found = browser.async_script(include_str!("accessible.js")).await;
    let is_run = found["passes"].as_u64().is_some_and(|passes| passes > 5);
    assert!(is_run, "{name}: axe does not run: {found}");
    let violations = found["violations"].as_array().unwrap();
    assert!(violations.is_empty(), "{name}: {violations:#?}");
}

/// Presses Tab through the page, and checks that every control gets the focus and shows it.
pub(crate) async fn all_controls_are_reached(browser: &Browser) {
    let wanted = browser.script(include_str!("controls.js"), vec![]).await;
    let wanted = wanted.as_u64().unwrap();
    assert!(wanted > 5, "{wanted}");
    for _ in 0..wanted + 2 {
        browser.press(Key::Tab).await;
        let invisible = browser.script(include_str!("focused.js"), vec![]).await;
        assert_eq!(invisible, json!(null), "the focus is not visible");
    }
    let left = "return window.wanted.map(element => element.outerHTML.slice(0, 200))";
    let left = browser.script(left, vec![]).await;
    assert_eq!(left, json!([]), "not reached at {}", browser.url().await);
}
