//! Signing in.

use crate::{
    browser::Browser,
    checks,
    data::ORDER,
    world::{TOKEN, World},
};

/// A link leads to the sign-in form, and from there to its page.
pub(crate) async fn the_token_signs_in(world: &World, browser: &Browser) {
    browser.expect("status of 401");
    let path = "/entity?id=Order%232024-0117";
    browser.go(&world.reading, path).await;
    assert_eq!(browser.title().await, "Sign in · vzero");
    browser.does_not_read(ORDER).await;
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
    // The session cookie is kept, and scripts cannot read it.
    browser.go(&world.reading, "/").await;
    browser.is_at("/").await;
    assert_eq!(browser.script("return document.cookie", vec![]).await, "");
    assert!(!browser.url().await.as_str().contains(TOKEN));
}
