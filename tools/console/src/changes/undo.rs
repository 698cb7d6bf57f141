//! Undo of the versions that a filter selects, or of one version: options, then the plan, then its run.

use std::sync::Arc;

use maud::{Markup, html};
use operations::{item_change::ItemOptions, rate_limit::Limits, undo::options::Options};
use serde_json::{Value, json};
use shared::domain::attached::AttachedTable;
use uuid::Uuid;

use super::{
    entity::{Entity, OUTCOMES},
    form::{self, CHANGES, REFRESH, UNDO, cost, post},
    plan::{Entities, Of, PAGE, Request, Undo},
    selected::{CONFLICTS, command, own, selected},
};
use crate::{
    address,
    app::App,
    error::PageError,
    lock::lock,
    page::{FormResponse, View, copy, count, entity_link, more},
    query::Query,
    secrets::CSRF,
    value::{self, DisplayLimits},
};

const APPLY: &str = "/changes/undo/apply";
const STOP: &str = "/changes/undo/stop";
/// Maximum number of changes of an entity, and of conflicts, that are shown.
const MAX_CHANGES: usize = 50;

fn takes_back(of: &Of, what: &str) -> Markup {
    html! { "Takes back " @if matches!(of, Of::Table(_)) { "the versions with " } b { (value::word(what)) } "." }
}

/// Says how an undo that was interrupted continues.
fn to_continue(undo: &Undo) -> Markup {
    html! {
        p.note {
            "An undo that is interrupted, also by the end of the console, leaves the other items as they are. To continue, "
            a href=(undo.request.again) { "preview it again" }
            @if let Some(command) = &undo.request.command { ", or run " code { (value::visible(command, 4096)) } " " (copy(command, "the command")) }
        }
    }
}

/// Returns which of actor, reason and change set the versions have a place for.
fn places(table: Option<&AttachedTable>) -> [bool; 3] {
    table.map(AttachedTable::settings).map_or([true; 3], |settings| {
        let attributes = [
            &settings.actor_attribute,
            &settings.reason_attribute,
            &settings.change_set_attribute,
        ];
        attributes.map(Option::is_some)
    })
}

pub(crate) async fn view(app: &App, query: &Query) -> Result<View, PageError> {
    if let Some(id) = query.text("plan") {
        let undo = kept(app, id)?;
        return planned(app, &undo, query);
    }
    let (of, selection, what) = selected(query)?;
    let mut json = json!({"Undo": what});
    let mut hidden = vec![(CSRF, app.secrets.csrf.as_str().to_owned())];
    hidden.extend(own(query));
    let places = places(app.store().attached_table());
    let attached = app.store().attached_table().is_some() && matches!(of, Of::Table(_));
    let fields = html! {
        p { label { "Where others changed the same since: " select name="conflicts" { @for (name, _, text) in CONFLICTS { option value=(name) { (text) } } } } }
        @if attached && selection.actor.is_some() {
            p { label { input type="checkbox" name="actor_changed_only" value="1"; " Not the versions whose actor is uncertain" } }
        }
        @if attached && selection.since.is_some() {
            p { label { input type="checkbox" name="with_unattributed_deletions" value="1"; " Also the deletions of the period, which name no author" } }
        }
        @for ((label, name), _) in [("Actor", "as_actor"), ("Reason", "as_reason")].into_iter().zip(places).filter(|(_, has)| *has) {
            label.field { (label) " of the undo" input type="text" name=(name) maxlength="1024" autocomplete="off"; }
        }
        @for (label, name) in [("Change at most this number of items (empty: all)", "limit"), ("Maximum write units per second (empty: no limit)", "max_wcu")] {
            label.field { (label) input type="number" name=(name) min="1" step="1"; }
        }
        button { "Preview" }
    };
    let options = post(UNDO, &hidden, &fields, &mut json);
    let then = "Then it reads the history of each selected item";
    let cost = match &of {
        Of::Table(filter) => cost(app, &filter.scanned, then, &mut json).await?,
        Of::Versions(_) => Markup::default(),
    };
    let body = html! {
        p.crumbs { a href=(address::page(CHANGES)) { "Changes" } }
        h1 { "Undo" }
        p { (takes_back(&of, &what)) " Changes that came after stay. The preview writes nothing." }
        (cost) (options)
    };
    Ok(page(body, json))
}

