//! An entity: its latest version, its metadata, and its history.

use maud::html;
use serde::Deserialize;

use super::{
    app::App,
    page::{Place, View},
    query::{self, given},
};
use crate::error::CliError;

/// What an address asks for.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Query {
    #[serde(default, deserialize_with = "given")]
    id: Option<String>,
}

pub(super) async fn view(app: &App, query: Query) -> Result<View, CliError> {
    let entity = query::entity(query.id.as_deref())?;
    let latest = app.store().latest(&entity, app.consistent()).await?;
    let latest = latest.ok_or_else(|| CliError::NotFound(format!("there is no {}", entity.as_str())))?;
    Ok(View {
        title: entity.as_str().to_owned(),
        place: Place::Entities,
        body: html! { h1 { (entity.as_str()) } },
        json: latest.to_json(),
    })
}
