//! Which address is answered by what.

use std::sync::Arc;

use axum::{
    Router,
    extract::{Query, State},
    middleware,
    response::Response,
    routing::get,
};

use super::{
    app::App,
    as_of, assets, compare, entities, entity,
    guard::{self, Guard},
    operator,
    page::Wants,
    version,
};
use crate::error::PageError;

type Shared = Arc<App>;

/// All of the console.
pub(super) fn router(app: App, guard: Guard) -> Router {
    let app = Arc::new(app);
    Router::new()
        .route("/", get(entities))
        .route("/entity", get(entity))
        .route("/version", get(version))
        .route("/compare", get(compare))
        .route("/as-of", get(as_of))
        .merge(operator::router())
        .merge(assets::router())
        .fallback(nothing)
        .layer(middleware::from_fn_with_state(Arc::clone(&app), operator::clear_meters))
        .with_state(app)
        .layer(middleware::from_fn_with_state(Arc::new(guard), guard::check))
}

async fn entities(State(app): State<Shared>, wants: Wants, Query(query): Query<entities::Query>) -> Response {
    wants.show(&app, entities::view(&app, query)).await
}

async fn entity(State(app): State<Shared>, wants: Wants, Query(query): Query<entity::Query>) -> Response {
    Box::pin(wants.show(&app, entity::view(&app, query))).await
}

async fn version(State(app): State<Shared>, wants: Wants, Query(query): Query<version::Query>) -> Response {
    wants.show(&app, version::view(&app, query)).await
}

async fn compare(State(app): State<Shared>, wants: Wants, Query(query): Query<compare::Query>) -> Response {
    wants.show(&app, compare::view(&app, query)).await
}

async fn as_of(State(app): State<Shared>, wants: Wants, Query(query): Query<as_of::Query>) -> Response {
    wants.show(&app, as_of::view(&app, query)).await
}

async fn nothing(State(app): State<Shared>, wants: Wants) -> Response {
    wants.error(&app, &PageError::NotFound("there is no such page".to_owned()))
}
