//! Evidence report: versions, their differences and their proofs in one file that needs no network and no script.

use std::collections::BTreeMap;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use item_diff::{
    change::Changes,
    versions::{erased_lines, is_comparable, with_tombstone},
};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use operations::read::version_run::version_run;
use sealing::{
    members::members_of,
    prove::{Proof, ProveError, Which},
};
use shared::{
    clock,
    domain::{
        entity::EntityId, erased::hide, marks::is_expired, recorded_at::RecordedAt, size, version::Version,
        view::VersionView,
    },
    logging::chain,
};

use super::{
    app::App,
    changes,
    diff::{self, Diff},
    page::{self, Download, count, deleted, more},
    query::Query,
    record,
    seal::Sealing,
    time,
    value::{self, DisplayLimits},
};
use crate::error::PageError;

/// Maximum number of versions of an entity, and of several entities, whose proofs are made one by one.
const MAX_VERSIONS: [usize; 2] = [1000, 200];
/// Maximum size of the file in bytes, as it is estimated from the items.
const MAX_SIZE: usize = 16 << 20;
/// Versions that are read at the same time, and requests for them.
const PAGE: u64 = 50;
const MAX_REQUESTS: usize = 64;
/// Number of proofs that are made at the same time.
const CONCURRENCY: usize = 8;
/// Estimated bytes of a member and of a leaf in a proof, without names and values.
const OF_MEMBER: usize = 300;
const OF_LEAF: usize = 3000;

const PROVEN: &str = "A proof that holds shows that the holder of the log's key signed a tree with these leaves, and that its values were \
    committed for this table, entity and version; each leaf has all that the version had, erased values as hashes.";
const NOT_PROVEN: &str = "It does not show that a value is true, or written by its actor; that a time is right; when a version was sealed, \
    except before the day on which the checkpoint was received; that there is no later version; that the log has no second leaf of a version, \
    or that others see the same log. What this file shows outside of the proofs is written by the server that made it: compare it with the proof.";
const EXTRACT: &str = "python3 -X utf8 -c \"import html,re;print(html.unescape(re.findall('(?s)<pre id=.proof-1.>(.*?)</pre>',\
    open('evidence.html').read())[0]))\" > proof.json";

struct Report {
    what: String,
    sealing: Option<Sealing>,
    rows: Vec<Markup>,
    sections: Vec<Markup>,
    size: usize,
    notes: Vec<String>,
    proofs: Vec<String>,
}

/// Makes the report of the newest versions of an entity.
pub(super) async fn of_entity(app: &App, query: &Query) -> Result<Download, PageError> {
    let (entity, store, consistent) = (query.entity()?, app.store(), app.consistent());
    let newest = store.newest(&entity, consistent).await?;
    let (newest, _) = newest.ok_or_else(|| PageError::no_entity(&entity))?;
    let floor = store.floor(&entity, consistent).await?;
    let mut report = Report::new(app, format!("entity {}", entity.as_str())).await?;
    let (mut oldest, mut next) = (newest, Some(newest));
    while let Some(to) = next.filter(|to| *to >= floor) {
        let first = to.get().saturating_sub(PAGE - 1).max(floor.get());
        let before = Version::new(first - 1);
        let from = before.unwrap_or(Version::FIRST);
        let run = version_run(store, &entity, from, to, MAX_REQUESTS, consistent).await?;
        let now = clock::since_epoch();
        let items = run.items.into_iter().filter(|(_, item)| !is_expired(item, now));
        let view = |(number, item)| Some((number, store.view(&entity, Version::new(number)?, item)));
        let views: BTreeMap<_, _> = items.filter_map(view).collect();
        next = before;
        for version in (first..=to.get()).rev().filter_map(Version::new) {
            if report.rows.len() == MAX_VERSIONS[0] || report.size > MAX_SIZE {
                let limit = format!(
                    "This report has the newest versions only, from version {oldest} on, because it is limited to 1,000 versions and 16 MB."
                );
                report.notes.push(limit);
                next = None;
                break;
            }
            oldest = version;
            report.add(
                &entity,
                version,
                views.get(&version.get()),
                views.get(&(version.get() - 1)),
            );
        }
    }
    if let Some(sealing) = &report.sealing {
        let proof = sealing.prove(app, &entity, Which::All, (oldest, newest)).await;
        report.prove(entity.as_str(), proof);
    }
    Ok(report.file(app))
}

/// Makes the report of the versions of the last search for changes that a filter selects, such as those of a change set.
pub(super) async fn of_changes(app: &App, query: &Query) -> Result<Download, PageError> {
    let (what, mut versions) = changes::versions(app, query, MAX_VERSIONS[1] + 1).await?;
    let mut report = Report::new(app, what).await?;
    let mut shown = 0;
    for (entity, version) in versions.iter().take(MAX_VERSIONS[1]) {
        let read = async |version: Option<Version>| match version {
            Some(version) => app.store().version(entity, version, app.consistent()).await,
            None => Ok(None),
        };
        let view = read(Some(*version)).await?;
        let previous = read(Version::new(version.get() - 1)).await?;
        report.add(entity, *version, view.as_ref(), previous.as_ref());
        shown += 1;
        if report.size > MAX_SIZE {
            break;
        }
    }
    if shown < versions.len() {
        let limit = format!(
            "This report has the newest {shown} versions only, because it is limited to 200 versions and 16 MB."
        );
        report.notes.push(limit);
        versions.truncate(shown);
    }
    if let Some(sealing) = &report.sealing {
        let prove = |(entity, version): (EntityId, Version)| async move {
            let proof = sealing
                .prove(app, &entity, Which::One(version), (version, version))
                .await;
            Ok::<_, PageError>((format!("version {version} of {}", entity.as_str()), proof))
        };
        let proofs: Vec<_> = stream::iter(versions)
            .map(prove)
            .buffered(CONCURRENCY)
            .try_collect()
            .await?;
        for (of, proof) in proofs {
            report.prove(&of, proof);
        }
    }
    Ok(report.file(app))
}

