//! Routes of the console.

use std::sync::Arc;

use axum::{
    Form, Router,
    extract::{Query, Request, State},
    middleware::{self, Next},
    response::Response,
    routing::{get, post},
};

use super::{
    address::SIGN_OUT,
    app::App,
    as_of, assets, compare,
    concurrency::{self, Permits},
    entities, entity,
    guard::{self, Guard},
    health,
    page::{self, ResponseFormat},
    restore, version,
};
use crate::error::PageError;

type Shared = Arc<App>;

macro_rules! page {
    ($view:path) => {
        get(
            async |State(app): State<Shared>, format: ResponseFormat, Query(query): Query<_>| {
                Box::pin(format.page(&app, $view(&app, query))).await
            },
        )
    };
}

macro_rules! form {
    ($routes:expr, $submit:path) => {
        $routes.post(
            async |State(app): State<Shared>, format: ResponseFormat, Form(form): Form<_>| {
                format.form(&app, $submit(&app, form)).await
            },
        )
    };
}

pub(super) fn router(app: App, guard: Guard) -> Router {
    let app = Arc::new(app);
    let pages = Router::new()
        .route("/", page!(entities::view))
        .route("/entity", page!(entity::view))
        .route("/version", page!(version::view))
        .route("/compare", page!(compare::view))
        .route("/as-of", page!(as_of::view))
        .route("/restore", form!(page!(restore::view), restore::post))
        .route(
            "/undelete",
            form!(page!(restore::undelete_view), restore::undelete_post),
        )
        .route("/health", page!(health::view))
        .route("/health/audit", post(start_audit))
        .route("/health/audit/stop", post(stop_audit))
        .route_layer(middleware::from_fn_with_state(Permits::of_pages(), concurrency::limit));
    Router::new()
        .merge(pages)
        .route(SIGN_OUT, get(async |State(app): State<Shared>| page::sign_out(&app)))
        .merge(assets::router())
        .fallback(not_found)
        .layer(middleware::from_fn_with_state(Arc::clone(&app), clear_meters))
        .with_state(app)
        .layer(middleware::from_fn_with_state(Arc::new(guard), guard::check))
}

/// Clears the capacity meters after each request, because pages do not report consumed capacity.
async fn clear_meters(State(app): State<Shared>, request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    app.connection.clear_meters();
    response
}

async fn start_audit(State(app): State<Shared>, format: ResponseFormat) -> Response {
    format.form(&app, async { Ok(health::start(&app)) }).await
}

async fn stop_audit(State(app): State<Shared>, format: ResponseFormat) -> Response {
    format.form(&app, async { Ok(health::stop(&app)) }).await
}

async fn not_found(State(app): State<Shared>, format: ResponseFormat) -> Response {
    format.error(&app, &PageError::NotFound("there is no such page".to_owned()))
}
