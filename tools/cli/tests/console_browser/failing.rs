//! Failure documents, and the health of the table.

use crate::{
    browser::Browser,
    checks,
    data::{GAP, MALFORMED, REDRIVABLE},
    keyboard::all_controls_are_reached,
    world::World,
};

pub(crate) async fn documents_are_shown(world: &World, browser: &Browser) {
    browser.enter(&world.reading).await;
    browser.press('f').await;
    browser.is_at("/failures").await;
    browser.reads(REDRIVABLE).await;
    browser.reads(MALFORMED).await;
    browser.reads("RetryAttemptsExhausted").await;
    checks::page(browser, "failures").await;
    all_controls_are_reached(browser).await;
    let mut seen = Vec::new();
    for index in 0..2 {
        browser.go(&world.reading, "/failures").await;
        let documents = browser.all("article.document h3 a").await;
        assert_eq!(documents.len(), 2);
        documents[index].click().await.unwrap();
        browser.reads("Sequence numbers").await;
        let text = browser.texts("main").await.remove(0);
        let entity = [MALFORMED, REDRIVABLE]
            .into_iter()
            .find(|entity| text.contains(entity))
            .unwrap();
        // A value of the item that was not stored.
        let value = if entity == MALFORMED { "no Latest" } else { "6.8" };
        browser.reads(value).await;
        checks::page(
            browser,
            &format!("document-{}", entity.replace('#', "-").to_lowercase()),
        )
        .await;
        browser.choose("Preview a redrive").await;
        browser.reads("The console is read-only").await;
        let verdict = if entity == MALFORMED {
            "Malformed"
        } else {
            "All records would be in history."
        };
        browser.reads(verdict).await;
        checks::page(browser, &format!("redrive-{}", entity.replace('#', "-").to_lowercase())).await;
        assert!(browser.all("main form").await.is_empty());
        seen.push(entity);
    }
    seen.sort_unstable();
    assert_eq!(seen, [MALFORMED, REDRIVABLE]);
    assert!(
        !world.items(REDRIVABLE).await.contains_key("v2"),
        "a preview changes nothing"
    );
}

pub(crate) async fn an_audit_reports_findings(world: &World, browser: &Browser) {
    browser.enter(&world.reading).await;
    browser.press('h').await;
    browser.is_at("/health").await;
    browser.reads("Write rate and lag").await;
    browser.choose("Start audit").await;
    let ended = async || {
        let text = browser.texts("#audit-state").await;
        text.first()
            .is_some_and(|text| text.contains("The audit is complete"))
            .then_some(())
    };
    testkit::wait::eventually("end of the audit", ended).await;
    for (entity, finding) in [(GAP, "Gap"), (REDRIVABLE, "Gap"), (MALFORMED, "NoVersion")] {
        browser.reads(entity).await;
        browser.reads(finding).await;
    }
    checks::page(browser, "health").await;
    all_controls_are_reached(browser).await;
    // A read-only console shows the preview of a repair.
    browser.click(&format!("a[aria-label=\"Repair {REDRIVABLE}\"]")).await;
    browser.reads("Repair preview").await;
    browser.reads("The console is read-only").await;
    checks::page(browser, "repair").await;
    assert!(browser.all("main form").await.is_empty());
}