fn page(body: Markup, json: Value) -> View {
    View {
        section: CHANGES,
        ..View::new("Undo", body, json)
    }
}

/// Starts a plan. Read-only consoles allow it, because it writes nothing.
pub(crate) async fn start(app: &App, query: &Query) -> Result<FormResponse, PageError> {
    let (of, mut selection, what) = selected(query)?;
    selection.actor_changed_only = query.text("actor_changed_only").is_some();
    selection.with_unattributed_deletions = query.text("with_unattributed_deletions").is_some();
    let conflicts = CONFLICTS.map(|(name, conflicts, _)| (name, conflicts));
    let (table, text) = (app.store().attached_table(), |name| query.text(name).map(str::to_owned));
    let places = places(table);
    let named = ItemOptions {
        actor: text("as_actor"),
        reason: text("as_reason").or_else(|| places[1].then(|| format!("undo of {what}"))),
        change_set: places[2].then(|| Uuid::new_v4().to_string()),
        ..ItemOptions::default()
    };
    table.map(|table| named.attribution(table)).transpose()?;
    let options = Options {
        selection,
        conflicts: query.choice("conflicts", &conflicts, "leave, skip-path or overwrite")?,
        actor: named.actor,
        reason: named.reason,
        change_set: named.change_set,
        ordering: app.options.ordering,
        write: app.options.writes.unwrap_or_default(),
        allow_expired: false,
    };
    let mut last = lock(&app.changes.undo);
    let run = last.as_ref().and_then(|undo| lock(&undo.run).clone());
    if run.is_some_and(|run| run.state().name == "Running") {
        let why = "another undo of the table is running: wait, or stop it";
        return Err(PageError::Conflict(why.to_owned()));
    }
    let request = Request {
        again: address::link(UNDO, own(query).map(|(name, value)| (name, Some(value)))),
        command: command(app, query, &of, &options),
        limit: query.parsed("limit", str::parse)?,
        limits: Limits {
            write: query.parsed("max_wcu", str::parse)?,
            ..app.options.limits()
        },
        of,
        what,
        options,
    };
    let undo = Arc::new(Undo::start(app.connection.clone(), request));
    let to = of_plan(&undo.id);
    *last = Some(Arc::clone(&undo));
    Ok(FormResponse::SeeOther(to, json!({"Plan": undo.id})))
}

/// Carries out the plan that was shown.
pub(crate) async fn apply(app: &App, query: &Query) -> Result<FormResponse, PageError> {
    app.writes()?;
    let undo = kept(app, query.text("plan").ok_or(PageError::Missing("plan"))?)?;
    if undo.planning.state().name != "Done" {
        return Err(PageError::Conflict(
            "the plan is not complete: preview the undo again".to_owned(),
        ));
    }
    undo.apply(app.connection.clone());
    Ok(FormResponse::SeeOther(of_plan(&undo.id), json!({"Plan": undo.id})))
}

/// Stops the plan, or its run.
pub(crate) async fn stop(app: &App, _: &Query) -> Result<FormResponse, PageError> {
    let last = lock(&app.changes.undo).clone();
    let undo = last.ok_or(PageError::Missing("plan"))?;
    let run = lock(&undo.run).clone();
    run.as_deref().unwrap_or(&undo.planning).stop();
    Ok(FormResponse::SeeOther(of_plan(&undo.id), json!({"State": "Stopped"})))
}

fn of_plan(id: &str) -> String {
    address::link(UNDO, [("plan", Some(id.to_owned()))])
}

fn kept(app: &App, id: &str) -> Result<Arc<Undo>, PageError> {
    let last = lock(&app.changes.undo).clone();
    let gone = || PageError::NotFound("the console has discarded this plan: preview the undo again".to_owned());
    last.filter(|undo| undo.id == id).ok_or_else(gone)
}

