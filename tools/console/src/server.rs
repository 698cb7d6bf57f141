//! Routes of the console.

use std::sync::Arc;

use axum::{
    Extension, Form, Router,
    extract::{Query, Request, State},
    middleware::{self, Next},
    response::Response,
    routing::{MethodRouter, get},
};
use tokio::sync::Semaphore;

use super::{
    address,
    app::App,
    as_of, assets, blame, changes, compare, connections, current, entities, entity,
    guard::{self, Guard},
    health,
    page::ResponseFormat,
    query, report, restore, seal,
    tables::Tables,
    version,
};
use crate::error::PageError;

type OfTable = Extension<Arc<App>>;

macro_rules! page {
    ($view:path) => {
        page!(page, $view)
    };
    ($kind:ident, $view:path) => {
        get(
            async |Extension(app): OfTable, format: ResponseFormat, Query(query): Query<_>| {
                Box::pin(format.$kind(&app, $view(&app, &query))).await
            },
        )
    };
}

macro_rules! form {
    ($routes:expr, $submit:path) => {
        $routes.post(
            async |Extension(app): OfTable, format: ResponseFormat, Form(form): Form<_>| {
                Box::pin(format.form(&app, $submit(&app, &form))).await
            },
        )
    };
}

pub(super) fn router(tables: Tables, guard: Guard) -> Router {
    let tables = Arc::new(tables);
    let permits = Arc::new(Semaphore::new(connections::MAX_PAGES));
    let pages = Router::new()
        .route("/", page!(entities::view))
        .route("/entity", page!(entity::view))
        .route("/version", page!(version::view))
        .route("/version/proof", page!(file, seal::proof))
        .route("/entity/report", page!(file, report::of_entity))
        .route("/compare", page!(compare::view))
        .route("/blame", page!(blame::view))
        .route("/as-of", page!(as_of::view))
        .route("/restore", form!(page!(restore::view), restore::post))
        .route(
            "/undelete",
            form!(page!(restore::undelete_view), restore::undelete_post),
        )
        .route("/changes", form!(page!(changes::view), changes::start))
        .route("/changes/report", page!(file, report::of_changes))
        .route("/changes/stop", form!(MethodRouter::new(), changes::stop))
        .route("/changes/undo", form!(page!(changes::undo::view), changes::undo::start))
        .route("/changes/undo/apply", form!(MethodRouter::new(), changes::undo::apply))
        .route("/changes/undo/stop", form!(MethodRouter::new(), changes::undo::stop))
        .route("/health", page!(health::view))
        .route("/health/audit", form!(MethodRouter::new(), health::start))
        .route("/health/audit/stop", form!(MethodRouter::new(), health::stop))
        .route_layer(middleware::from_fn_with_state(Arc::clone(&tables), select_table))
        .route_layer(middleware::from_fn_with_state(permits, connections::limit_pages));
    Router::new()
        .merge(pages)
        .merge(assets::router())
        .fallback(not_found)
        .with_state(tables)
        .layer(middleware::from_fn_with_state(Arc::new(guard), guard::check))
}

/// Serves a request with the table that its address names. Then it clears the capacity meters, because pages do not report consumed
/// capacity.
async fn select_table(
    State(tables): State<Arc<Tables>>,
    format: ResponseFormat,
    mut request: Request,
    next: Next,
) -> Response {
    let query = Query::<query::Query>::try_from_uri(request.uri());
    let name = query.as_ref().ok().and_then(|query| query.text(address::TABLE));
    tables.first.menu.refresh().await;
    let response = match Box::pin(tables.app(name)).await {
        Ok(app) => {
            request.extensions_mut().insert(Arc::clone(&app));
            current::serve(Arc::clone(&app.current), next.run(request)).await
        }
        Err(error) => format.error(&tables.first, &error),
    };
    tables.first.connection.clear_meters();
    response
}

async fn not_found(State(tables): State<Arc<Tables>>, format: ResponseFormat) -> Response {
    format.error(&tables.first, &PageError::NotFound("there is no such page".to_owned()))
}
