//! What holds of every page: it is accessible, in the light and in the dark, and it fits a phone.

use std::sync::OnceLock;

use serde_json::{Value, json};

use crate::{
    browser::{self, Browser, DESK},
    world::{self, needed},
};

/// The phone, in the pixels of its pages.
const PHONE: (u32, u32) = (390, 844);
/// No picture is higher.
const HIGHEST: u32 = 1000;
/// Pages that the documentation shows.
const DOCUMENTED: [&str; 4] = ["entities", "entity", "compare", "health"];

/// Checks the page that is shown, and keeps pictures of it under this name.
pub(crate) async fn page(browser: &Browser, name: &str) {
    for scheme in ["dark", "light"] {
        browser.prefer(scheme).await;
        is_accessible(browser, &format!("{name}, {scheme}")).await;
        let suffix = if scheme == "dark" { "-dark" } else { "" };
        let page = browser
            .script("scrollTo(0, 0); return document.documentElement.scrollHeight", vec![])
            .await;
        let height = u32::try_from(page.as_u64().unwrap()).unwrap().clamp(DESK.1, HIGHEST);
        browser.size((DESK.0, height), false).await;
        browser.keep(&format!("{name}{suffix}")).await;
    }
    if DOCUMENTED.contains(&name) && world::told("VZERO_TEST_SCREENSHOTS").as_deref() == Some("docs") {
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

/// No page is wider than the phone. What is wider scrolls within the page.
async fn fits(browser: &Browser, name: &str) {
    let wider = browser
        .script(
            "const most = arguments[0];
            if (document.documentElement.scrollWidth <= most) return [];
            const scrolls = element => element && (getComputedStyle(element).overflowX !== 'visible' || scrolls(element.parentElement));
            return [document.documentElement.scrollWidth + ' pixels', ...[...document.body.querySelectorAll('*')]
                .filter(element => element.getBoundingClientRect().right > most && !scrolls(element.parentElement))
                .map(element => element.outerHTML.slice(0, 150))]",
            vec![json!(PHONE.0)],
        )
        .await;
    assert_eq!(wider, json!([]), "{name} is wider than a phone");
}

/// axe-core finds nothing that is serious.
async fn is_accessible(browser: &Browser, name: &str) {
    static AXE: OnceLock<String> = OnceLock::new();
    let axe = AXE.get_or_init(|| std::fs::read_to_string(needed("VZERO_TEST_AXE")).unwrap());
    if browser.script("return typeof axe", vec![]).await != "object" {
        browser.script(axe, vec![]).await;
    }
    let found = browser
        .script_with_answer(
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
    let (serious, slight): (Vec<_>, Vec<_>) = found["violations"]
        .as_array()
        .unwrap()
        .iter()
        .partition(|violation| ["serious", "critical"].contains(&violation["impact"].as_str().unwrap_or_default()));
    for violation in slight {
        crate::say(&format!("  {name}: {}", told(violation)));
    }
    assert!(
        serious.is_empty(),
        "{name}:\n{}",
        serious.into_iter().map(told).collect::<Vec<_>>().join("\n")
    );
}

fn told(violation: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let nodes: Vec<_> = violation["nodes"].as_array().unwrap().iter().map(text).collect();
    format!(
        "{} ({}): {}\n    {}",
        text(&violation["id"]),
        text(&violation["impact"]),
        text(&violation["help"]),
        nodes.join("\n    ")
    )
}
