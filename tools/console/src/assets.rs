//! Style sheet, scripts and icon, embedded in the program so that no other site is contacted.

use axum::{Router, http::header, routing::get};

const ASSETS: [(&str, &str, &str); 4] = [
    (
        "/assets/console.css",
        "text/css; charset=utf-8",
        include_str!("assets/console.css"),
    ),
    (
        "/assets/console.js",
        "text/javascript; charset=utf-8",
        include_str!("assets/console.js"),
    ),
    (
        "/assets/verify.js",
        "text/javascript; charset=utf-8",
        include_str!("assets/verify.js"),
    ),
    ("/assets/icon.svg", "image/svg+xml", include_str!("assets/icon.svg")),
];

pub(super) fn is_asset(path: &str) -> bool {
    ASSETS.iter().any(|(known, ..)| *known == path)
}

pub(super) fn router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    ASSETS.into_iter().fold(Router::new(), |router, (path, kind, content)| {
        router.route(path, get(async move || ([(header::CONTENT_TYPE, kind)], content)))
    })
}
