//! Routes of the pages for operators.

use std::sync::Arc;

use axum::{
    Form, Router,
    extract::{Query, Request, State},
    middleware::Next,
    response::Response,
    routing::{get, post},
};

use super::{app::App, failures, health, page::Wants, redrive, repair, restore};

type Shared = Arc<App>;

pub(super) fn router() -> Router<Shared> {
    Router::new()
        .route("/failures", get(failures))
        .route("/redrive", get(redrive).post(do_redrive))
        .route("/repair", get(repair).post(do_repair))
        .route("/restore", get(restore).post(do_restore))
        .route("/undelete", get(undelete).post(do_undelete))
        .route("/health", get(health))
        .route("/health/audit", post(begin_audit))
        .route("/health/audit/stop", post(stop_audit))
}

/// Nobody asks what a page's requests consumed.
pub(super) async fn clear_meters(State(app): State<Shared>, request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    app.connection.clear_meters();
    response
}

async fn failures(State(app): State<Shared>, wants: Wants, Query(query): Query<failures::Query>) -> Response {
    wants.show(&app, failures::view(&app, query)).await
}

async fn redrive(State(app): State<Shared>, wants: Wants, Query(query): Query<redrive::Query>) -> Response {
    wants.show(&app, redrive::view(&app, query)).await
}

async fn do_redrive(State(app): State<Shared>, wants: Wants, Form(form): Form<redrive::Query>) -> Response {
    wants.answer(&app, redrive::post(&app, form)).await
}

async fn repair(State(app): State<Shared>, wants: Wants, Query(query): Query<repair::Query>) -> Response {
    wants.show(&app, repair::view(&app, query)).await
}

async fn do_repair(State(app): State<Shared>, wants: Wants, Form(form): Form<repair::Query>) -> Response {
    wants.answer(&app, repair::post(&app, form)).await
}

async fn restore(State(app): State<Shared>, wants: Wants, Query(query): Query<restore::Query>) -> Response {
    wants.show(&app, restore::view(&app, query)).await
}

async fn do_restore(State(app): State<Shared>, wants: Wants, Form(form): Form<restore::Query>) -> Response {
    wants.answer(&app, restore::post(&app, form)).await
}

async fn undelete(State(app): State<Shared>, wants: Wants, Query(query): Query<restore::Query>) -> Response {
    wants.show(&app, restore::undelete_view(&app, query)).await
}

async fn do_undelete(State(app): State<Shared>, wants: Wants, Form(form): Form<restore::Query>) -> Response {
    wants.answer(&app, restore::undelete_post(&app, form)).await
}

async fn health(State(app): State<Shared>, wants: Wants) -> Response {
    wants.show(&app, health::view(&app)).await
}

async fn begin_audit(State(app): State<Shared>, wants: Wants) -> Response {
    wants.answer(&app, async { Ok(health::begin(&app)) }).await
}

async fn stop_audit(State(app): State<Shared>, wants: Wants) -> Response {
    wants.answer(&app, async { Ok(health::stop(&app)) }).await
}
