//! The seal of a version: where the log has it, and its proof.

use std::{convert::Infallible, time::Duration};

use ::seal::proof::document::Document;
use maud::{Markup, html};
use operations::progress::Silent;
use sealing::{
    error::SealError,
    log::Log,
    place::Place,
    prove::{Proof, ProveError, Prover, Which},
};
use serde_json::{Value, json};
use shared::{
    domain::{entity::EntityId, version::Version},
    logging::chain,
};

use super::{
    address::{self, ASSETS},
    app::App,
    page::Download,
    query::Query,
    value,
};
use crate::error::PageError;

/// Time in which the page of a version waits for the log, of which all entries can be read.
const PATIENCE: Duration = Duration::from_secs(10);

/// The log of a table.
pub(super) struct Sealing {
    pub(super) place: Place,
    log: Log,
}

impl Sealing {
    /// Returns the log of the table, `None` if it is not sealed.
    pub(super) async fn of(app: &App) -> Result<Option<Self>, SealError> {
        let Some(place) = Place::of(app.store()).await? else {
            return Ok(None);
        };
        let Ok(log) = Log::at(&place.log, None, async || {
            Ok::<_, Infallible>(app.connection.sdk.clone())
        })
        .await;
        Ok(Some(Self { place, log }))
    }

    /// Makes a proof of versions between the first and the last one.
    pub(super) async fn prove(
        &self,
        app: &App,
        entity: &EntityId,
        which: Which,
        range: (Version, Version),
    ) -> Result<Proof, ProveError> {
        let (store, place, log) = (app.store(), &self.place, &self.log);
        let prover = Prover { store, place, log };
        prover.prove(entity, which, range, &[], &Silent).await
    }

    /// Returns the index of a version, and the number of leaves of the checkpoint.
    async fn found(&self, app: &App, entity: &EntityId, version: Version) -> Result<(u64, u64), ProveError> {
        let proof = self.prove(app, entity, Which::One(version), (version, version)).await?;
        let invalid = |error: &dyn std::error::Error| ProveError::Invalid(error.to_string());
        let document = Document::parse(&proof.text).map_err(|error| invalid(&error))?;
        let proven = document.verify(&self.place.verifier).map_err(|error| invalid(&error))?;
        let leaf = document.leaves.first();
        Ok((leaf.map_or(0, |leaf| leaf.index), proven.checkpoint.size))
    }
}

/// Renders the seal of a version, nothing if the table is not sealed. `Seal` of the JSON has its state.
pub(super) async fn of_version(app: &App, entity: &EntityId, version: Version, json: &mut Value) -> Markup {
    let sealing = match Sealing::of(app).await {
        Ok(None) => return Markup::default(),
        Ok(Some(sealing)) => sealing,
        Err(error) => return section("Unknown", &html! { (value::plain(&chain(&error))) }, json),
    };
    let place = &sealing.place;
    let found = tokio::time::timeout(PATIENCE, sealing.found(app, entity, version)).await;
    let (index, size) = match found {
        Ok(Ok(found)) => found,
        Ok(Err(error)) => {
            let state = match error {
                ProveError::Unsealed(_) => "NotSealed",
                ProveError::Seal(_) => "Unknown",
                _ => "Contradicted",
            };
            return section(state, &html! { (value::plain(&chain(&error))) }, json);
        }
        Err(_) => {
            let slow = html! { "Reading the log takes long: see vzero prove." };
            return section("Unknown", &slow, json);
        }
    };
    let proof = address::version("/version/proof", entity.as_str(), version.get());
    let content = html! {
        "Index " (index) " of the log " (value::word(place.verifier.name())) ", whose checkpoint has " (size) " entries, in " (value::word(&place.log)) "."
    };
    let shown = section("Sealed", &content, json);
    json["Seal"]["Index"] = index.into();
    json["Seal"]["Size"] = size.into();
    html! {
        (shown)
        p {
            a href=(proof) download { "Download the proof" } " "
            button type="button" hidden data-proof=(proof) data-vkey=(place.verifier) data-version=(version) { "Verify in this page" }
        }
        div #verified role="status" {}
        p.muted {
            "Verifying here proves nothing to an auditor who does not trust this server: he downloads the proof, and uses vzero verify with his own vkey."
        }
        script type="module" src={ (ASSETS) "verify.js" } {}
    }
}

fn section(state: &str, content: &Markup, json: &mut Value) -> Markup {
    json["Seal"] = json!({"State": state});
    let (class, text) = match state {
        "Sealed" => ("good", "Sealed. "),
        "NotSealed" => ("muted", "Not sealed yet: "),
        "Contradicted" => ("bad", "The seal does not hold: "),
        _ => ("warn", "The seal cannot be read: "),
    };
    html! {
        h2 { "Seal" }
        p { span class=(class) { (text) } (content) }
    }
}

/// Makes the proof of a version, as `vzero prove` does.
pub(super) async fn proof(app: &App, query: &Query) -> Result<Download, PageError> {
    let (entity, version) = (query.entity()?, query.required_version("version")?);
    let sealing = Sealing::of(app).await.map_err(PageError::Seal)?;
    let sealing = sealing.ok_or_else(|| PageError::NotFound("the versions of the table are not sealed".to_owned()))?;
    let proof = sealing.prove(app, &entity, Which::One(version), (version, version));
    let proof = proof.await.map_err(|error| match error {
        ProveError::Seal(error) => PageError::Seal(error),
        ProveError::NoVersion(version) => PageError::no_version(&entity, version),
        ProveError::Unsealed(_) => PageError::NotFound(error.to_string()),
        _ => PageError::Conflict(error.to_string()),
    })?;
    Ok(Download {
        name: "proof.json",
        kind: "application/json",
        content: proof.text,
    })
}