/// Shows a plan, or its run.
fn planned(app: &App, undo: &Undo, query: &Query) -> Result<View, PageError> {
    let at = query.parsed("page", str::parse::<usize>)?.unwrap_or(1).max(1);
    let run = lock(&undo.run).clone();
    let state = run.as_deref().unwrap_or(&undo.planning).state();
    let mut entities = lock(if run.is_some() { &undo.applied } else { &undo.planned });
    let is_running = state.name == "Running";
    let shown = if is_running {
        Vec::new()
    } else {
        entities.read(0, (at - 1).saturating_mul(PAGE))?.0
    };
    let mut json = json!({
        "Undo": undo.request.what, "Plan": undo.id, "State": state.name, "IsApplied": run.is_some(), "ChangeSet": undo.request.options.change_set,
        "Command": undo.request.command,
        "List": shown.iter().map(Entity::json).collect::<Vec<_>>(), "AllowWrite": app.allows_writes(),
    });
    let facts = match (run.is_some(), is_running) {
        (_, true) => Markup::default(),
        (false, _) => plan(app, undo, &entities, state.name == "Done", &mut json),
        (true, _) => results(undo, &entities, &mut json),
    };
    let link = |page: usize| {
        address::link(
            UNDO,
            [("plan", Some(undo.id.clone())), ("page", Some(page.to_string()))],
        )
    };
    let body = html! {
        p.crumbs { a href=(address::page(CHANGES)) { "Changes" } }
        h1 { @if run.is_some() { "Undo" } @else { "Undo: preview" } }
        p { (takes_back(&undo.request.of, &undo.request.what)) }
        div #undo data-refresh=[is_running.then_some(REFRESH)] {
            (form::state(app, &state, if run.is_some() { "Done" } else { "Nothing is changed yet" }, STOP))
            (facts)
            @if run.is_some() && state.name != "Done" { (to_continue(undo)) }
            @for entity in &shown { (self::entity(entity)) }
            @if !is_running {
                nav.pages aria-label="Pages" {
                    @if at > 1 { a rel="prev" href=(link(at - 1)) { "Previous" } }
                    @if (at.saturating_mul(PAGE) as u64) < entities.total { a rel="next" href=(link(at + 1)) { "Next" } }
                }
            }
        }
    };
    Ok(page(body, json))
}

/// Renders an entity of a plan, or of its run.
fn entity(entity: &Entity) -> Markup {
    let json = entity.json();
    let list = |name: &str| json[name].as_array().cloned().unwrap_or_default();
    let (changes, conflicts) = (list("Changes"), list("Conflicts"));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let action = if json["Action"] == "none" {
        "stays".to_owned()
    } else {
        text(&json["Action"])
    };
    let numbers = |name: &str| value::plain(&json[name].to_string().trim_matches(['[', ']']).replace(',', ", "));
    let side = |change: &Value, name: &str| {
        html! { @match change.get(name) {
            None => span.word { "none" },
            Some(Value::String(value)) => (value::text(value, DisplayLimits::ITEM)),
            Some(value) => (value::text(&value.to_string(), DisplayLimits::ITEM)),
        } }
    };
    html! {
        section.document {
            h2 { (entity_link(&entity.id)) " " span.tag { (action) } @if let Some(outcome) = entity.outcome { " " span.tag { (OUTCOMES[outcome].1) } } }
            p.muted {
                "Versions " (numbers("Versions"))
                @if json["Uncertain"].is_array() { ", of an uncertain actor " (numbers("Uncertain")) }
                @if let Some(version) = entity.created { ", undone by " a href=(address::version("/version", &entity.id, version.get())) { "version " (version) } }
            }
            @for conflict in conflicts.iter().take(MAX_CHANGES) {
                p.note.bad {
                    "Conflict: "
                    @match conflict["Reason"].as_str() {
                        Some(reason) => (value::plain(reason)),
                        None => { @match &*text(&conflict["Path"]) { "" => "the whole item", path => (value::name(path)) } " is " (side(conflict, "From")) ", and was " (side(conflict, "To")) },
                    }
                }
            }
            dl.facts { @for change in changes.iter().take(MAX_CHANGES) { dt { (value::name(&text(&change["Path"]))) } dd { (side(change, "From")) " → " (side(change, "To")) } } }
            (more(changes.len().saturating_sub(MAX_CHANGES) + conflicts.len().saturating_sub(MAX_CHANGES), ""))
        }
    }
}

