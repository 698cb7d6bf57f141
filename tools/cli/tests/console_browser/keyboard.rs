//! Everything is reached without a mouse.

use fantoccini::key::Key;
use serde_json::json;

use crate::{browser::Browser, world::World};

pub(crate) async fn pages_are_reached_by_keys(world: &World, browser: &Browser) {
    browser.enter(&world.reading).await;
    // What is found is opened.
    browser.press('/').await;
    for letter in "Thermo".chars() {
        browser.press(letter).await;
    }
    browser.press(Key::Enter).await;
    browser.is_at("/?prefix=Thermo").await;
    everything_is_reached(browser).await;
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
    browser
        .go(&world.reading, "/compare?id=Thermostat%237&from=5&to=6")
        .await;
    everything_is_reached(browser).await;
    browser.press(Key::Escape).await;
    browser.script("document.activeElement.blur()", vec![]).await;
    browser.press('e').await;
    browser.is_at("/").await;
    everything_is_reached(browser).await;
    // Not while something is typed.
    browser.press('/').await;
    browser.press('e').await;
    assert_eq!(
        browser
            .script("return document.getElementById('find').value", vec![])
            .await,
        "e"
    );
    browser.is_at("/").await;
    // The first thing that is reached leads past what all pages have.
    browser.go(&world.reading, "/entity?id=Order%232024-0117").await;
    browser.press(Key::Tab).await;
    assert_eq!(
        browser.script("return document.activeElement.className", vec![]).await,
        "skip"
    );
    browser.press(Key::Enter).await;
    browser.is_at("/entity?id=Order%232024-0117").await;
    assert_eq!(browser.script("return document.activeElement.id", vec![]).await, "main");
    everything_is_reached(browser).await;
}

/// Goes through the page by the tabulator, and checks that all that can be used comes by, and is seen to.
pub(crate) async fn everything_is_reached(browser: &Browser) {
    let wanted = browser
        .script(
            "document.activeElement.blur();
            window.scrollTo(0, 0);
            // Not what is folded away.
            const seen = element => element.checkVisibility({visibilityProperty: true});
            const all = [...document.querySelectorAll('a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex=\"0\"]')]
                .filter(element => seen(element) && element.tabIndex >= 0 && !element.disabled);
            const groups = new Set();
            window.wanted = all.filter(element => {
                if (element.type !== 'radio') return true;
                // The tabulator reaches the one that is chosen.
                const chosen = [...element.form.elements[element.name]].some(other => other.checked);
                if (chosen ? !element.checked : groups.has(element.name)) return false;
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
        let unseen = browser
            .script(
                "const element = document.activeElement;
                if (element === document.body) return null;
                // What is looked at again is another element of the same id.
                window.wanted = window.wanted.filter(other => other !== element && (!other.id || other.id !== element.id));
                const {outlineStyle, outlineWidth} = getComputedStyle(element);
                return outlineStyle === 'none' || parseFloat(outlineWidth) < 1 ? element.outerHTML.slice(0, 200) : null",
                vec![],
            )
            .await;
        assert_eq!(unseen, json!(null), "the focus is not to be seen");
    }
    let left = browser
        .script(
            "return window.wanted.map(element => element.outerHTML.slice(0, 200))",
            vec![],
        )
        .await;
    assert_eq!(left, json!([]), "not reached at {}", browser.url().await);
}
