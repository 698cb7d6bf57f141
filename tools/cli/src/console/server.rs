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
    assets, entity,
    guard::{self, Guard},
    page::Wants,
};
use crate::error::CliError;

type Shared = Arc<App>;

/// All of the console.
pub(super) fn router(app: App, guard: Guard) -> Router {
    Router::new()
        .route("/entity", get(entity))
        .merge(assets::router())
        .fallback(nothing)
        .with_state(Arc::new(app))
        .layer(middleware::from_fn_with_state(Arc::new(guard), guard::check))
}

async fn entity(State(app): State<Shared>, wants: Wants, Query(query): Query<entity::Query>) -> Response {
    wants.show(&app, entity::view(&app, query)).await
}

async fn nothing(State(app): State<Shared>, wants: Wants) -> Response {
    wants.error(&app, &CliError::NotFound("there is no such page".to_owned()))
}
