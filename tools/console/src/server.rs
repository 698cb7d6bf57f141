//! Routes of the console.

use std::sync::Arc;

use axum::{
    Form, Router,
    extract::{Query, Request, State},
    middleware::{self, Next},
    response::Response,
    routing::{MethodRouter, get},
};
use tokio::sync::Semaphore;

use super::{
    app::App,
    as_of, assets, compare, connections, entities, entity,
    guard::{self, Guard},
    health,
    page::ResponseFormat,
    restore, version,
};
use crate::error::PageError;

type Shared = Arc<App>;

macro_rules! page {
    ($view:path) => {
        get(
            async |State(app): State<Shared>, format: ResponseFormat, Query(query): Query<_>| {
                Box::pin(format.page(&app, $view(&app, &query))).await
            },
        )
    };
}

macro_rules! form {
    ($routes:expr, $submit:path) => {
        $routes.post(
            async |State(app): State<Shared>, format: ResponseFormat, Form(form): Form<_>| {
                format.form(&app, $submit(&app, &form)).await
            },
        )
    };
}

pub(super) fn router(app: App, guard: Guard) -> Router {
    let app = Arc::new(app);
    let permits = Arc::new(Semaphore::new(connections::MAX_PAGES));
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
        .route("/health/audit", form!(MethodRouter::new(), health::start))
        .route("/health/audit/stop", form!(MethodRouter::new(), health::stop))
        .route_layer(middleware::from_fn_with_state(permits, connections::limit_pages));
    Router::new()
        .merge(pages)
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

async fn not_found(State(app): State<Shared>, format: ResponseFormat) -> Response {
    format.error(&app, &PageError::NotFound("there is no such page".to_owned()))
}
