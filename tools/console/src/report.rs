//! Evidence report: versions, what they changed and their proofs, in one file that needs no network and no script.

use futures::{StreamExt as _, stream};
use item_diff::{
    change::Changes,
    versions::{erased_lines, is_comparable, with_tombstone},
};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sealing::{
    members::members_of,
    prove::{Proof, Which},
};
use shared::{
    domain::{
        entity::EntityId, erased::hide, recorded_at::RecordedAt, size::of_item, version::Version, view::VersionView,
    },
    logging::chain,
};

use super::{
    app::App,
    changes, current,
    diff::{self, Diff},
    page::{Download, count, deleted, key, members, more},
    query::Query,
    record,
    seal::Sealing,
    time,
    value::{self, DisplayLimits},
};
use crate::error::PageError;

/// Maximum number of versions of one entity, and of several, whose proofs are made one by one.
const MAX_VERSIONS: [usize; 2] = [1000, 200];
/// Maximum size in bytes, as it is estimated.
const MAX_SIZE: usize = 16 << 20;
/// Size of a member in a proof, with its salt, in addition to its value.
const OF_MEMBER: usize = 400;
/// Number of versions that are read at the same time.
const CONCURRENCY: usize = 16;

const TEXTS: [&str; 5] = [
    "A proof that holds shows that the holder of the log's key signed a tree with its leaves, and that its values were committed for this \
     table, entity and version. What a version had is all in its leaf, erased and withheld values as hashes.",
    "It does not show that a value is true, or written by its actor; that a time is right; when a version was sealed, except before the day \
     on which its checkpoint was received; that there is no later version; that no version was sealed twice; that others see the same log. \
     What this file shows outside of the proofs was written by its server: compare it with them.",
    "Save each proof as proof.json, as this command does with the first one. Verify it by vzero verify proof.json --vkey vkey, or by \
     tools/seal/verify.py proof.json --vkey vkey. Receive the vkey of the log from somebody else than this server.",
    "python3 -X utf8 -c \"import html,re;print(html.unescape(re.findall('(?s)<pre id=.proof-1.>(.*?)</pre>',\
     open('evidence.html').read())[0]))\" > proof.json",
    "The versions, newest first:",
];

/// Makes the report of the newest versions of an entity.
pub(super) async fn of_entity(app: &App, query: &Query) -> Result<Download, PageError> {
    let (entity, store, consistent) = (query.entity()?, app.store(), app.consistent());
    let newest = store.newest(&entity, consistent).await?;
    let (newest, _) = newest.ok_or_else(|| PageError::no_entity(&entity))?;
    let floor = store.floor(&entity, consistent).await?.get();
    let numbers = (floor..=newest.get()).rev().filter_map(Version::new);
    let versions = numbers.map(|version| (entity.clone(), version));
    let versions = versions.take(MAX_VERSIONS[0] + 1).collect();
    report(app, &current::title(&entity), versions, true).await
}

/// Makes the report of the newest versions that a filter selects from the last search, such as the versions of a change set.
pub(super) async fn of_changes(app: &App, query: &Query) -> Result<Download, PageError> {
    let (what, versions) = changes::versions(app, query, MAX_VERSIONS[1] + 1).await?;
    report(app, &what, versions, false).await
}

