//! Records in quarantine, and the health of the table.

use crate::{
    browser::Browser,
    checks,
    data::{GAP, MALFORMED, REDRIVABLE},
    keyboard::all_controls_are_reached,
    world::World,
};

pub(crate) async fn quarantine_is_shown(world: &World, browser: &Browser) {
    browser.enter(&world.reading).await;
    for (entity, value) in [(MALFORMED, "no Latest"), (REDRIVABLE, "6.8")] {
        let path = format!("/entity?id={}", entity.replace('#', "%23"));
        browser.go(&world.reading, &path).await;
        browser.reads("Quarantine").await;
        // A value of the item that was not stored.
        browser.reads(value).await;
        checks::page(
            browser,
            &format!("quarantine-{}", entity.replace('#', "-").to_lowercase()),
        )
        .await;
        all_controls_are_reached(browser).await;
    }
}

pub(crate) async fn an_audit_reports_findings(world: &World, browser: &Browser) {
    browser.enter(&world.reading).await;
    browser.press('h').await;
    browser.is_at("/health").await;
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
    browser.reads("vzero admin repair").await;
}
