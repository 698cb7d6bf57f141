//! Checks of every page: accessibility in both color schemes, and the width of a phone.

use std::sync::OnceLock;

use serde_json::json;

use crate::browser::{self, Browser, DESK, required_env};

/// Window size of a phone, in CSS pixels.
pub(crate) const PHONE: (u32, u32) = (390, 844);
const MAX_HEIGHT: u32 = 1000;
/// Pages with a screenshot in the documentation.
const DOCUMENTED: [&str; 3] = ["entities", "entity", "compare"];

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
    if DOCUMENTED.contains(&name) && browser::env("VZERO_TEST_SCREENSHOTS").as_deref() == Some("docs") {
        let (from, to) = (browser::screenshots(), testkit::pages::root().join("docs/console"));
        std::fs::create_dir_all(&to).unwrap();
        std::fs::copy(from.join(format!("{name}.png")), to.join(format!("{name}.png"))).unwrap();
    }
    browser.size(PHONE, true).await;
    fits(browser, name).await;
    is_accessible(browser, &format!("{name}, on a phone")).await;
    browser.keep(&format!("{name}-phone")).await;
    browser.size(DESK, false).await;
}

/// Checks that the page is not wider than a phone. Wider elements scroll within the page.
async fn fits(browser: &Browser, name: &str) {
    let wider = browser
        .script(
            "const max = arguments[0];
            if (document.documentElement.scrollWidth <= max) return [];
            const scrolls = element => element && (getComputedStyle(element).overflowX !== 'visible' || scrolls(element.parentElement));
            return [document.documentElement.scrollWidth + ' pixels', ...[...document.body.querySelectorAll('*')]
                .filter(element => element.getBoundingClientRect().right > max && !scrolls(element.parentElement))
                .map(element => element.outerHTML.slice(0, 150))]",
            vec![json!(PHONE.0)],
        )
        .await;
    assert_eq!(wider, json!([]), "{name} is wider than a phone");
}

/// Checks that axe-core finds no violation.
async fn is_accessible(browser: &Browser, name: &str) {
    static AXE: OnceLock<String> = OnceLock::new();
    let axe = AXE.get_or_init(|| std::fs::read_to_string(required_env("VZERO_TEST_AXE")).unwrap());
    if browser.script("return typeof axe", vec![]).await != "object" {
        browser.script(axe, vec![]).await;
    }
    let found = browser
        .async_script(
            "const done = arguments[arguments.length - 1];
            axe.run(document, {resultTypes: ['violations'], runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']})
                .then(({violations, passes}) => done({passes: passes.length, violations: violations.map(({id, impact, help, nodes}) =>
                    ({id, impact, help, nodes: nodes.map(({html, failureSummary}) => html.slice(0, 200) + ': ' + failureSummary).slice(0, 5)}))}))
                .catch(error => done({error: String(error)}))",
            vec![],
        )
        .await;
    assert!(
        found["passes"].as_u64().is_some_and(|passes| passes > 5),
        "{name}: axe does not run: {found}"
    );
    let violations = found["violations"].as_array().unwrap();
    assert!(violations.is_empty(), "{name}: {violations:#?}");
}