/// Renders the counts of a plan and the form that carries it out.
fn plan(app: &App, undo: &Undo, planned: &Entities, is_done: bool, json: &mut Value) -> Markup {
    let (counts, units) = (planned.counts, planned.write_units);
    let sums = [
        ("Entities", planned.changing),
        ("Conflicts", planned.conflicts),
        ("WriteUnits", units),
    ];
    for (name, sum) in sums {
        json[name] = sum.into();
    }
    json["Counts"] = json!(counts);
    #[allow(clippy::cast_precision_loss, reason = "an estimate of a few digits")]
    let price = app.options.price(0.0, units as f64);
    let (request, options) = (&undo.request, &undo.request.options);
    let command = request.command.as_deref().unwrap_or("vzero undo");
    let hidden = [(CSRF, app.secrets.csrf.as_str().to_owned()), ("plan", undo.id.clone())];
    html! {
        dl.facts {
            dt { "Changes" } dd { (count(planned.versions, "version")) " in " (planned.changing) " of " (planned.total) " items" }
            dt { "Conflicts" } dd { (count(planned.conflicts, "item")) }
            dt { "Cost" } dd { "about " (count(units, "write unit")) (price) @if let Some(max) = request.limits.write { ", in at least " (units.div_ceil(max.get().into())) " s" } }
            @if let Some(limit) = request.limit { dt { "Limit" } dd { "the first " (count(limit.get(), "item")) ", in no order" } }
            @if counts.uncertain > 0 { dt { "Uncertain" } dd { (counts.uncertain) " selected versions whose actor can be that of the version before" } }
            @if counts.marked > 0 { dt { "Left out" } dd { (counts.marked) " late, missed or baseline versions, which are no changes" } }
            @if counts.unattributed > 0 { dt { "Left out" } dd { (counts.unattributed) " deletions that name no author" } }
            @for (name, value) in [("Actor", &options.actor), ("Reason", &options.reason), ("Change set", &options.change_set)] {
                @if let Some(value) = value { dt { (name) " of the undo" } dd { (value::word(value)) } }
            }
        }
        @if !is_done { p.note { "The plan is not complete, so it cannot be applied. " a href=(request.again) { "Preview the undo again." } } }
        @else if planned.changing == 0 { p.note { "Nothing changes." @if planned.conflicts > 0 { " " a href=(request.again) { "Choose what happens to items with conflicts." } } } }
        @else {
            p.note { "Whatever reads the stream of the table gets these changes, too: its triggers fire. An item that changes until then stays as it is." }
            @if app.allows_writes() {
                (post(APPLY, &hidden, &html! { button #undo-apply { "Apply" } }, json))
            } @else {
                p.note { "The console is read-only. To apply this plan, start the console with " code { "--write" } " or run " code { (value::visible(command, 4096)) } "." }
            }
        }
    }
}

/// Renders the counts of a run, and what takes it back.
fn results(undo: &Undo, applied: &Entities, json: &mut Value) -> Markup {
    let outcomes: Vec<_> = OUTCOMES.into_iter().zip(applied.outcomes).collect();
    json["Outcomes"] = outcomes.iter().map(|((name, _), count)| (*name, *count)).collect();
    html! {
        dl.facts { @for ((_, name), count) in &outcomes { dt { (name) } dd { (count) } } }
        @if let Some(set) = &undo.request.options.change_set {
            @let of_set = |page| address::link(page, [("change_set", Some(set.clone()))]);
            p {
                "The undo is change set " (value::word(set)) ": " a href=(of_set(CHANGES)) { "show its versions" } ", or "
                a href=(of_set(UNDO)) { "undo it…" }
            }
        }
    }
}