async fn report(
    app: &App,
    what: &str,
    mut versions: Vec<(EntityId, Version)>,
    is_whole: bool,
) -> Result<Download, PageError> {
    let sealing = Sealing::of(app).await.map_err(PageError::Seal)?;
    let (mut notes, mut proofs, mut sections, mut size) = (Vec::new(), Vec::new(), Vec::new(), 0);
    let read = async |entity: EntityId, version: Version| {
        let before = Version::new(version.get() - 1).unwrap_or(version);
        let read = |version| app.store().version(&entity, version, app.consistent());
        futures::try_join!(read(version), read(before))
    };
    let reads = stream::iter(versions.clone()).map(|(entity, version)| read(entity, version));
    let mut reads = reads.buffered(CONCURRENCY);
    for (entity, version) in &versions {
        if sections.len() == MAX_VERSIONS[usize::from(!is_whole)] || size > MAX_SIZE {
            let count = sections.len();
            notes.push(format!(
                "This report has the newest {count} versions only: more do not fit."
            ));
            break;
        }
        let (view, previous) = reads.next().await.transpose()?.unwrap_or_default();
        let previous = previous.filter(|previous| previous.version < *version);
        if let Some(view) = &view {
            size += of_item(&view.attributes) + members_of("", view).len() * OF_MEMBER;
        }
        let section = section(entity, *version, view.as_ref(), previous.as_ref());
        size += section.0.len();
        sections.push(section);
    }
    drop(reads);
    versions.truncate(sections.len());
    // What is proven, and between which versions.
    let wanted = match (versions.first(), versions.last()) {
        (Some((entity, newest)), Some((_, oldest))) if is_whole => vec![(entity, Which::All, (*oldest, *newest))],
        _ => versions
            .iter()
            .map(|(entity, version)| (entity, Which::One(*version), (*version, *version)))
            .collect(),
    };
    if sealing.is_none() {
        notes.push("The versions are not sealed: nothing is proven.".to_owned());
    }
    for (entity, which, range) in wanted {
        let Some(sealing) = &sealing else { break };
        match sealing.prove(app, entity, which, range).await {
            Ok(Proof { text, unsealed }) => {
                if let (Some(first), Some(last)) = (unsealed.first(), unsealed.last()) {
                    notes.push(format!(
                        "Versions from {first} to {last} are not sealed yet, and not in the proof: {}.",
                        unsealed.len()
                    ));
                }
                proofs.push(text);
            }
            Err(error) => notes.push(format!(
                "There is no proof of {}: {}.",
                current::title(entity),
                chain(&error)
            )),
        }
    }
    let content = file(app, what, &notes, &sections, &proofs).into_string();
    Ok(("evidence.html", "text/html; charset=utf-8", content))
}

fn section(entity: &EntityId, version: Version, view: Option<&VersionView>, previous: Option<&VersionView>) -> Markup {
    html! {
        section.diff {
            h2 { (key(entity.as_str())) ", version " (version) (deleted(view.is_some_and(|view| view.deleted))) }
            @match view {
                Some(view) => {
                    p { (members(&view.record_json().into(), "Erased")) }
                    @if !view.erased.0.is_empty() { div.note { (record::erased(&erased_lines(&view.erased))) } }
                    (changes_of(view, previous))
                },
                None => p { "It is not in the history." },
            }
        }
    }
}

/// Renders what a version changed, or its attributes if that is not known.
fn changes_of(view: &VersionView, previous: Option<&VersionView>) -> Markup {
    if !is_comparable(previous, view) {
        return html! {
            p.muted { "What this version changed is not known. Its attributes:" }
            (value::attributes(&view.attributes, DisplayLimits::ITEM, DisplayLimits::ITEM.members))
        };
    }
    let (mut old, new) = (previous.map(with_tombstone).unwrap_or_default(), with_tombstone(view));
    hide(&mut old, view.erased.paths());
    let Changes { changes, .. } = Changes::between(Some(&old), Some(&new));
    html! {
        p { (count(changes.len() as u64, "change")) }
        (Diff::new(&changes, 0).tree([&old, &new]))
        (more(changes.len().saturating_sub(diff::PAGE), " changes"))
    }
}

fn file(app: &App, what: &str, notes: &[String], sections: &[Markup], proofs: &[String]) -> Markup {
    let title = format!("Evidence report: {}", value::plain(what));
    let wrapped = "pre { max-height: none; white-space: pre-wrap; overflow-wrap: anywhere; }";
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'";
                title { (title) }
                style { (PreEscaped(include_str!("assets/console.css"))) (wrapped) }
            }
            body {
                main {
                    h1 { (title) }
                    p { "Table " (value::word(&app.connection.table)) ", " (RecordedAt::from_millis(time::now()).to_string()) }
                    @for note in notes { p.note { (value::plain(note)) } }
                    h2 { "What is proven, and how to verify it" }
                    @for text in TEXTS { p { (text) } }
                    @for section in sections { (section) }
                    @for (at, proof) in (1..).zip(proofs) { h2 { "Proof " (at) } pre id={ "proof-" (at) } { (proof) } }
                }
            }
        }
    }
}
