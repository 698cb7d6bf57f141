//! Keyboard operation.

use fantoccini::key::Key;
use serde_json::json;

use crate::{World, browser::Browser};

pub(crate) async fn pages_are_opened_with_keys(world: &World, browser: &Browser) {
    browser.enter(&world.reading).await;
    browser.press('/').await;
    for letter in "Thermo".chars() {
        browser.press(letter).await;
    }
    browser.press(Key::Enter).await;
    browser.is_at("/?find=Thermo").await;
    browser.see("tbody a").await.send_keys("\u{e007}").await.unwrap();
    browser.is_at("/entity?id=Thermostat%237").await;
    browser.press(Key::Left).await;
    browser.reads("History, versions 26 to 75 of").await;
    browser.press(Key::Right).await;
    browser.reads("History, versions 76 to 125 of").await;
    browser.go(&world.reading, "/version?id=Thermostat%237&version=5").await;
    browser.press(Key::Left).await;
    browser.is_at("/version?id=Thermostat%237&version=4").await;
    browser.press(Key::Right).await;
    browser.is_at("/version?id=Thermostat%237&version=5").await;
    browser.press(Key::Escape).await;
    browser.script("document.activeElement.blur()", vec![]).await;
    browser.press('e').await;
    browser.is_at("/").await;
    // In an input field, letters are no shortcuts.
    browser.press('/').await;
    browser.press('e').await;
    assert_eq!(
        browser
            .script("return document.getElementById('find').value", vec![])
            .await,
        "e"
    );
    browser.is_at("/").await;
    // The first element skips the navigation.
    browser.go(&world.reading, "/entity?id=Order%232024-0117").await;
    browser.press(Key::Tab).await;
    assert_eq!(
        browser.script("return document.activeElement.className", vec![]).await,
        "skip"
    );
    browser.press(Key::Enter).await;
    browser.is_at("/entity?id=Order%232024-0117").await;
    assert_eq!(browser.script("return document.activeElement.id", vec![]).await, "main");
}

/// Presses Tab through the page, and checks that every control gets the focus and shows it.
pub(crate) async fn all_controls_are_reached(browser: &Browser) {
    let wanted = browser
        .script(
            "document.activeElement.blur();
            window.scrollTo(0, 0);
            // Without collapsed content.
            const visible = element => element.checkVisibility({visibilityProperty: true});
            const all = [...document.querySelectorAll('a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex=\"0\"]')]
                .filter(element => visible(element) && element.tabIndex >= 0 && !element.disabled);
            const groups = new Set();
            window.wanted = all.filter(element => {
                if (element.type !== 'radio') return true;
                // Tab reaches the checked radio button of a group.
                const checked = [...element.form.elements[element.name]].some(other => other.checked);
                if (checked ? !element.checked : groups.has(element.name)) return false;
                groups.add(element.name);
                return true;
            });
            return window.wanted.length",
            vec![],
        )
        .await;
    let wanted = wanted.as_u64().unwrap();
    assert!(wanted > 5, "{wanted}");
    for _ in 0..wanted + 2 {
        browser.press(Key::Tab).await;
        let invisible = browser
            .script(
                "const element = document.activeElement;
                if (element === document.body) return null;
                // An updated region has new elements with the same ids.
                window.wanted = window.wanted.filter(other => other !== element && (!other.id || other.id !== element.id));
                const {outlineStyle, outlineWidth} = getComputedStyle(element);
                return outlineStyle === 'none' || parseFloat(outlineWidth) < 1 ? element.outerHTML.slice(0, 200) : null",
                vec![],
            )
            .await;
        assert_eq!(invisible, json!(null), "the focus is not visible");
    }
    let left = browser
        .script(
            "return window.wanted.map(element => element.outerHTML.slice(0, 200))",
            vec![],
        )
        .await;
    assert_eq!(left, json!([]), "not reached at {}", browser.url().await);
}