impl Report {
    async fn new(app: &App, what: String) -> Result<Self, PageError> {
        let sealing = Sealing::of(app).await.map_err(PageError::Seal)?;
        let unsealed = "The versions of this table are not sealed: nothing of this report is proven.";
        Ok(Self {
            what,
            notes: sealing.is_none().then(|| unsealed.to_owned()).into_iter().collect(),
            sealing,
            rows: Vec::new(),
            sections: Vec::new(),
            size: 0,
            proofs: Vec::new(),
        })
    }

    /// Adds a version, and what it changed. One that is not in the history is a row only.
    fn add(&mut self, entity: &EntityId, version: Version, view: Option<&VersionView>, previous: Option<&VersionView>) {
        let Some(view) = view else {
            let row = html! { tr { td { (page::key(entity.as_str())) } td { (version) } td colspan="4" { "not in the history" } } };
            return self.rows.push(row);
        };
        let table = self.sealing.as_ref().map_or("", |sealing| &sealing.place.table);
        let names = |member: &sealing::members::Member| member.path.names.iter().map(String::len).sum::<usize>();
        let members = members_of(table, view);
        let proof =
            members.iter().map(|member| OF_MEMBER + names(member)).sum::<usize>() + size::of_item(&view.attributes);
        let shown = |value: Option<&_>| value.map(|value| value::value(value, DisplayLimits::CELL));
        let row = html! {
            tr {
                td { (page::key(entity.as_str())) }
                td { (version) (deleted(view.deleted)) }
                td { (view.recorded_at.map(|time| time::exact(time) + "Z").unwrap_or_default()) }
                td { (shown(view.actor.as_ref()).unwrap_or_default()) (record::unchanged(view)) }
                td { (shown(view.reason.as_ref()).unwrap_or_default()) }
                td { (shown(view.change_set.as_ref()).unwrap_or_default()) }
            }
        };
        let section = html! {
            section.diff {
                h3 { (page::key(entity.as_str())) ", version " (version) (deleted(view.deleted)) }
                p { (page::members(&view.record_json().into(), "Version")) }
                @let erased = erased_lines(&view.erased);
                @if !erased.is_empty() { div.note { (record::erased(&erased)) } }
                (changes_of(view, previous))
            }
        };
        self.size += OF_LEAF + proof + row.0.len() + section.0.len();
        self.rows.push(row);
        self.sections.push(section);
    }

    fn prove(&mut self, of: &str, proof: Result<Proof, ProveError>) {
        match proof {
            Ok(Proof { text, unsealed }) => {
                if let (Some(first), Some(last)) = (unsealed.first(), unsealed.last()) {
                    let count = count(unsealed.len() as u64, "version");
                    self.notes.push(format!(
                        "Not sealed yet, and not in the proof: {count} from {first} to {last}."
                    ));
                }
                self.proofs.push(text);
            }
            Err(error) => self
                .notes
                .push(format!("There is no proof of {of}: {}.", chain(&error))),
        }
    }

    fn file(self, app: &App) -> Download {
        let title = format!("Evidence report of {}", value::plain(&self.what));
        let columns = ["Entity", "Version", "Recorded at", "Actor", "Reason", "Change set"];
        let rows = html! { @for row in &self.rows { (row) } };
        let style = concat!(
            include_str!("assets/console.css"),
            "pre { max-height: none; white-space: pre-wrap; overflow-wrap: anywhere; }"
        );
        let content = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    title { (title) }
                    style { (PreEscaped(style)) }
                }
                body {
                    main {
                        h1 { (title) }
                        p { "Table " (value::word(&app.connection.table)) ". Made at " (RecordedAt::from_millis(time::now()).to_string()) "." }
                        @for note in &self.notes { p.note { (value::plain(note)) } }
                        h2 { "What is proven" }
                        p { (PROVEN) }
                        p { (NOT_PROVEN) }
                        h2 { "How to verify" }
                        p {
                            "Save the text of each proof as proof.json, or use the command below. Then " code { "vzero verify proof.json --vkey vkey" }
                            " or " code { "tools/seal/verify.py proof.json --vkey vkey" } ", where vkey is the log's key as you received it, not from this server."
                        }
                        @if !self.proofs.is_empty() { pre { (EXTRACT) } }
                        h2 { "History" }
                        (page::table("History", &columns, &rows))
                        h2 { "Versions" }
                        @for section in &self.sections { (section) }
                        @for (at, proof) in (1..).zip(&self.proofs) {
                            h2 { "Proof " (at) }
                            pre id={ "proof-" (at) } { (proof) }
                        }
                    }
                }
            }
        };
        Download {
            name: "evidence.html",
            kind: "text/html; charset=utf-8",
            content: content.into_string(),
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
