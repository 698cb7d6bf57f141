//! The seal of a version: where the log has it, and its proof.

use std::{convert::Infallible, time::Duration};

use ::seal::{log::note::VerifierKey, proof::document::Document};
use maud::{Markup, html};
use operations::progress::Silent;
use sealing::{
    error::SealError,
    log::Log,
    place::{Place, verifier},
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
    verifier: VerifierKey,
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
        let verifier = verifier(&place)?;
        Ok(Some(Self { place, log, verifier }))
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
        let found = Document::parse(&proof.text).ok().and_then(|document| {
            let proven = document.verify(&self.verifier).ok()?;
            Some((document.leaves.first()?.index, proven.checkpoint.size))
        });
        found.ok_or_else(|| ProveError::Invalid("it was changed".to_owned()))
    }
}

/// Renders the seal of a version, nothing if the table is not sealed. `Seal` of the JSON has its state.
pub(super) async fn of_version(app: &App, entity: &EntityId, version: Version, json: &mut Value) -> Markup {
    let sealing = match Sealing::of(app).await {
        Ok(None) => return Markup::default(),
        Ok(Some(sealing)) => sealing,
        Err(error) => return without(&error.into(), json),
    };
    let (place, late) = (&sealing.place, || {
        SealError::Unreadable("the log in 10 seconds".to_owned())
    });
    let found = tokio::time::timeout(PATIENCE, sealing.found(app, entity, version)).await;
    let (index, size) = match found.unwrap_or_else(|_| Err(late().into())) {
        Ok(found) => found,
        Err(error) => return without(&error, json),
    };
    json["Seal"] = json!({"State": "Sealed", "Index": index, "Size": size, "Log": place.log});
    let proof = address::version("/version/proof", entity.as_str(), version.get());
    html! {
        h2 { "Seal" }
        p {
            span.good { "Sealed." } " Index " (index) " of the log " (value::word(sealing.verifier.name()))
            ", whose checkpoint has " (size) " entries, in " (value::word(&place.log))
        }
        p {
            a href=(proof) download { "Download the proof" } " "
            button type="button" hidden data-proof=(proof) data-vkey=(place.verifier) data-version=(version) { "Verify in this page" }
        }
        div #verified role="status" {}
        p.muted {
            "Verifying here proves nothing to an auditor who does not trust this server: he uses vzero verify with his own vkey."
        }
        script type="module" src={ (ASSETS) "verify.js" } {}
    }
}

fn without(error: &ProveError, json: &mut Value) -> Markup {
    let (state, class, text) = match error {
        ProveError::Unsealed(_) => ("NotSealed", "muted", "Not sealed yet: "),
        ProveError::Seal(_) => ("Unknown", "warn", "The seal cannot be read: "),
        _ => ("Contradicted", "bad", "The seal does not hold: "),
    };
    json["Seal"] = json!({"State": state});
    html! { h2 { "Seal" } p { span class=(class) { (text) } (value::plain(&chain(error))) } }
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
    Ok(("proof.json", "application/json", proof.text))
}
